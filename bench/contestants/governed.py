"""A governed loop of about 150 lines: what the promises cost at the least, without a product around them.

The bare loop, and: a mode that says which tools may run, arguments checked, paths confined to a directory,
secrets masked in what is stored and streamed, and a hash-chained audit in SQLite (`synchronous=FULL`) by
natural group commit. Its barriers are Interlock's: the message is durable before the model is asked, a
read's intent and outcome before the model sees the result, the end before the answer is returned.
"""

import asyncio
import hashlib
import os
import queue
import re
import sqlite3
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from stage import ASKED, KEY, SYSTEM, TOOL, Work, perform, work_given

BODY = b'{"model":%b,"stream":true,"stream_options":{"include_usage":true},"tools":%b,"messages":[%b]}'
ALLOWED = {"chat": {"read_file"}, "chat_safe": set()}
SECRET = re.compile(r"sk-[A-Za-z0-9-]{16,}|ghp_[A-Za-z0-9]{36}|AKIA[0-9A-Z]{16}|-----BEGIN [A-Z ]+KEY-----")
LONGEST_SECRET = 64
INSERT = "INSERT INTO events (stream, seq, time_us, kind, payload, hash) VALUES (?, ?, ?, ?, ?, ?)"
Events = Sequence[tuple[str, dict[str, Any]]]


def masked(value: Any) -> Any:
    if isinstance(value, str):
        return SECRET.sub("***", value)
    if isinstance(value, dict):
        return {key: masked(each) for key, each in value.items()}
    return [masked(each) for each in value] if isinstance(value, list) else value


class Audit:
    """Chained events. One thread commits all that has queued; `append` returns when it is on disk."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._heads: dict[str, tuple[int, bytes]] = {}
        self._queue: queue.SimpleQueue = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    async def append(self, stream: str, events: Events) -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        payloads = [(kind, orjson.dumps(masked(payload))) for kind, payload in events]
        self._queue.put((stream, payloads, loop, future))
        await future

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(
            "CREATE TABLE events (position INTEGER PRIMARY KEY, stream TEXT, seq INTEGER, time_us INTEGER, "
            "kind TEXT, payload BLOB, hash BLOB, UNIQUE (stream, seq))"
        )
        while (first := self._queue.get()) is not None:
            group = [first]
            while not self._queue.empty() and len(group) < 1024:
                group.append(self._queue.get())
            rows = [row for stream, payloads, *_ in group for row in self._chained(stream, payloads)]
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(INSERT, rows)
            connection.execute("COMMIT")
            first[2].call_soon_threadsafe(lambda done: [each[3].set_result(None) for each in done], group)
        connection.close()

    def _chained(self, stream: str, payloads: Sequence[tuple[str, bytes]]) -> list[tuple[Any, ...]]:
        rows = []
        seq, head = self._heads.get(stream, (0, b""))
        for kind, payload in payloads:
            now = time.time_ns() // 1000
            seq, head = seq + 1, hashlib.sha256(b"%b%b%b" % (head, kind.encode(), payload)).digest()
            rows.append((stream, seq, now, kind, payload, head))
        self._heads[stream] = (seq, head)
        return rows


class Stream:
    """Masks text as it arrives; what could be the beginning of a secret is held back."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self._held = ""

    def feed(self, text: str) -> None:
        self._held += text
        cut = self._held.rfind(" ") + 1
        if cut or len(self._held) > LONGEST_SECRET:
            ready, self._held = self._held[: cut or len(text)], self._held[cut or len(text) :]
            self.shown.append(masked(ready))

    def finish(self) -> str:
        self.shown.append(masked(self._held))
        return "".join(self.shown)


class Agent:
    def __init__(self, client: aiohttp.ClientSession, audit: Audit, work: Work) -> None:
        self._client, self._audit, self._work = client, audit, work
        self._root = os.path.realpath(work.folder)

    async def session(self, mode: str = "chat") -> str:
        stream = os.urandom(8).hex()
        await self._audit.append(stream, [("message", {"role": "user", "content": ASKED, "mode": mode})])
        history = [
            orjson.dumps({"role": "system", "content": SYSTEM}),
            orjson.dumps({"role": "user", "content": ASKED}),
        ]
        exposed = [TOOL] if TOOL["function"]["name"] in ALLOWED[mode] else []
        tools, model = orjson.dumps(exposed), orjson.dumps(self._work.model)
        while True:
            text, calls = await self._turn(BODY % (model, tools, b",".join(history)))
            said = {"text": text, "calls": calls}
            if not calls:
                await self._audit.append(stream, [("turn", said), ("done", {})])
                return text
            asked = [{"id": call["id"], "type": "function", "function": call} for call in calls]
            history.append(
                orjson.dumps({"role": "assistant", "content": text or None, "tool_calls": asked})
            )
            events: list[tuple[str, dict[str, Any]]] = [("turn", said)]
            for call in calls:
                result = masked(self._result(mode, call["name"], call["arguments"]))
                events += [("started", call), ("completed", {"id": call["id"], "result": result})]
                content = orjson.dumps(result).decode()
                history.append(
                    orjson.dumps({"role": "tool", "tool_call_id": call["id"], "content": content})
                )
            await self._audit.append(stream, events)

    def _result(self, mode: str, name: str, arguments: str) -> dict[str, Any]:
        """A read has no effect that its intent must precede: both are recorded together, then shown."""
        if name not in ALLOWED[mode]:
            return {"ok": False, "error_code": "MODE_DENIED"}
        try:
            given = orjson.loads(arguments)
            if not isinstance(given, dict) or [type(each) for each in given.values()] != [str]:
                return {"ok": False, "error_code": "INVALID_ARGS"}
            path = os.path.realpath(f"{self._root}/{given.get('path', '')}")
            if not path.startswith(f"{self._root}{os.sep}"):
                return {"ok": False, "error_code": "PATH_DENIED"}
            return {"ok": True, "stdout": Path(path).read_text()}
        except (OSError, ValueError) as error:
            return {"ok": False, "error_code": "EXECUTION_ERROR", "message": str(error)}

    async def _turn(self, body: bytes) -> tuple[str, list[dict[str, str]]]:
        text, calls = Stream(), {}
        async with self._client.post(f"{self._work.base_url}/chat/completions", data=body) as response:
            response.raise_for_status()
            async for line in response.content:
                if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                    continue
                for choice in orjson.loads(line[6:]).get("choices", ()):
                    delta = choice["delta"]
                    if delta.get("content"):
                        text.feed(delta["content"])
                    for part in delta.get("tool_calls") or ():
                        call = calls.setdefault(part["index"], {"id": "", "name": "", "arguments": ""})
                        call["id"] += part.get("id") or ""
                        call["name"] += part["function"].get("name") or ""
                        call["arguments"] += part["function"].get("arguments") or ""
        return text.finish(), list(calls.values())


def main() -> None:
    work, loop = work_given(), asyncio.new_event_loop()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}

    async def client() -> aiohttp.ClientSession:
        return aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=0))

    with tempfile.TemporaryDirectory(dir=Path(work.folder).parent) as home:
        audit = Audit(f"{home}/audit.db")
        opened = loop.run_until_complete(client())
        perform(lambda asked: Agent(opened, audit, asked).session(), work, loop)
        loop.run_until_complete(opened.close())
        audit.close()


main()
