"""Takes sessions by their leases and works on their tasks: one after another within a session, sessions
side by side.

Whatever goes wrong from outside is logged and survived. What this worker leaves behind, stopped or dead,
is found in the store by the next one.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

import structlog

from interlock.events.log import EventLog
from interlock.gates.recovery import settle_interrupted_calls
from interlock.infra.errors import (
    QuestionNotFound,
    SessionBusy,
    SessionFenced,
    SessionNotFound,
    StatementRefused,
    StoreError,
)
from interlock.session.lease import Lease, SessionLeases
from interlock.worker.attempt import AttemptEnd, LeftOff, Lost, Signals, attempt
from interlock.worker.handler import Done, Failed, TaskHandler, Waiting
from interlock.worker.queue import Backlog, Bell
from interlock.worker.rows import Task, TaskStatus
from interlock.worker.tasks import TaskDesk

_log = structlog.get_logger(__name__)

# A session that could not be worked on is left alone for a while, so that its trouble keeps nobody busy.
COOLING_SECONDS = 2.0
FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.05, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """How much at a time, how often to look without being rung, how long to wait for an end."""

    sessions: int = 32
    poll_seconds: float = 1.0
    cancel_grace_seconds: float = 5.0
    stop_grace_seconds: float = 20.0


class Worker:
    """`name` is what leases and events call it: no two workers may share one."""

    def __init__(
        self,
        name: str,
        handler: TaskHandler,
        *,
        log: EventLog,
        tasks: TaskDesk,
        backlog: Backlog,
        bell: Bell,
        leases: SessionLeases,
        limits: WorkerLimits,
    ) -> None:
        self._name = name
        self._handler = handler
        self._log = log
        self._tasks = tasks
        self._backlog = backlog
        self._bell = bell
        self._leases = leases
        self._limits = limits
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._wake = asyncio.Event()
        self._sessions: dict[str, asyncio.Task[None]] = {}
        self._cancelled: dict[str, asyncio.Event] = {}
        self._cooling: dict[str, float] = {}

    async def run(self) -> None:
        """Work until told to stop. Cancelled, it leaves what runs to others and then ends."""
        ears = asyncio.create_task(self._listen())
        try:
            while not self._stopping.is_set():
                self._wake.clear()
                await self._look()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), self._limits.poll_seconds)
            # Those that still run are allowed their time, and somebody may want to cancel one.
            while self._sessions:
                self._wake.clear()
                await self._pass_on_cancels()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), self._limits.poll_seconds)
        finally:
            self._stopping.set()
            self._hurrying.set()
            ears.cancel()
            await asyncio.gather(ears, *self._sessions.values(), return_exceptions=True)

    def stop(self) -> None:
        """Take nothing new. What runs may still end; what takes too long is left to another worker."""
        self._stopping.set()
        self._wake.set()

    # -- finding work --

    async def _listen(self) -> None:
        while True:
            try:
                async for _session_id in self._bell.rings():
                    self._wake.set()
            except Exception as error:  # noqa: BLE001 - without a bell there is still looking
                _log.warning("bell_broken", worker=self._name, error=str(error))
            await asyncio.sleep(self._limits.poll_seconds)

    async def _look(self) -> None:
        await self._pass_on_cancels()
        now = time.monotonic()
        self._cooling = {session: until for session, until in self._cooling.items() if until > now}
        if len(self._sessions) >= self._limits.sessions:
            return
        try:
            found = await self._backlog.find_work(self._limits.sessions + len(self._cooling))
        except Exception as error:  # noqa: BLE001 - whatever it is, the next look may go well
            _log.warning("work_not_looked_for", worker=self._name, error=str(error))
            return
        for session_id in found:
            is_free = len(self._sessions) < self._limits.sessions
            if is_free and session_id not in self._sessions and session_id not in self._cooling:
                running = asyncio.create_task(self._work_session(session_id))
                self._sessions[session_id] = running

    async def _pass_on_cancels(self) -> None:
        if not self._cancelled:
            return
        try:
            to_stop = await self._backlog.to_stop()
        except Exception as error:  # noqa: BLE001 - as above
            _log.warning("cancels_not_looked_for", worker=self._name, error=str(error))
            return
        for task_id in to_stop & self._cancelled.keys():
            self._cancelled[task_id].set()

    # -- working --

    async def _work_session(self, session_id: str) -> None:
        try:
            async with self._leases.held(session_id, self._name) as lease:
                while not self._stopping.is_set():
                    task = await self._tasks.resumable(session_id)
                    if task is None or not await self._work_task(task, lease):
                        break
        except SessionBusy:
            _log.debug("session_taken", session_id=session_id, worker=self._name)
        except (SessionFenced, SessionNotFound) as error:
            _log.warning("session_lost", session_id=session_id, worker=self._name, error=str(error))
            self._cool(session_id)
        except Exception as error:  # noqa: BLE001 - one session's trouble is not the worker's
            _log.error("session_not_worked_on", session_id=session_id, worker=self._name, exc_info=error)
            self._cool(session_id)
        finally:
            del self._sessions[session_id]
            # What came while the session was still held has been rung for in vain: look again.
            self._wake.set()
            if self._stopping.is_set():
                self._bell.ring(session_id)

    def _cool(self, session_id: str) -> None:
        self._cooling[session_id] = time.monotonic() + COOLING_SECONDS

    async def _work_task(self, task: Task, lease: Lease) -> bool:
        """Whether the session can be gone on with."""
        if task.attempts:
            await settle_interrupted_calls(self._log, task.session_id, token=lease.token)
        task = await self._tasks.start(task.id, lease)
        if task.status is not TaskStatus.running:
            return True
        cancelled = self._cancelled[task.id] = asyncio.Event()
        try:
            end = await attempt(self._handler, task, lease, self._signals(cancelled))
        finally:
            del self._cancelled[task.id]
        if isinstance(end, Lost):
            _log.warning("task_lost", task_id=task.id, session_id=task.session_id, worker=self._name)
            self._cool(task.session_id)
            return False
        await _stubbornly(lambda: self._write_down(task, end, lease), lease)
        return True

    def _signals(self, cancelled: asyncio.Event) -> Signals:
        return Signals(
            cancelled=cancelled,
            cancel_grace_seconds=self._limits.cancel_grace_seconds,
            stopping=self._stopping,
            stop_grace_seconds=self._limits.stop_grace_seconds,
            hurrying=self._hurrying,
        )

    async def _write_down(self, task: Task, end: AttemptEnd, lease: Lease) -> None:
        match end:
            case Done():
                await self._tasks.finish(task.id, TaskStatus.done, "", lease)
            case Failed(reason):
                await self._tasks.finish(task.id, TaskStatus.failed, reason, lease)
            case Waiting(question_id):
                await self._park(task, question_id, lease)
            case LeftOff():
                await self._tasks.put_back(task.id, lease)
            case Lost():
                pass
            case _:
                assert_never(end)

    async def _park(self, task: Task, question_id: str, lease: Lease) -> None:
        try:
            await self._tasks.wait(task.id, question_id, lease)
        except QuestionNotFound as error:
            await self._tasks.finish(task.id, TaskStatus.failed, str(error), lease)


async def _stubbornly(write: Callable[[], Awaitable[None]], lease: Lease) -> None:
    """What a task came to is worth waiting for the store, as long as the session is ours."""
    delay = FIRST_DELAY_SECONDS
    while True:
        try:
            return await write()
        except StatementRefused:
            raise
        except StoreError as error:
            _log.warning("outcome_not_written", session_id=lease.session_id, error=str(error))
            with suppress(TimeoutError):
                await asyncio.wait_for(lease.lost.wait(), delay)
            if lease.lost.is_set():
                raise
            delay = min(2 * delay, LONGEST_DELAY_SECONDS)
