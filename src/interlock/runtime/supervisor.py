"""Keeps a number of worker processes running, and gives up on slots that keep failing.

A slot is filled again after its process ended: at once after a stable run, else after a delay that doubles.
A slot whose process keeps ending without a stable run is given up, which the log records. A worker notices
the supervisor's end by the end of its standard input.
"""

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from interlock.core.aio import Backoff
from interlock.core.errors import StoreError
from interlock.core.logging import StructuredLogger
from interlock.log.event import Event
from interlock.log.hash_chain import new_event_id
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.stream_appender import NO_SCOPE, EventScope
from interlock.log.worker_events import ProcessStarted, WorkerCrashLoopDetected, WorkerExited, WorkerSpawned
from interlock.log.writer import EventLog
from interlock.runtime.append_retry import append_with_retry

_log = StructuredLogger(__name__)

# How long the record of an end waits for that of its start.
RECORD_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """How long a stable run takes, how many starts without one are allowed, and the delay between them."""

    stable_seconds: float = 30.0
    max_crashes: int = 5
    restart_seconds: float = 0.5
    max_restart_seconds: float = 30.0
    # How long a stopping worker may take before it is killed.
    stop_seconds: float = 30.0


class WorkerSupervisor:
    """Runs `command` for each worker, which must end when its standard input does.

    Each gets `--spawned` and the id of the event that records its start, so that its own events can refer
    to it, whichever is written first.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        workers: int,
        log: EventLog,
        limits: RestartPolicy,
        environment: dict[str, str] | None = None,
    ) -> None:
        self._command = tuple(command)
        self._workers = workers
        self._log = log
        self._limits = limits
        self._environment = environment
        self._stopping = asyncio.Event()
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self.given_up: set[int] = set()

    @property
    def is_working(self) -> bool:
        """Whether at least one slot is filled, or will be."""
        return len(self.given_up) < self._workers

    def has_room(self) -> bool:
        """A supervisor works on no session itself."""
        return False

    def stop(self) -> None:
        """Stop all workers after their current work. A second call does not wait for it."""
        self._stopping.set()
        for process in self._running.values():
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)

    async def run(self) -> None:
        """Run until stopped and all workers have ended, or every slot was given up."""
        started = self._log.draft(
            ProcessStarted(role="supervisor", pid=os.getpid(), workers=self._workers), NO_SCOPE
        )
        telling = asyncio.create_task(append_with_retry(self._log, started))
        scope = EventScope(None, started.id)
        places = [asyncio.create_task(self._fill(place, scope)) for place in range(1, self._workers + 1)]
        try:
            await asyncio.gather(*places)
        finally:
            telling.cancel()
            for place in places:
                # Cancel only once: each must see the end of its process.
                if not place.cancelling():
                    place.cancel()
            await asyncio.gather(*places, return_exceptions=True)

    async def _fill(self, place: int, scope: EventScope) -> None:
        starts, crashes = 0, 0
        backoff = Backoff(self._limits.restart_seconds, self._limits.max_restart_seconds)
        while not self._stopping.is_set():
            starts += 1
            began = time.monotonic()
            code = await self._one_run(place, starts, scope)
            if self._stopping.is_set():
                return
            if time.monotonic() - began >= self._limits.stable_seconds:
                crashes = 0
                backoff.reset()
            crashes += 1
            if crashes >= self._limits.max_crashes:
                await self._give_up(place, crashes, code, scope)
                return
            await backoff.wait_for(self._stopping)

    async def _one_run(self, place: int, starts: int, scope: EventScope) -> int:
        began = time.monotonic()
        event_id = new_event_id()
        try:
            process = await asyncio.create_subprocess_exec(
                *(*self._command, "--spawned", event_id),
                stdin=asyncio.subprocess.PIPE,
                env=self._environment,
                # Ctrl-C in a terminal is for the supervisor, which stops its workers.
                start_new_session=True,
            )
        except OSError as error:
            # Too many processes or no memory: no reason to end those that run.
            _log.error("worker_not_started", place=place, error=str(error))
            return os.EX_OSERR
        self._running[place] = process
        if self._stopping.is_set():
            # Stopping began while this one was starting.
            process.send_signal(signal.SIGTERM)
        spawned = WorkerSpawned(place=place, pid=process.pid, starts=starts)
        telling = asyncio.create_task(
            append_with_retry(self._log, self._log.draft(spawned, scope, event_id=event_id))
        )
        try:
            code = await self._ended(process)
            # Keep the order of events, unless the store is unavailable.
            await asyncio.wait({telling}, timeout=RECORD_SECONDS)
        finally:
            telling.cancel()
            del self._running[place]
            await _kill(process)
        seconds = round(time.monotonic() - began, 3)
        exited = WorkerExited(place=place, pid=process.pid, code=code, seconds=seconds)
        await self._record(exited, EventScope(None, event_id))
        return code

    async def _ended(self, process: asyncio.subprocess.Process) -> int:
        """The exit code; a worker that does not stop in time is killed."""
        ending = asyncio.create_task(process.wait())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                await asyncio.wait({ending}, timeout=self._limits.stop_seconds)
            if not ending.done():
                await _kill(process)
            return await ending
        finally:
            ending.cancel()
            stopping.cancel()

    async def _give_up(self, place: int, exits: int, code: int, scope: EventScope) -> None:
        self.given_up.add(place)
        _log.error("crash_loop", place=place, exits=exits, code=code)
        await self._record(WorkerCrashLoopDetected(place=place, exits=exits, code=code), scope)

    async def _record(self, event: Event, scope: EventScope) -> None:
        """Record an event. A failure must not keep workers from running: leases fence them."""
        try:
            async with asyncio.timeout(RECORD_SECONDS):
                await self._log.append(SYSTEM_STREAM, event, scope=scope)
        except (StoreError, TimeoutError) as error:
            _log.warning("process_not_recorded", kind=event.kind, error=str(error))


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
