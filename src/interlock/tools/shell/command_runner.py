"""Runs one command in the sandbox and spools its output, until it ends or times out."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.redaction.open_key_block import LONGEST_OPENING, open_block_header
from interlock.redaction.redactor import Redactor
from interlock.sandbox.jobs import Job, JobExit, JobLimits, RunningJob, SandboxBackend, system_paths
from interlock.sandbox.jobs import JobOutput as Pipe
from interlock.sandbox.temporary_directories import (
    choose_temporary_root,
    make_job_directory,
    remove_job_directory,
)
from interlock.tools.files.base import tool_error_from_oserror
from interlock.tools.shell.environment import command_environment
from interlock.tools.shell.output_spool import SpooledOutput, SpooledStream
from interlock.tools.threads import CancelSignal, run_in_thread
from interlock.tools.tool import ToolContext

# The minimum interval between progress reports of a command.
PROGRESS_SECONDS = 1.0
_DRAIN_SECONDS = 1.0
_REMOVAL_SECONDS = 1.0
_CONTEXT_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class ShellCommandExit:
    """How a command ended; `in_time` is False if it was stopped."""

    ended: JobExit
    in_time: bool


@asynccontextmanager
async def private_directory(opened: Iterable[Path], *, is_wanted: bool) -> AsyncIterator[Path | None]:
    """A private home and temporary directory for the command, removed after its end."""
    if not is_wanted:
        yield None
        return
    place = choose_temporary_root(opened)
    try:
        folder, lock = make_job_directory(place)
    except OSError as error:
        raise tool_error_from_oserror(error, f"a folder for temporary files in {place}") from error
    try:
        for name in ("home", "tmp"):
            (folder / name).mkdir(mode=0o700)
        yield folder
    finally:
        # Removing what a command left may take longer than its result can wait.
        removing = asyncio.ensure_future(
            run_in_thread(CancelSignal(), lambda: remove_job_directory(folder, lock))
        )
        await asyncio.wait({removing}, timeout=_REMOVAL_SECONDS)


async def run_command(
    backend: SandboxBackend,
    bash: Path,
    command: str,
    folder: int,
    output: SpooledOutput,
    context: ToolContext,
    private: Path | None,
    limits: JobLimits,
    teller: "ProgressReporter",
) -> ShellCommandExit:
    profile = context.profile
    readable = (*system_paths(), *profile.readable_paths, *profile.readable_roots)
    job = Job(
        argv=(str(bash), "--noprofile", "--norc", "-c", "--", command),
        folder=folder,
        environment=command_environment(os.environ, readable, private),
        profile=profile,
        readable_paths=profile.readable_paths,
        private_folders=(private,) if private else (),
        limits=limits,
    )
    async with backend.running(job) as child:
        reading = asyncio.gather(
            _spool(child.stdout, output.out, teller), _spool(child.stderr, output.err, teller)
        )
        try:
            return await _ended(child, context.timeout_seconds, reading)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def _ended(child: RunningJob, seconds: float, reading: "asyncio.Future[Any]") -> ShellCommandExit:
    try:
        ended, in_time = await asyncio.wait_for(child.wait(), seconds), True
    except TimeoutError:
        ended, in_time = await child.stop(), False
    # The process is dead; the pipes hold the last output.
    await asyncio.wait({reading}, timeout=_DRAIN_SECONDS)
    return ShellCommandExit(ended, in_time)


async def _spool(pipe: Pipe, stream: SpooledStream, teller: "ProgressReporter") -> None:
    while data := await pipe.read():
        stream.write(data)
        teller.heard(stream, data)


class ProgressReporter:
    """Reports the command's last line at intervals: a whole line, never part of a secret."""

    def __init__(self, report: Callable[[str], None], redactor: Redactor) -> None:
        self._report = report
        self._redactor = redactor
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.time() + PROGRESS_SECONDS
        self._last: dict[int, bytes] = {}
        # The header of a private key's block that began earlier.
        self._openings: dict[int, str] = {}

    def heard(self, stream: SpooledStream, data: bytes) -> None:
        last = self._remember(stream.descriptor, data)
        # A secret may arrive in two pieces, so only complete lines are reported; and redaction of a line
        # can depend on earlier ones, as in a private key's block.
        whole, end, _ = last.rpartition(b"\n")
        if not end or self._loop.time() < self._next:
            return
        self._next = self._loop.time() + PROGRESS_SECONDS
        opening = self._openings.get(stream.descriptor, "")
        lines = self._redactor.text(opening + whole.decode("utf-8", "replace")).strip().splitlines()
        is_cut = len(last) == _CONTEXT_BYTES and len(lines) == 1
        if lines and not is_cut:
            self._report(lines[-1][:200])

    def _remember(self, descriptor: int, data: bytes) -> bytes:
        """The end of the output, as much as redaction of a line needs."""
        whole = self._last.get(descriptor, b"") + data
        last = self._last[descriptor] = whole[-_CONTEXT_BYTES:]
        if (cut := len(whole) - len(last)) > 0:
            opening = self._openings.get(descriptor, "")
            passed = opening + whole[: cut + LONGEST_OPENING].decode("latin-1")
            self._openings[descriptor] = open_block_header(passed, len(opening) + cut)
        return last
