"""Runs a program for a tool: its own process group, a clean environment, output read as it comes."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

MAX_STDERR_BYTES = 16 * 1024
LINE_BYTES = 256 * 1024


@dataclass(slots=True)
class Child:
    process: asyncio.subprocess.Process
    errors: "asyncio.Task[bytes]"

    async def lines(self) -> AsyncIterator[bytes]:
        """The lines of its output, without their ends. A line too long to hold is passed over."""
        stream = self.process.stdout
        while stream is not None:
            try:
                line = await stream.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                if end.partial:
                    yield end.partial
                return
            except asyncio.LimitOverrunError as overrun:
                await stream.readexactly(overrun.consumed)
                continue
            yield line[:-1]

    async def finish(self) -> tuple[int, str]:
        """Its exit code and the beginning of what it complained about, once it has ended."""
        code = await self.process.wait()
        return code, (await self.errors).decode("utf-8", "replace")


@asynccontextmanager
async def running(program: Path, arguments: Sequence[str], folder: int) -> AsyncIterator[Child]:
    """A child in an open folder. Whatever happens, none of it is left when this returns."""
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # The folder that was judged, whatever its path leads to by now.
        cwd=f"/proc/self/fd/{folder}",
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
        start_new_session=True,
        limit=LINE_BYTES,
    )
    errors = asyncio.ensure_future(_beginning(process.stderr))
    try:
        yield Child(process, errors)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        errors.cancel()
        await asyncio.gather(process.wait(), errors, return_exceptions=True)


async def _beginning(stream: asyncio.StreamReader | None) -> bytes:
    """The first part of a stream, read to its end so that its writer is never held up."""
    kept = b""
    while stream is not None and (data := await stream.read(65536)):
        kept += data[: MAX_STDERR_BYTES - len(kept)]
    return kept
