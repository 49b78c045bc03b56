"""Runs a program for a tool: its own process group, a clean environment, output read as it comes."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from interlock.sandbox.jobs import ExitReason, Job, SandboxBackend
from interlock.sandbox.profile import SandboxProfile

MAX_STDERR_BYTES = 16 * 1024
LINE_BYTES = 256 * 1024
READ_BYTES = 64 * 1024
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


class Readable(Protocol):
    async def read(self, limit: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class ProgramProcess:
    """A running program, sandboxed or not. `wait` returns its exit code, or 128 plus the signal."""

    output: Readable
    errors: "asyncio.Task[bytes]"
    wait: Callable[[], Awaitable[int]]

    async def lines(self) -> AsyncGenerator[list[bytes], None]:
        """The lines of its output as they come, without their ends. One too long to hold is passed over."""
        rest, is_too_long = b"", False
        while data := await self.output.read(READ_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            if lines and is_too_long:
                del lines[0]
                is_too_long = False
            if len(rest) > LINE_BYTES or is_too_long:
                rest, is_too_long = b"", True
            if lines:
                yield lines
        if rest:
            yield [rest]

    async def finish(self) -> tuple[int, str]:
        """Its exit code and the beginning of what it complained about, once it has ended."""
        code = await self.wait()
        return code, (await self.errors).decode("utf-8", "replace")


@asynccontextmanager
async def confined(
    backend: SandboxBackend, profile: SandboxProfile, program: Path, arguments: Sequence[str], folder: int
) -> AsyncIterator[ProgramProcess]:
    """A child in the sandbox that can only read what the profile opens."""
    job = Job(
        argv=(str(program), *arguments),
        folder=folder,
        environment=_ENVIRONMENT,
        profile=replace(profile, writable_roots=(), network_ports=frozenset()),
    )
    async with backend.running(job) as child:
        complaints = asyncio.ensure_future(_beginning(child.stderr))

        async def wait() -> int:
            ended = await child.wait()
            if ended.reason is ExitReason.not_started:
                raise OSError(ended.error, os.strerror(ended.error), str(program))
            return ended.exit_code if ended.exit_code is not None else 128 + (ended.signal or 0)

        try:
            yield ProgramProcess(child.stdout, complaints, wait)
        finally:
            complaints.cancel()
            await asyncio.gather(complaints, return_exceptions=True)


@asynccontextmanager
async def running(program: Path, arguments: Sequence[str], folder: int) -> AsyncIterator[ProgramProcess]:
    """The same without a sandbox, if there is none. Nothing of it is left when this returns."""
    with ExitStack() as ours, ExitStack() as theirs:
        output, output_end = await _pipe(ours, theirs)
        errors, errors_end = await _pipe(ours, theirs)
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output_end,
            stderr=errors_end,
            # The directory that was judged, whatever its path leads to by now.
            cwd=f"/proc/self/fd/{folder}",
            env=_ENVIRONMENT,
            start_new_session=True,
        )
        theirs.close()
        complaints = asyncio.ensure_future(_beginning(errors))
        try:
            yield ProgramProcess(output, complaints, process.wait)
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            complaints.cancel()
            await asyncio.gather(process.wait(), complaints, return_exceptions=True)


async def _pipe(ours: ExitStack, theirs: ExitStack) -> tuple[asyncio.StreamReader, int]:
    """A pipe of our own: asyncio's stays open while another process holds it, or while it is not read."""
    reading, writing = os.pipe()
    theirs.callback(os.close, writing)
    reader = asyncio.StreamReader(limit=READ_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0)
    )
    ours.callback(transport.close)
    return reader, writing


async def _beginning(stream: Readable) -> bytes:
    """The first part of a stream, read to its end so that its writer is never held up."""
    kept = b""
    while data := await stream.read(READ_BYTES):
        kept += data[: MAX_STDERR_BYTES - len(kept)]
    return kept
