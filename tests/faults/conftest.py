"""The same places and servers as those of the agent's own tests."""

from tests.e2e.agent.conftest import new_state, place, server

__all__ = ["new_state", "place", "server"]
