"""The same harness and model server as those of the agent's own tests."""

from tests.e2e.agent.conftest import harness, new_state, server

__all__ = ["harness", "new_state", "server"]
