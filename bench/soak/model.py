"""The model of the soak: `do KIND NUMBER` becomes the calls of that kind, one a turn, then an answer.

It is a process of its own. Sometimes it fails as model servers do: a 500, a stream that is cut off.
"""

import asyncio
import random
import re
from collections.abc import Callable
from typing import Any

from tests.harness.model_answers import (
    DropConnection,
    ModelAnswer,
    called,
    refused,
    said,
    streamed,
    text_chunks,
)
from tests.harness.model_server import ModelRequest, ModelServer

Call = tuple[str, dict[str, Any] | str]

# Looks like a key to every rule that knows the form; it opens nothing.
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
WORDS = 400


def _note(number: int) -> list[Call]:
    path, line = f"notes/{number}.txt", f"mark {number}"
    return [
        ("write_file", {"path": path, "content": f"{line}\n" * 20}),
        ("read_file", {"path": path}),
        ("edit_file", {"path": path, "find": line, "replace": f"done {number}", "all": True}),
        ("move_file", {"source": path, "destination": f"notes/{number}.old"}),
        ("delete_file", {"path": f"notes/{number}.old"}),
    ]


def _question(number: int) -> list[Call]:
    return [
        ("ask_user", {"type": "confirmation", "title": f"Go on with {number}?", "message": "Yes or no."})
    ]


def _shell(command: str) -> list[Call]:
    return [("bash", {"command": command})]


PLANS: dict[str, Callable[[int], list[Call]]] = {
    "talk": lambda _: [],
    "long": lambda _: [],
    "cut": lambda _: [],
    "time": lambda _: [("current_time", {})],
    "read": lambda _: [("read_file", {"path": "notes.txt"})],
    "look": lambda _: [
        ("list_files", {"path": "."}),
        ("search_files", {"pattern": "greet"}),
        ("find_files", {"name_pattern": "*.py"}),
    ],
    "note": _note,
    "command": lambda number: _shell(f"seq 1 100; echo {number}"),
    "flood": lambda _: _shell("seq 1 50000"),
    "stray": lambda _: _shell("(setsid sleep 600 >/dev/null 2>&1 &); echo left one behind"),
    "sleep": lambda _: _shell("sleep 60"),
    "secret": lambda _: _shell(f"echo the token is {SECRET}"),
    "ask": _question,
    "remember": lambda number: [
        ("memory_append", {"content": f"Number {number} was here.", "title": "Soak"}),
        ("memory_search", {"query": f"number {number}"}),
    ],
    "unknown": lambda _: [("make_coffee", {"cups": 2})],
    "broken": lambda _: [("read_file", '{"path": ')],
    "outside": lambda _: [("read_file", {"path": "../../../etc/shadow"})],
}


def decide(asked: ModelRequest) -> ModelAnswer:
    messages = asked.messages
    last = max(place for place, message in enumerate(messages) if message["role"] == "user")
    match = re.search(r"do (\w+) (\d+)", str(messages[last]["content"]))
    if match is None:
        return said("What shall I do?")
    kind, number = match[1], int(match[2])
    if random.random() < 0.01:
        return refused(500, "out of order")
    done = sum(message["role"] == "tool" for message in messages[last:])
    plan = PLANS[kind](number)
    if done < len(plan):
        return called(plan[done], ids=f"call_{number}_{done}")
    if kind == "long":
        return streamed(text_chunks(f"word{place} " for place in range(WORDS)))
    if kind == "cut" and random.random() < 0.5:
        return streamed(text_chunks(["this will ", "not "]), finish=None, usage=False, done=False).then(
            DropConnection()
        )
    return said(f"Done with {kind} {number}.")


async def _serve() -> None:
    server = ModelServer(decide)
    server.keeps_requests = False
    await server.start()
    print(server.base_url, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())
