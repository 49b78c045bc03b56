"""A sandboxed child beside a plain one: `true` with two pipes read to their end, from a large parent.

Both sides run in a fresh process of 400 MB, where a fork would have to copy as many page tables. Wall time,
for that is what a caller waits; the supervisor that kills the whole tree is always there. One job reads
alone, the other also writes, and then has its changes of metadata judged.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson

from bench.duties import Duty
from bench.rows import Row, interleaved
from interlock.sandbox.jobs import Job
from interlock.sandbox.landlock_backend import LandlockBackend
from interlock.sandbox.profile import SandboxProfile

ROUNDS, ALONE, AT_ONCE, WAVES = 9, 20, 20, 2
PARENT_BYTES = 400 * 10**6
TARGET = 3.0

Spawn = Callable[[], Awaitable[None]]


async def plain() -> None:
    child = await asyncio.create_subprocess_exec(
        "/bin/true", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={}
    )
    await child.communicate()
    assert child.returncode == 0


def sandboxed(backend: LandlockBackend, folder: int, profile: SandboxProfile) -> Spawn:
    job = Job(("/bin/true",), folder, {}, profile)

    async def spawn() -> None:
        async with backend.running(job) as child:
            await asyncio.gather(child.stdout.read(), child.stderr.read())
            assert (await child.wait()).exit_code == 0

    return spawn


async def one_after_another(spawn: Spawn) -> int:
    for _ in range(ALONE):
        await spawn()
    return ALONE


async def at_once(spawn: Spawn) -> int:
    for _ in range(WAVES):
        await asyncio.gather(*(spawn() for _ in range(AT_ONCE)))
    return WAVES * AT_ONCE


def measure() -> dict[str, list[float]]:
    """Milliseconds of a spawn: plain and sandboxed, alone and among twenty."""
    ballast = bytearray(os.urandom(1 << 20) * (PARENT_BYTES >> 20))
    loop = asyncio.new_event_loop()
    backend = LandlockBackend()
    loop.run_until_complete(backend.start())
    folder = os.open("/", os.O_PATH | os.O_DIRECTORY)
    roots = (Path(tempfile.gettempdir()),)
    reading = sandboxed(backend, folder, SandboxProfile(roots))
    writing = sandboxed(backend, folder, SandboxProfile(roots, roots))

    def wall(form: Callable[[Spawn], Awaitable[int]], spawn: Spawn) -> Callable[[], float]:
        async def timed() -> float:
            began = time.perf_counter()
            times = await form(spawn)
            return (time.perf_counter() - began) / times * 1e3

        return lambda: loop.run_until_complete(timed())

    found = {
        form.__name__: interleaved(ROUNDS, *(wall(form, spawn) for spawn in (plain, reading, writing)))
        for form in (one_after_another, at_once)
    }
    loop.run_until_complete(backend.close())
    loop.close()
    assert len(ballast) > PARENT_BYTES // 2
    return found


def rows() -> list[Row]:
    done = subprocess.run([sys.executable, "-m", "bench.spawn"], stdout=subprocess.PIPE, check=True)
    names = {"one_after_another": "alone", "at_once": f"{AT_ONCE} at once"}
    return [
        Row(
            f"a child that {what}, {names[name]}, 400 MB parent",
            ours,
            beside,
            "ms",
            "ms plain asyncio",
            TARGET,
            duty=Duty.child,
        )
        for name, (beside, *sides) in orjson.loads(done.stdout).items()
        for what, ours in zip(("reads", "writes"), sides, strict=True)
    ]


if __name__ == "__main__":
    sys.stdout.buffer.write(orjson.dumps(measure()))
