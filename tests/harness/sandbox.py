"""A sandbox to attack: an inside, an outside with a secret, and programs that say how far they came."""

import asyncio
import os
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from interlock.sandbox.jobs import Job, JobExit, JobLimits
from interlock.sandbox.landlock_backend import LandlockBackend, LandlockJob
from interlock.sandbox.profile import SandboxProfile

SECRET = "THE-SECRET-OUTSIDE"
MARK = "INTERLOCK_TEST_MARK"
PYTHON = str(Path(sys.executable).resolve())


@dataclass(frozen=True, slots=True)
class FinishedJob:
    ended: JobExit
    out: str
    err: str

    @property
    def both(self) -> str:
        return self.out + self.err


# What takes no time may take this long where others have the processors; the jobs of tests go on longer.
SOON_SECONDS = 15.0


@dataclass
class SandboxHarness:
    """`inside` is opened, `outside` is not. Every child carries `mark`, so that none can hide."""

    backend: LandlockBackend
    place: Path
    mark: str = field(default_factory=lambda: secrets.token_hex(12))
    losses: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.inside, self.outside = self.place / "inside", self.place / "outside"
        for folder in (self.inside, self.outside):
            folder.mkdir()
        (self.inside / "file").write_text("inside\n")
        (self.outside / "file").write_text(SECRET)
        self.folder = os.open(self.inside, os.O_RDONLY | os.O_DIRECTORY)

    def profile(self, kind: str, ports: frozenset[int] = frozenset()) -> SandboxProfile:
        writable = (self.inside,) if kind == "coding" else ()
        return SandboxProfile((self.inside,), writable, network_ports=ports)

    def job(self, *argv: str | bytes, kind: str = "coding", **options) -> Job:
        environment = {"PATH": "/usr/bin:/bin", MARK: self.mark, **options.pop("environment", {})}
        profile = self.profile(kind, options.pop("ports", frozenset()))
        options.setdefault("limits", JobLimits(processes=64, memory_bytes=256 * 2**20, file_bytes=2**20))
        return Job(argv, self.folder, environment, profile, **options)

    async def run(self, *argv: str | bytes, **options) -> FinishedJob:
        async with self.backend.running(self.job(*argv, **options)) as child:
            return await finished(child)

    async def shell(self, script: str, **options) -> FinishedJob:
        return await self.run("/bin/sh", "-c", script, **options)

    async def python(self, code: str, *arguments: str, **options) -> FinishedJob:
        return await self.run(PYTHON, "-I", "-S", "-c", code, *arguments, **options)

    def survivors(self) -> list[int]:
        """Every process that was started here and is still alive."""
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found


async def only_survivor(world: SandboxHarness) -> int:
    """The one process of a job. For a moment, while it executes another program, none is to be seen."""
    found: list[int] = []

    def is_there() -> bool:
        found[:] = world.survivors()
        return len(found) == 1

    assert await eventually(is_there), found
    return found[0]


async def finished(child: LandlockJob) -> FinishedJob:
    out, err = await asyncio.gather(everything(child.stdout), everything(child.stderr))
    ended = await child.wait()
    return FinishedJob(ended, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


async def everything(output) -> bytes:
    found = []
    while data := await output.read():
        found.append(data)
    return b"".join(found)


async def first_line(output) -> str:
    """The first line, which says that a child has come as far as it should."""
    found = b""
    while not found.endswith(b"\n"):
        data = await output.read(1)
        if not data:
            break
        found += data
    return found.decode().strip()


async def eventually(holds: Callable[[], bool], seconds: float = SOON_SECONDS) -> bool:
    """For what nobody announces, such as the end of a process that is not ours."""
    until = time.monotonic() + seconds
    while not holds() and time.monotonic() < until:
        await asyncio.sleep(0.01)
    return holds()
