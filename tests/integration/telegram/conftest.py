"""A Bot API double for each test, and ways to open a bot against it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.harness.telegram import TelegramHarness, open_telegram_harness
from tests.harness.telegram_server import TelegramServer

Opening = Callable[..., Awaitable[TelegramHarness]]


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server
    assert server.faults == []


@pytest.fixture
async def open_harness(tmp_path, monkeypatch, telegram) -> AsyncIterator[Opening]:
    """Call it with settings by their names in the environment."""
    async with AsyncExitStack() as stack:

        async def opening(works: bool = True, pace: Any = None, **environment: str) -> TelegramHarness:
            more = {} if pace is None else {"pace": pace}
            harness = open_telegram_harness(
                tmp_path, monkeypatch, telegram, environment, works=works, **more
            )
            return await stack.enter_async_context(harness)

        yield opening
