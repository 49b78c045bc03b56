"""Gateways for tests: one with the demo model, and a way to open others."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from tests.integration.gateway.house import House, opened_house

Opening = Callable[..., Awaitable[House]]


@pytest.fixture
async def open_house(tmp_path, monkeypatch) -> AsyncIterator[Opening]:
    """Call it with settings by their names in the environment."""
    async with AsyncExitStack() as stack:

        async def opening(**environment: str) -> House:
            return await stack.enter_async_context(opened_house(tmp_path, monkeypatch, environment))

        yield opening


@pytest.fixture
async def house(open_house) -> House:
    return await open_house()
