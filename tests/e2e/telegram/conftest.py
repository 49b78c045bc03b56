"""A Bot API double and a bot for each test; what is left of it is ended."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.harness.bot_process import BotProcess
from tests.harness.fork_client import shared_fork_client
from tests.harness.telegram_server import TelegramServer


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server
    assert server.faults == []


@pytest.fixture
def made() -> Iterator[list[BotProcess]]:
    bots: list[BotProcess] = []
    yield bots
    for bot in bots:
        bot.kill()


@pytest.fixture
def new_bot(tmp_path, telegram, made):
    def new(*items, **variables) -> BotProcess:
        made.append(BotProcess(shared_fork_client(), tmp_path, telegram, *items, **variables))
        return made[-1]

    return new
