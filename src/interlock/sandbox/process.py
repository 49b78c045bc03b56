"""Runs a program for a tool: its own process group, a clean environment, output read as it comes."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

MAX_STDERR_BYTES = 16 * 1024
LINE_BYTES = 256 * 1024
READ_BYTES = 64 * 1024


@dataclass(slots=True)
class Child:
    process: asyncio.subprocess.Process
    output: asyncio.StreamReader
    errors: "asyncio.Task[bytes]"

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
        code = await self.process.wait()
        return code, (await self.errors).decode("utf-8", "replace")


@asynccontextmanager
async def running(program: Path, arguments: Sequence[str], folder: int) -> AsyncIterator[Child]:
    """A child in an open folder. Whatever happens, none of it is left when this returns."""
    with ExitStack() as ours, ExitStack() as theirs:
        output, output_end = await _pipe(ours, theirs)
        errors, errors_end = await _pipe(ours, theirs)
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output_end,
            stderr=errors_end,
            # The folder that was judged, whatever its path leads to by now.
            cwd=f"/proc/self/fd/{folder}",
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
        theirs.close()
        complaints = asyncio.ensure_future(_beginning(errors))
        try:
            yield Child(process, output, complaints)
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            complaints.cancel()
            await asyncio.gather(process.wait(), complaints, return_exceptions=True)


async def _pipe(ours: ExitStack, theirs: ExitStack) -> tuple[asyncio.StreamReader, int]:
    """A pipe of our own: asyncio's stays open while somebody else holds it, or while nobody reads it."""
    reading, writing = os.pipe()
    theirs.callback(os.close, writing)
    reader = asyncio.StreamReader(limit=READ_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0)
    )
    ours.callback(transport.close)
    return reader, writing


async def _beginning(stream: asyncio.StreamReader) -> bytes:
    """The first part of a stream, read to its end so that its writer is never held up."""
    kept = b""
    while data := await stream.read(READ_BYTES):
        kept += data[: MAX_STDERR_BYTES - len(kept)]
    return kept
