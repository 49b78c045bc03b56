"""People at their pages: they follow sessions, send messages, and come back when they are cut off."""

import asyncio
import itertools
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

ANSWER_SECONDS = 20.0
PAUSE_SECONDS = 0.3


@dataclass
class Conversation:
    session_id: str
    messages: list[tuple[str, str]]
    # Every number that was told, in the order it came.
    told: list[int] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)
    accepted: int = 0

    @property
    def is_over(self) -> bool:
        return len(self.ended) == len(self.messages)


class Person:
    """One socket at a time, to whichever gateway lets it in."""

    def __init__(self, ports: Sequence[int], token: str, conversations: Sequence[Conversation]) -> None:
        self._ports = itertools.cycle(ports)
        self._headers = {"Authorization": f"Bearer {token}"}
        self._conversations = {each.session_id: each for each in conversations}
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._ids = itertools.count(1)
        self.comebacks = 0
        # From sending a message to the first piece of its answer, of those that went undisturbed.
        self.sent_at: dict[str, float] = {}
        self.first_after: dict[str, float] = {}

    @property
    def is_done(self) -> bool:
        return all(each.is_over for each in self._conversations.values())

    async def run(self) -> None:
        while not self.is_done:
            try:
                await self._one_socket()
            except (OSError, WebSocketException, TimeoutError):
                self.comebacks += 1
                self.sent_at.clear()
                await asyncio.sleep(PAUSE_SECONDS * (0.5 + random.random()))

    async def _one_socket(self) -> None:
        address = f"ws://127.0.0.1:{next(self._ports)}/ws"
        async with connect(
            address, additional_headers=self._headers, open_timeout=ANSWER_SECONDS
        ) as socket:
            reading = asyncio.create_task(self._read(socket))
            talking = asyncio.create_task(self._talk(socket))
            try:
                await asyncio.wait({reading, talking}, return_when=asyncio.FIRST_COMPLETED)
                if talking.done():
                    talking.result()
                while not self.is_done and not reading.done():
                    await asyncio.sleep(0.05)
                if reading.done():
                    reading.result()
            finally:
                for task in (reading, talking):
                    task.cancel()
                await asyncio.gather(reading, talking, return_exceptions=True)

    async def _talk(self, socket: ClientConnection) -> None:
        for each in self._conversations.values():
            await self._ask(
                socket,
                "session.subscribe",
                session_id=each.session_id,
                after_seq=each.told[-1] if each.told else 0,
            )
        # One message of each in turn, so that all sessions are busy at once.
        rounds = max(len(each.messages) for each in self._conversations.values())
        for place in range(rounds):
            for each in self._conversations.values():
                if each.accepted == place < len(each.messages):
                    task_id, content = each.messages[place]
                    self.sent_at[task_id] = asyncio.get_running_loop().time()
                    await self._ask(
                        socket, "chat.send", session_id=each.session_id, content=content, task_id=task_id
                    )
                    each.accepted += 1

    async def _ask(self, socket: ClientConnection, method: str, **params: Any) -> dict[str, Any]:
        identity = f"r{next(self._ids)}"
        answer = self._waiting[identity] = asyncio.get_running_loop().create_future()
        try:
            request = {"type": "request", "id": identity, "method": method, "params": params}
            await socket.send(orjson.dumps(request).decode())
            async with asyncio.timeout(ANSWER_SECONDS):
                frame = await answer
        finally:
            self._waiting.pop(identity, None)
        if frame["type"] == "error":
            # The store is away, or it is too much at once: come back.
            raise TimeoutError(frame["data"]["message"])
        return frame["data"]

    async def _read(self, socket: ClientConnection) -> None:
        async for text in socket:
            frame = orjson.loads(text)
            waiting = self._waiting.get(frame["id"])
            is_end = frame["type"] == "error" and "task_id" in frame["data"]
            if waiting is not None and frame["type"] in {"response", "error"} and not is_end:
                with suppress(asyncio.InvalidStateError):
                    waiting.set_result(frame)
            elif (each := self._conversations.get(frame["session_id"] or "")) is not None:
                self._note(each, frame)

    def _note(self, each: Conversation, frame: dict[str, Any]) -> None:
        data, task_id = frame["data"], frame["data"].get("task_id")
        if frame["seq"] is not None:
            each.told.append(frame["seq"])
        if frame["type"] == "stream_chunk" and not data["done"] and task_id in self.sent_at:
            self.first_after[task_id] = asyncio.get_running_loop().time() - self.sent_at.pop(task_id)
        if frame["type"] == "error" or (frame["type"] == "stream_chunk" and data["done"]):
            assert task_id not in each.ended, f"the end of {task_id} was told twice"
            each.ended[task_id] = data.get("code", "done")


async def begin(port: int, token: str, sessions: int, mode: str) -> list[str]:
    """So many new sessions, in that mode."""
    address = f"ws://127.0.0.1:{port}/ws"
    made = []
    async with connect(address, additional_headers={"Authorization": f"Bearer {token}"}) as socket:

        async def ask(method: str, **params: Any) -> dict[str, Any]:
            await socket.send(
                orjson.dumps({"type": "request", "id": method, "method": method, "params": params}).decode()
            )
            while (frame := orjson.loads(await socket.recv()))["id"] != method:
                pass
            assert frame["type"] == "response", frame
            # Fewer than a socket may ask for in a second.
            await asyncio.sleep(0.025)
            return frame["data"]

        for _ in range(sessions):
            session_id = (await ask("session.create"))["session"]["id"]
            if mode != "chat_safe":
                await ask("session.set_mode", session_id=session_id, mode=mode)
            made.append(session_id)
    return made
