"""A Bot API double and a bot for each test; what is left of it is ended."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.harness.bot_process import BotForkServer, BotProcess
from tests.harness.telegram_server import TelegramServer


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server
    assert server.faults == []


@pytest.fixture(scope="session")
def fork_server() -> Iterator[BotForkServer]:
    fork_server = BotForkServer()
    yield fork_server
    fork_server.close()


@pytest.fixture
def made() -> Iterator[list[BotProcess]]:
    bots: list[BotProcess] = []
    yield bots
    for bot in bots:
        bot.kill()


@pytest.fixture
def new_bot(tmp_path, telegram, fork_server, made):
    def new(*items, **variables) -> BotProcess:
        made.append(BotProcess(fork_server, tmp_path, telegram, *items, **variables))
        return made[-1]

    return new
