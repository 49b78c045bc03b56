"""A Bot API double and a bot for each test; what is left of it is ended."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.doubles.telegram_server import TelegramServer
from tests.e2e.telegram.process import BotProcess, Nursery


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server
    assert server.faults == []


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def made() -> Iterator[list[BotProcess]]:
    bots: list[BotProcess] = []
    yield bots
    for bot in bots:
        bot.kill()


@pytest.fixture
def new_bot(tmp_path, telegram, nursery, made):
    def new(*items, **variables) -> BotProcess:
        made.append(BotProcess(nursery, tmp_path, telegram, *items, **variables))
        return made[-1]

    return new
