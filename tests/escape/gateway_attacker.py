"""Somebody who speaks to a gateway as no honest client would, in bytes, over a real connection."""

import asyncio
import base64
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PATIENCE = 15.0
TEXT, BINARY, PING, CONTINUED = 1, 2, 9, 0


def frame(data: bytes | str = b"", opcode: int = TEXT, *, is_last: bool = True) -> bytes:
    """One frame as a client sends it; the mask is zero, so that what is sent is what was meant."""
    payload = data.encode() if isinstance(data, str) else data
    return frame_head(len(payload), opcode, is_last=is_last) + payload


def frame_head(length: int, opcode: int = TEXT, *, is_last: bool = True) -> bytes:
    first = opcode | (0x80 if is_last else 0)
    if length < 126:
        return struct.pack("!BB4x", first, 0x80 | length)
    if length < 65_536:
        return struct.pack("!BBH4x", first, 0x80 | 126, length)
    return struct.pack("!BBQ4x", first, 0x80 | 127, length)


def asking(method: str, identity: Any = 1, **params: Any) -> bytes:
    return frame(json.dumps({"type": "request", "id": identity, "method": method, "params": params}))


def head(target: str, port: int, headers: Mapping[str, str] | None = None, *, method: str = "GET") -> bytes:
    given = {"Host": f"127.0.0.1:{port}", **(headers or {})}
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": base64.b64encode(b"0123456789abcdef").decode(),
}


class Wire:
    """One connection. With a small `window` little can wait between the two ends."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self.reader, self.writer, self.port = reader, writer, port

    @classmethod
    async def open(cls, port: int, window: int | None = None) -> "Wire":
        end = socket.socket()
        end.setblocking(False)
        if window is not None:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        await asyncio.get_running_loop().sock_connect(end, ("127.0.0.1", port))
        # Beyond twice the limit nothing is read that nobody asked for.
        limit = 2**20 if window is None else 512
        return cls(*await asyncio.open_connection(sock=end, limit=limit), port)

    @classmethod
    async def socket(cls, port: int, token: str, window: int | None = None) -> "Wire":
        """Past the handshake of a WebSocket."""
        wire = await cls.open(port, window)
        await wire.send(head("/ws", port, {**UPGRADE, "Authorization": f"Bearer {token}"}))
        answer = await wire.reader.readuntil(b"\r\n\r\n")
        assert b" 101 " in answer, answer
        return wire

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        async with asyncio.timeout(PATIENCE):
            await self.writer.drain()

    async def pour(self, data: bytes, most_bytes: int) -> int:
        """As much as it takes, until it is cut off or does not take any more for a while."""
        sent = 0
        with suppress(OSError, TimeoutError):
            while sent < most_bytes and not self.writer.is_closing():
                self.writer.write(data)
                async with asyncio.timeout(1.0):
                    await self.writer.drain()
                sent += len(data)
        return sent

    async def rest(self, patience: float = PATIENCE) -> bytes:
        """Everything that comes until the other side ends it. It has to."""
        said = b""
        async with asyncio.timeout(patience):
            with suppress(OSError):
                while more := await self.reader.read(65_536):
                    said += more
        return said

    async def close(self) -> None:
        self.writer.transport.abort()
        with suppress(OSError):
            await self.writer.wait_closed()


async def exchange(port: int, data: bytes) -> tuple[int, bytes]:
    """Send these bytes and hang up on our side only: the status, and all that is answered."""
    wire = await Wire.open(port)
    try:
        await wire.send(data)
        said = await wire.rest()
    finally:
        await wire.close()
    return (int(said.split(b" ", 2)[1]) if said else 0), said


async def get(port: int, target: str, headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    return await exchange(port, head(target, port, {"Connection": "close", **(headers or {})}))


async def post(
    port: int, target: str, body: Any, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {
        "Origin": f"http://127.0.0.1:{port}",
        "Content-Length": str(len(data)),
        "Connection": "close",
        **(headers or {}),
    }
    return await exchange(port, head(target, port, given, method="POST") + data)


def closes_in(data: bytes) -> list[int]:
    """The numbers of close frames among what a server sent."""
    numbers, at = [], 0
    while at + 2 <= len(data):
        opcode, length, size = data[at] & 15, data[at + 1] & 127, 2
        if length == 126:
            length, size = struct.unpack_from("!H", data, at + 2)[0], 4
        elif length == 127:
            length, size = struct.unpack_from("!Q", data, at + 2)[0], 10
        if opcode == 8 and length >= 2:
            numbers.append(struct.unpack_from("!H", data, at + size)[0])
        at += size + length
    return numbers


class Child:
    """`interlock serve` as a process of its own, with a token for whoever attacks it."""

    def __init__(self, home: Path, **variables: str) -> None:
        self.home = home
        self.token = ""
        self._variables = variables
        self._process: subprocess.Popen[str] | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "INTERLOCK_STATE_DIR": str(self.home / "state"),
            "WORKSPACE_DIR": str(self.home / "workspace"),
            **self._variables,
        }

    def interlock(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "interlock", *arguments],
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def start(self, *arguments: str) -> "Child":
        if not self.token:
            made = self.interlock("token", "add", "attacker")
            assert made.returncode == 0, made.stderr
            self.token = made.stdout.strip()
        with (self.home / "stderr.txt").open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "interlock", "serve", "--port", "0", *arguments],
                env=self.environment,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        link = self._process.stdout.readline().strip()
        assert "#code=" in link, self.complaints()
        self.link = urlsplit(link)
        self.port = int(self.link.port or 0)
        return self

    @property
    def megabytes(self) -> int:
        """What it has in memory."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") // 2**20

    @property
    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self._process.pid}/fd").iterdir()))

    def complaints(self) -> str:
        return (self.home / "stderr.txt").read_text()

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """How it ended, and after how many seconds."""
        began, process = time.monotonic(), self._process
        process.send_signal(number)
        try:
            return process.wait(PATIENCE), time.monotonic() - began
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
