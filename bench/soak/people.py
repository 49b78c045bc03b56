"""People who use one Interlock: they talk, wait, change their minds, and go away without a word."""

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

ANSWER_SECONDS = 60.0
# How often each is asked for, of all orders.
ORDERS = {
    "talk": 14, "time": 10, "read": 14, "look": 8, "note": 10, "command": 10, "flood": 2, "stray": 2,
    "sleep": 2, "secret": 4, "ask": 5, "remember": 2, "unknown": 2, "broken": 2, "outside": 4, "long": 5,
    "cut": 4,
}  # fmt: skip
# Those whose time says how quick the server is; the others wait for something else.
TIMED = ("talk", "time", "read")
MODES = ("coding", "coding", "coding", "chat", "plan", "chat_safe")


@dataclass
class Tally:
    """What happened since it was last looked at."""

    ends: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)
    denied: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def tasks(self) -> int:
        return self.ends.total()


class Page:
    """One socket: requests get their answers, frames of tasks tell when these end."""

    def __init__(self, socket: ClientConnection, tally: Tally) -> None:
        self._socket = socket
        self._tally = tally
        self._ids = itertools.count(1)
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._ends: dict[str, asyncio.Future[str]] = {}
        self.questions: asyncio.Queue[str] = asyncio.Queue()
        self.reading = asyncio.create_task(self._read())

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        name = f"r{next(self._ids)}"
        answer = self._answers[name] = asyncio.get_running_loop().create_future()
        request = {"type": "request", "id": name, "method": method, "params": params}
        await self._socket.send(orjson.dumps(request).decode())
        async with asyncio.timeout(ANSWER_SECONDS):
            frame = await answer
        if frame["type"] == "error":
            raise RefusedError(f"{method}: {frame['data']['code']}: {frame['data']['message']}")
        return frame["data"]

    async def send(self, session_id: str, content: str) -> tuple[str, asyncio.Future[str]]:
        task_id = f"t_{random.getrandbits(64):016x}"
        end = self._ends[task_id] = asyncio.get_running_loop().create_future()
        await self.ask("chat.send", session_id=session_id, content=content, task_id=task_id)
        return task_id, end

    async def _read(self) -> None:
        async for text in self._socket:
            frame = orjson.loads(text)
            data = frame["data"]
            is_end = "task_id" in data and (
                frame["type"] == "error" or (frame["type"] == "stream_chunk" and data["done"])
            )
            if is_end and (end := self._ends.pop(data["task_id"], None)) is not None:
                end.set_result(data.get("code", "done"))
            elif frame["type"] in {"response", "error"} and frame["id"] in self._answers:
                self._answers.pop(frame["id"]).set_result(frame)
            elif frame["type"] == "ask_user":
                self.questions.put_nowait(data["question_id"])
            elif frame["type"] == "tool_denied":
                self._tally.denied += 1


class RefusedError(Exception):
    """A request was answered with an error."""


async def _unless(code: str, request: Awaitable[object]) -> None:
    """That it came too late, or was refused before, is no fault."""
    try:
        await request
    except RefusedError as refused:
        if code not in str(refused):
            raise


class Person:
    def __init__(self, port: int, token: str, tally: Tally, numbers: "itertools.count[int]") -> None:
        self._port = port
        self._headers = {"Authorization": f"Bearer {token}"}
        self._tally = tally
        self._numbers = numbers
        self.pause_seconds = 1.5

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self._visit(stop)
            except (OSError, WebSocketException, TimeoutError, RefusedError, aiohttp.ClientError) as error:
                self._tally.faults.append(f"{type(error).__name__}: {error}")
                await asyncio.sleep(1)

    async def _visit(self, stop: asyncio.Event) -> None:
        """One session, from its beginning to whatever becomes of it."""
        address = f"ws://127.0.0.1:{self._port}/ws"
        async with connect(address, additional_headers=self._headers) as socket:
            page = Page(socket, self._tally)
            try:
                session_id = (await page.ask("session.create", mode=random.choice(MODES)))["session"]["id"]
                for _ in range(random.randint(4, 16)):
                    if stop.is_set():
                        break
                    if not await self._order(page, session_id):
                        # As when the lid is closed: the socket breaks off, the task goes on.
                        socket.transport.abort()
                        return
                    await asyncio.sleep(random.expovariate(1 / self.pause_seconds))
                await self._afterwards(page, session_id)
            finally:
                page.reading.cancel()
                await asyncio.gather(page.reading, return_exceptions=True)

    async def _order(self, page: Page, session_id: str) -> bool:
        [kind] = random.choices(list(ORDERS), list(ORDERS.values()))
        began = time.perf_counter()
        task_id, end = await page.send(session_id, f"do {kind} {next(self._numbers)}")
        if random.random() < 0.02:
            self._tally.ends["left alone"] += 1
            return False
        if kind == "sleep":
            await asyncio.sleep(random.uniform(0, 2))
            await _unless("TASK_STATUS", page.ask("chat.cancel", session_id=session_id, task_id=task_id))
        elif kind == "ask":
            await self._answer(page, end)
        async with asyncio.timeout(ANSWER_SECONDS):
            self._tally.ends[await end] += 1
        if kind in TIMED:
            self._tally.waits.append(time.perf_counter() - began)
        if kind == "note" and random.random() < 0.3:
            await _unless("NOTHING_TO_UNDO", page.ask("tasks.undo", task_id=task_id))
        return True

    async def _answer(self, page: Page, end: asyncio.Future[str]) -> None:
        asked = asyncio.create_task(page.questions.get())
        await asyncio.wait({asked, end}, timeout=ANSWER_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            await page.ask(
                "ask_user.answer",
                question_id=asked.result(),
                answer={"confirmed": random.random() < 0.5},
            )
        asked.cancel()

    async def _afterwards(self, page: Page, session_id: str) -> None:
        await page.ask("session.list", limit=50)
        await page.ask("events.tree", session_id=session_id)
        await page.ask("policy.matrix", session_id=session_id)
        match random.randrange(5):
            case 0:
                await page.ask("session.delete", session_id=session_id)
            case 1:
                await page.ask("session.archive", session_id=session_id)
            case 2:
                await page.ask("session.search", query=f"command {random.randrange(1000)}")
                await page.ask("stats.get", days=1)
            case 3:
                await self._download((await page.ask("session.export", session_id=session_id))["url"])
            case _:
                await page.ask("events.tail", limit=100)

    async def _download(self, path: str) -> None:
        async with (
            aiohttp.ClientSession(headers=self._headers) as http,
            http.get(f"http://127.0.0.1:{self._port}{path}") as answer,
        ):
            answer.raise_for_status()
            await answer.read()
