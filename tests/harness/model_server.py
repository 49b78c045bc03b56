"""A chat completions server on a real socket, which answers as it is told and judges every request.

In a test: `async with OpenAIServer([said("Hello")]) as server`. As a process of its own:
`python -m tests.harness.model_server --port 0`, which prints its address, answers by the model's name
(`work-8-200`: eight tool calls, each in a turn of its own, then an answer of 200 pieces) and shows on
`GET /report` what it was asked and what was wrong with that.
"""

import argparse
import asyncio
import gzip
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import orjson

from tests.harness.model_answers import (
    Delay,
    DropConnection,
    HangForever,
    ModelAnswer,
    ResponseStep,
    called,
    json_answer,
    refused,
    said,
    streamed,
    text_chunks,
)
from tests.harness.model_request_checks import request_faults

KEY = "sk-double-4d1f0b7c9a2e8853"
PATH = "/v1/chat/completions"


# -- what was asked ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelRequest:
    """One request as it came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    data: bytes
    connection: int
    document: Any = None

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.document["messages"]


ChooseAnswer = Callable[[ModelRequest], ModelAnswer]


def by_turns(answers: Sequence[ModelAnswer]) -> ChooseAnswer:
    """By how often the model spoke in the conversation: the same request always gets the same answer."""

    def decide(asked: ModelRequest) -> ModelAnswer:
        turn = sum(message["role"] == "assistant" for message in asked.messages)
        return answers[turn] if turn < len(answers) else refused(500, "the script has ended")

    return decide


def by_model_name(asked: ModelRequest) -> ModelAnswer:
    """`work-CALLS-PIECES-TOOL`: that tool, or any that is offered first, with made-up arguments."""
    match = re.fullmatch(r"work-(\d+)-(\d+)(?:-(\w+))?", asked.document.get("model", ""))
    if match is None:
        return said("This is the answer of a scripted server.")
    calls, pieces, tool = int(match[1]), int(match[2]), match[3]
    done = sum(message["role"] == "tool" for message in asked.messages)
    if done >= calls:
        return streamed(text_chunks(f"word{number} " for number in range(pieces)))
    offered = asked.document.get("tools") or []
    wanted = [each for each in offered if each["function"]["name"] == tool] or offered
    name, arguments = _made_up(wanted, done)
    return called((name, arguments), ids=f"call_{done}")


def _made_up(tools: list[Any], number: int) -> tuple[str, dict[str, Any]]:
    if not tools:
        return "current_time", {}
    function = tools[0]["function"]
    fitting = {"string": f"value {number}", "integer": number, "number": number, "boolean": True}
    properties = function["parameters"].get("properties", {})
    required = function["parameters"].get("required", [])
    return function["name"], {name: fitting.get(properties[name].get("type"), {}) for name in required}


class ModelServer:
    """Answers the requests in turn with `answers`, or as a function decides. `faults` must stay empty."""

    def __init__(self, answers: Sequence[ModelAnswer] | ChooseAnswer = (), key: str | None = KEY) -> None:
        self._script = None if callable(answers) else list(answers)
        self._decide = answers if callable(answers) else self._next
        self.key = key
        self.asked: list[ModelRequest] = []
        self.faults: list[str] = []
        self.connections = 0
        self.requests = 0
        self.keeps_requests = True
        # A client that went away while an answer was not finished.
        self.hung_up = asyncio.Event()
        self.reached = asyncio.Event()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def add(self, *answers: ModelAnswer) -> None:
        assert self._script is not None
        self._script.extend(answers)

    async def __aenter__(self) -> "ModelServer":
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self, port: int = 0) -> "ModelServer":
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", port, limit=2**16)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def close(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def report(self) -> dict[str, Any]:
        return {"requests": self.requests, "connections": self.connections, "faults": self.faults[:50]}

    def _next(self, _asked: ModelRequest) -> ModelAnswer:
        if not self._script:
            self.faults.append("a request that no script foresaw")
            return refused(500, "the script has ended")
        return self._script.pop(0)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.ensure_future(self._serve(reader, writer, self.connections))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
    ) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._exchange(reader, writer, connection):
                    pass
        finally:
            writer.close()

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
    ) -> bool:
        asked = await _read_request(reader, connection)
        if asked.method == "GET" and asked.path == "/report":
            answer = json_answer(self.report())
        else:
            self.requests += 1
            asked = self._judged(asked)
            if self.keeps_requests:
                self.asked.append(asked)
            answer = self._decide(asked)
        return await _Writing(self, reader, writer).answer(answer)

    def _judged(self, asked: ModelRequest) -> ModelRequest:
        if (asked.method, asked.path) != ("POST", PATH):
            self.faults.append(f"{asked.method} {asked.path}")
        given = asked.headers.get("authorization")
        if given != (f"Bearer {self.key}" if self.key else None):
            self.faults.append(f"the Authorization header is {given!r}")
        if asked.headers.get("content-type") != "application/json":
            self.faults.append("the Content-Type is not JSON")
        try:
            document = orjson.loads(asked.data)
        except orjson.JSONDecodeError as error:
            self.faults.append(f"the body is not JSON: {error}")
            return asked
        self.faults += request_faults(document, orjson.loads)
        return replace(asked, document=document)


async def _read_request(reader: asyncio.StreamReader, connection: int) -> ModelRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = {
        name.lower(): value.strip() for name, value in (line.split(":", 1) for line in head[1:] if line)
    }
    data = await reader.readexactly(int(headers.get("content-length", "0")))
    return ModelRequest(method, path, headers, data, connection)


class _Writing:
    """One answer on its way out."""

    def __init__(
        self, server: ModelServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer

    async def answer(self, answer: ModelAnswer) -> bool:
        """Whether the connection can be used again."""
        for step in answer.first:
            if not await self._take(step):
                return False
        self._writer.write(_head(answer))
        steps = _gzipped(answer.steps) if answer.gzipped else answer.steps
        for step in steps:
            self._server.reached.set()
            if not await self._take(
                b"%x\r\n%b\r\n" % (len(step), step) if isinstance(step, bytes) else step
            ):
                return False
        if not answer.ends:
            return await self._take(HangForever())
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()
        return True

    async def _take(self, step: ResponseStep) -> bool:
        match step:
            case bytes():
                self._writer.write(step)
                try:
                    await self._writer.drain()
                except ConnectionError:
                    self._server.hung_up.set()
                    raise
                # Each in a packet of its own, as far as the system lets us.
                await asyncio.sleep(0)
            case Delay():
                await asyncio.sleep(step.seconds)
            case HangForever():
                self._server.reached.set()
                await self._until_gone()
                return False
            case DropConnection():
                self._writer.transport.abort()
                return False
        return True

    async def _until_gone(self) -> None:
        with suppress(ConnectionError):
            while await self._reader.read(65536):
                pass
        self._server.hung_up.set()


def _head(answer: ModelAnswer) -> bytes:
    headers = {"Content-Type": answer.content_type, "Transfer-Encoding": "chunked", **answer.headers}
    if answer.gzipped:
        headers["Content-Encoding"] = "gzip"
    lines = [f"HTTP/1.1 {answer.status} Said", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def _gzipped(steps: tuple[ResponseStep, ...]) -> tuple[ResponseStep, ...]:
    data = gzip.compress(b"".join(step for step in steps if isinstance(step, bytes)))
    return tuple(data[at : at + 20] for at in range(0, len(data), 20))


# -- as a process of its own -------------------------------------------------------------------------


async def _serve_until_stopped(port: int, key: str | None) -> None:
    server = ModelServer(by_model_name, key)
    server.keeps_requests = False
    await server.start(port)
    print(server.base_url, flush=True)  # noqa: T201 - the address is what this process is asked for
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="A scripted chat completions server.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key", default=KEY, help="empty: requests must come without one")
    given = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve_until_stopped(given.port, given.key or None))


if __name__ == "__main__":
    main()
