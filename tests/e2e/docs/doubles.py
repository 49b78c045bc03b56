"""What a reader has elsewhere: a server with a model, and Telegram. Here both are on loopback."""

import asyncio
import socket
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.harness.model_answers import ModelAnswer, called, said
from tests.harness.model_server import ModelRequest, ModelServer
from tests.harness.telegram_server import TOKEN, TelegramServer

Result = TypeVar("Result")

GREET = "src/greet.py"
FAREWELL = 'def farewell(name: str) -> str:\n    return f"Goodbye, {name}"\n'


@dataclass
class Doubles:
    model: ModelServer
    telegram: TelegramServer
    variables: dict[str, str]
    stand_ins: dict[str, str]


def work(asked: ModelRequest) -> ModelAnswer:
    """What the model of the pages does: by what it was asked first, and how often it has spoken since."""
    words = " ".join(str(each["content"]) for each in asked.messages if each["role"] == "user")
    turn = sum(each["role"] == "assistant" for each in asked.messages)
    plays = {
        "farewell": [
            called(("read_file", {"path": GREET}), ids="call_1"),
            called(
                ("write_file", {"path": GREET, "content": f"\n\n{FAREWELL}", "mode": "append"}),
                ids="call_2",
            ),
            said("I added farewell(name) below greet(name)."),
        ],
    }
    play = next((play for word, play in plays.items() if word in words), [])
    return play[turn] if turn < len(play) else said("It is a folder for trying Interlock out.")


class _Beside:
    """A loop on a thread of its own, beside the commands that are waited for."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()


@contextmanager
def doubles() -> Iterator[Doubles]:
    beside = _Beside()
    model = beside.do(_made(lambda: ModelServer(work, key=None)))
    beside.do(model.start())
    telegram = beside.do(_made(TelegramServer))
    beside.do(telegram.start())
    try:
        yield Doubles(
            model,
            telegram,
            {"OPENAI_BASE_URL": model.base_url, "TELEGRAM_BASE_URL": telegram.base_url},
            {"http://127.0.0.1:11434/v1": model.base_url, "123456:REPLACE-ME": TOKEN},
        )
    finally:
        beside.do(telegram.stop())
        beside.do(model.close())
        beside.close()
    assert model.faults == []
    assert telegram.faults == []


async def _made(make: Any) -> Any:
    """Some of them keep to the loop that they are made in."""
    return make()


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])
