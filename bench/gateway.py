"""The gateway beside a bare Starlette application under the same uvicorn: idle sockets, and streaming ones.

Each server is a process of its own (`gateway_sides.py`) and says what it used; the sockets' other ends are
here, and only keep what comes. All servers send the same bytes, and that they did is looked at in the end.
"""

import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.duties import Duty
from bench.environments import ROOT
from bench.gateway_sides import Followed, frames_of
from bench.rows import Row

IDLE, STREAMING, ROUNDS, PIECES = 1000, 200, 5, 40
IDLE_SECONDS = 5
FRAME_MICROSECONDS = 15.0
# Connected at the same time.
AT_ONCE = 50
WARM_UP = 20
PATIENCE = 30.0


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as home:
        return asyncio.run(_measured(Path(home)))


async def _measured(home: Path) -> list[Row]:
    memory, idle = await _idle(home)
    shared = await _streaming(home, ("ours", "bare", "writes"), sessions=1)
    single = await _streaming(home, ("ours", "bare"), sessions=STREAMING)
    bare, piece = "bare Starlette", f"a piece to each of {STREAMING} sockets"
    return [
        Row(f"memory of one of {IDLE} idle sockets, each following a session", *memory, "KB", bare, 2.0),
        Row(f"{IDLE} idle sockets for a second", *idle, "ms CPU", bare, 4.0),
        Row(f"{piece} that follow one session", shared[0], shared[1], "µs CPU", bare, 1.5),
        Row(
            "the same",
            *(shared[0], shared[2], "µs CPU", "one write each and nothing else", 2.5),
            duty=Duty.frame,
        ),
        Row("the same", shared[0], FRAME_MICROSECONDS, "µs CPU", "µs asked", 1.0, duty=Duty.frame),
        Row(f"{piece} that follow one each", single[0], single[1], "µs CPU", bare, 2.0),
    ]


async def _idle(home: Path) -> tuple[tuple[float, float], tuple[float, float]]:
    """Kilobytes of a socket, and milliseconds of processor time in a second, of ours and of the bare one.

    Pings, which both send every twenty seconds, should not have begun by then.
    """
    async with _servers(home, ("ours", "bare"), sessions=IDLE) as servers:
        ours, bare = [await _idle_cost(server) for server in servers]
    return (ours[0], bare[0]), (ours[1], bare[1])


async def _idle_cost(server: "Server") -> tuple[float, float]:
    async with server.followed_by(WARM_UP):
        pass
    empty = await server.cost()
    await server.follow(IDLE)
    full = await server.cost()
    spent = []
    for _ in range(IDLE_SECONDS):
        began = (await server.cost()).since
        await asyncio.sleep(1)
        spent.append(((await server.cost()).until - began) * 1000)
    return (full.rss - empty.rss) / IDLE / 1024, statistics.median(spent)


async def _streaming(home: Path, sides: Sequence[str], *, sessions: int) -> list[float]:
    """Microseconds of processor time for each frame that arrived, of each side."""
    async with _servers(home, sides, sessions=sessions) as servers:
        for server in servers:
            await server.follow(STREAMING)
        figures: list[list[float]] = [[] for _ in servers]
        for number in range(ROUNDS + 1):
            for server, found in zip(servers, figures, strict=True):
                found.append(await server.stream(range(number * PIECES, (number + 1) * PIECES)))
        for server in servers:
            server.check((ROUNDS + 1) * PIECES)
    # The first round is for warming up.
    return [statistics.median(found[1:]) for found in figures]


# -- the other ends of the sockets --


class Client(asyncio.Protocol):
    """Keeps the frames that come, and says so; it knows no more of WebSockets than it needs for that."""

    def __init__(self, request: bytes, follow: str, told: Callable[[], None]) -> None:
        self.frames: list[bytes] = []
        self._request = request
        self._follow = follow
        self._told = told
        self._buffer = b""
        self._is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._is_open:
            head, found, self._buffer = self._buffer.partition(b"\r\n\r\n")
            assert found, head
            assert head.startswith(b"HTTP/1.1 101 "), head
            self._is_open = True
            self.transport.write(_masked(0x81, self._follow.encode()))
        while len(self._buffer) >= 2 and self._take():
            pass

    def _take(self) -> bool:
        buffer, begin, size = self._buffer, 2, self._buffer[1]
        if size == 126:
            begin, size = 4, int.from_bytes(buffer[2:4], "big")
        assert size < 126 or begin == 4, "no frame here is that large"
        if len(buffer) < begin + size:
            return False
        payload, self._buffer = buffer[begin : begin + size], buffer[begin + size :]
        if buffer[0] == 0x81:
            self.frames.append(payload)
            self._told()
        else:
            assert buffer[0] == 0x89, f"closed: {payload!r}"
            self.transport.write(_masked(0x8A, payload))
        return True


def _masked(kind: int, payload: bytes) -> bytes:
    # A mask of zeros changes nothing.
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else bytes([0x80 | 126]) + size.to_bytes(2, "big")
    return bytes([kind]) + length + bytes(4) + payload


class Crowd:
    """Tells when as many frames have come as were expected."""

    def __init__(self) -> None:
        self._missing = 0
        self._all_there: asyncio.Future[None] | None = None

    def expect(self, frames: int) -> "asyncio.Future[None]":
        self._missing = frames
        self._all_there = asyncio.get_running_loop().create_future()
        return self._all_there

    def told(self) -> None:
        self._missing -= 1
        if not self._missing and self._all_there is not None:
            self._all_there.set_result(None)


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of processor time, until it was asked for and from when it was answered; and bytes."""

    until: float
    since: float
    rss: float


class Server:
    """One of the processes, and the sockets to it."""

    def __init__(self, process: asyncio.subprocess.Process, welcome: dict[str, Any]) -> None:
        self.followed: list[Followed] = [(session, task) for session, task in welcome["followed"]]
        self._process = process
        self._port = welcome["port"]
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in welcome["headers"].items())
        self._clients: list[Client] = []
        self._crowd = Crowd()

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())

    async def cost(self) -> Cost:
        assert self._process.stdout is not None
        self.tell("cost")
        return Cost(**json.loads(await self._process.stdout.readline()))

    @asynccontextmanager
    async def followed_by(self, sockets: int) -> AsyncIterator[None]:
        await self.follow(sockets)
        yield
        for client in self._clients:
            client.transport.abort()
        self._clients.clear()
        await asyncio.sleep(1)

    async def follow(self, sockets: int) -> None:
        """One after the other follows the next session, and from the first again after the last."""
        for begin in range(0, sockets, AT_ONCE):
            places = range(begin, min(begin + AT_ONCE, sockets))
            answered = self._crowd.expect(len(places))
            self._clients += await asyncio.gather(*(self._connect(place) for place in places))
            await asyncio.wait_for(answered, PATIENCE)
        for client in self._clients:
            client.frames.clear()

    async def _connect(self, place: int) -> Client:
        session_id, _ = self.followed[place % len(self.followed)]
        params = {"session_id": session_id, "last": 0}
        follow = {"type": "request", "id": 1, "method": "session.subscribe", "params": params}
        request = (
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n{self._headers}"
            "Upgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        _, client = await asyncio.get_running_loop().create_connection(
            lambda: Client(request.encode(), json.dumps(follow), self._crowd.told), "127.0.0.1", self._port
        )
        return client

    async def stream(self, pieces: range) -> float:
        """Each piece is given when everybody has the one before: none is put together with another."""
        began = (await self.cost()).since
        for number in pieces:
            arrived = self._crowd.expect(len(self._clients))
            self.tell(f"piece {number}")
            await asyncio.wait_for(arrived, PATIENCE)
        spent = (await self.cost()).until - began
        return spent * 1e6 / len(pieces) / len(self._clients)

    def check(self, pieces: int) -> None:
        expected = [[frame.encode() for frame in frames_of(each, pieces)] for each in self.followed]
        for place, client in enumerate(self._clients):
            assert client.frames == expected[place % len(expected)], (place, client.frames[-2:])

    async def end(self) -> None:
        for client in self._clients:
            client.transport.abort()
        assert self._process.stdin is not None
        self._process.stdin.close()
        await asyncio.wait_for(self._process.wait(), PATIENCE)


@asynccontextmanager
async def _servers(home: Path, sides: Sequence[str], *, sessions: int) -> AsyncIterator[list[Server]]:
    """Ours first: it makes the sessions, whose names the others' frames carry as well."""
    async with contextlib.AsyncExitStack() as stack:
        servers: list[Server] = []
        for side in sides:
            given = {"sessions": sessions, "followed": servers[0].followed if servers else []}
            file = home / f"{side}-{sessions}"
            file.write_text(json.dumps({**given, "pieces": (ROUNDS + 1) * PIECES}))
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "bench.gateway_sides", side, file),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                cwd=ROOT,
                limit=2**20,
            )
            stack.callback(_kill, process)
            assert process.stdout is not None
            welcome = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
            servers.append(Server(process, json.loads(welcome)))
            stack.push_async_callback(servers[-1].end)
        yield servers


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
