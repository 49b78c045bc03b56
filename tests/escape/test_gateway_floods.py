"""Attacks by too much: the process stays small, cuts off who overdoes it, and serves the others."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import pytest
from websockets.asyncio.client import connect

from tests.escape.gateway_attacker import (
    CONTINUED,
    PING,
    Child,
    Wire,
    asking,
    closes_in,
    frame,
    frame_head,
    head,
)

MEGABYTE = 2**20
# Beside what it had before. A request of a megabyte is many times that once it is read.
MAX_GROWTH_MEGABYTES = 120
MAX_WAIT_SECONDS = 2.0
# By then the other side has ended it.
CUT_OFF_SECONDS = 8.0


@pytest.fixture(scope="module")
def child(tmp_path_factory) -> Iterator[Child]:
    made = Child(tmp_path_factory.mktemp("flooded")).start()
    yield made
    assert made.stop()[0] == 0
    assert "Traceback" not in made.complaints()


@dataclass
class Meanwhile:
    slowest_seconds: float = 0.0
    most_megabytes: int = 0
    asked: int = 0


@asynccontextmanager
async def others_are_served(child: Child) -> AsyncIterator[Meanwhile]:
    """An honest client goes on asking all the time, and is answered soon each time."""
    meanwhile, before = Meanwhile(), child.megabytes
    headers = {"Authorization": f"Bearer {child.token}"}
    async with connect(f"ws://127.0.0.1:{child.port}/ws", additional_headers=headers) as socket:
        is_over = asyncio.Event()

        async def go_on() -> None:
            while not is_over.is_set():
                began = time.monotonic()
                await socket.send(json.dumps({"type": "request", "id": 1, "method": "server.info"}))
                answer = json.loads(await socket.recv())
                assert answer["type"] == "response", answer
                meanwhile.slowest_seconds = max(meanwhile.slowest_seconds, time.monotonic() - began)
                meanwhile.most_megabytes = max(meanwhile.most_megabytes, child.megabytes - before)
                meanwhile.asked += 1
                await asyncio.sleep(0.05)

        going_on = asyncio.create_task(go_on())
        try:
            yield meanwhile
        finally:
            is_over.set()
            await going_on
    assert meanwhile.asked
    assert meanwhile.slowest_seconds < MAX_WAIT_SECONDS, meanwhile
    assert meanwhile.most_megabytes < MAX_GROWTH_MEGABYTES, meanwhile


async def drained(wire: Wire) -> bytes:
    """Reads along until it is told to go, as a client does that wants to go on."""
    said = b""
    with suppress(OSError):
        while (more := await wire.reader.read(65_536)) and not closes_in(said := said + more):
            pass
    return said


async def flooded(child: Child, data: bytes, most_bytes: int) -> tuple[int, bytes]:
    """How much of it was taken, and all that was said to it."""
    wire = await Wire.socket(child.port, child.token)
    reading = asyncio.create_task(drained(wire))
    try:
        taken = await wire.pour(data, most_bytes)
        async with asyncio.timeout(15):
            said = await reading
    finally:
        reading.cancel()
        await wire.close()
    return taken, said


async def test_a_frame_of_100_megabytes_is_not_taken(child):
    async with others_are_served(child):
        wire = await Wire.socket(child.port, child.token)
        await wire.send(frame_head(100 * MEGABYTE))
        taken = await wire.pour(b"x" * MEGABYTE, 100 * MEGABYTE)
        assert taken < 20 * MEGABYTE
        await wire.close()
        wire = await Wire.socket(child.port, child.token)
        await wire.send(frame_head(100 * MEGABYTE))
        assert closes_in(await wire.rest()) == [1009]
        await wire.close()


@pytest.mark.parametrize("size", [64 * 1024, 100, 0])
async def test_nor_is_it_in_many_pieces(child, size):
    """Not even of nothing: there is an end to pieces that never become a message."""
    piece = frame(b"x" * size, CONTINUED, is_last=False)
    data = piece * max(1, 32_768 // len(piece))
    async with others_are_served(child):
        wire = await Wire.socket(child.port, child.token)
        await wire.send(frame(b"x", is_last=False))
        assert await wire.pour(data, 100 * MEGABYTE) < 20 * MEGABYTE
        await wire.rest(CUT_OFF_SECONDS)
        await wire.close()


VALID = asking("server.info")
GARBAGE = frame("x")
FLOODS = {
    "valid": VALID * 100,
    "garbage": GARBAGE * 100,
    "empty": frame() * 100,
    "mixed": (VALID + GARBAGE + frame("[]") + asking("session.list") + frame("{" * 1000)) * 20,
}


@pytest.mark.parametrize("name", FLOODS)
async def test_ten_thousand_frames_at_once_are_too_fast(child, name):
    async with others_are_served(child):
        _, said = await flooded(child, FLOODS[name] * 100, 1)
    assert said.count(b"RATE_LIMITED") <= 201
    assert closes_in(said) == [1008]


async def test_who_goes_on_after_the_close_is_cut_off(child):
    async with others_are_served(child), asyncio.timeout(CUT_OFF_SECONDS):
        taken, _ = await flooded(child, GARBAGE * 5000, 100 * MEGABYTE)
    assert taken < 20 * MEGABYTE


async def test_pings_that_nobody_waits_for_the_answers_of(child):
    async with others_are_served(child):
        wire = await Wire.socket(child.port, child.token, window=4096)
        assert await wire.pour(frame(b"p" * 125, PING) * 1000, 100 * MEGABYTE) < 20 * MEGABYTE
        await wire.rest(CUT_OFF_SECONDS)
        await wire.close()


async def test_large_requests_under_way_are_bounded_together(child):
    """Each is allowed by itself, and takes ten times its size while it is looked at."""
    large = asking("policy.explain", tool_name="read_file", mode="chat", arguments={"path": [{}] * 200_000})
    async with others_are_served(child):
        wire = await Wire.socket(child.port, child.token)
        reading = asyncio.create_task(drained(wire))
        for _ in range(20):
            await wire.send(large)
        await asyncio.sleep(0.5)
        await wire.close()
        said = await reading
    assert b"RATE_LIMITED" in said


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_body_of_100_megabytes_is_not_taken(child, is_chunked):
    length = {"Transfer-Encoding": "chunked"} if is_chunked else {"Content-Length": str(100 * MEGABYTE)}
    given = {"Origin": f"http://127.0.0.1:{child.port}", **length}
    async with others_are_served(child):
        wire = await Wire.open(child.port)
        await wire.send(head("/login", child.port, given, method="POST"))
        reading = asyncio.create_task(drained(wire))
        chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n" if is_chunked else b"x" * 65_536
        taken = await wire.pour(chunk, 100 * MEGABYTE)
        said = await reading
        await wire.close()
    assert taken < 20 * MEGABYTE
    assert said.startswith(b"HTTP/1.1 413") or not said


async def test_nothing_of_all_that_is_left_open(child):
    for _ in range(40):
        if child.open_files <= 60:
            break
        await asyncio.sleep(0.2)
    assert child.open_files <= 60
