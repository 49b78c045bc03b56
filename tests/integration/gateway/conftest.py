"""Gateways for tests: one with the demo model, and a way to open others."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from tests.harness.gateway import GatewayHarness, open_gateway_harness

Opening = Callable[..., Awaitable[GatewayHarness]]


@pytest.fixture
async def open_harness(tmp_path, monkeypatch) -> AsyncIterator[Opening]:
    """Call it with settings by their names in the environment."""
    async with AsyncExitStack() as stack:

        async def opening(**environment: str) -> GatewayHarness:
            return await stack.enter_async_context(open_gateway_harness(tmp_path, monkeypatch, environment))

        yield opening


@pytest.fixture
async def harness(open_harness) -> GatewayHarness:
    return await open_harness()
