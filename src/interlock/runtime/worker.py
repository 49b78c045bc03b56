"""Takes sessions by their leases and runs their tasks: in order within a session, sessions concurrently.

External errors are logged and survived. Work that this worker leaves, stopped or dead, is found in the
store by the next one.
"""

import asyncio
import math
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from interlock.core.aio import wait_for_event
from interlock.core.errors import SessionBusy, SessionFenced, SessionNotFound, StoreError, TaskNotFound
from interlock.core.logging import StructuredLogger
from interlock.db.leases import Leases
from interlock.log.stream_appender import EventScope
from interlock.log.worker_events import WorkerStarted
from interlock.log.writer import EventLog, Transaction
from interlock.runtime.append_retry import append_with_retry
from interlock.runtime.bus import Bus, CancelRequested, WorkAvailable
from interlock.runtime.session_runner import SessionRunner
from interlock.runtime.task_handler import TaskHandler
from interlock.runtime.task_rows import Task
from interlock.runtime.tasks import TaskService
from interlock.runtime.work_queue import SessionWorkState, WorkQueue

_log = StructuredLogger(__name__)

# A session that failed is not tried again for a while, so that it does not keep workers busy.
COOLING_SECONDS = 2.0
# Sessions with a notification that was not looked at yet.
MAX_NOTIFIED = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """The number of sessions, the polling interval, and the time to wait for an end."""

    sessions: int = 32
    poll_seconds: float = 1.0
    cancel_grace_seconds: float = 5.0
    stop_grace_seconds: float = 20.0


class Worker:
    """A worker. `name` identifies it in leases and events, and must be unique.

    `spawned` is the event that records the start of this process.
    """

    def __init__(
        self,
        name: str,
        handler: TaskHandler,
        *,
        log: EventLog,
        tasks: TaskService,
        backlog: WorkQueue,
        bus: Bus,
        leases: Leases,
        limits: WorkerLimits,
        spawned: str | None = None,
    ) -> None:
        self._name = name
        self._log = log
        self._tasks = tasks
        self._spawned = spawned
        self._backlog = backlog
        self._bus = bus
        self._leases = leases
        self._limits = limits
        self._work = SessionRunner(
            handler,
            log=log,
            tasks=tasks,
            backlog=backlog,
            leases=leases,
            cancel_grace_seconds=limits.cancel_grace_seconds,
            stop_grace_seconds=limits.stop_grace_seconds,
        )
        self._stopping = self._work.stopping
        self._wake = asyncio.Event()
        self._sessions: dict[str, asyncio.Task[None]] = {}
        self._cooling: dict[str, float] = {}
        # Sessions notified but not looked at yet; and when the store was last polled for other work.
        self._rung: dict[str, None] = {}
        self._swept_at = -math.inf
        # When the store was last polled for cancellations.
        self._cancels_at = -math.inf
        # Sessions notified while being worked on; and whether work was left for lack of room.
        self._again: set[str] = set()
        self._left_some = False

    async def run(self) -> None:
        """Work until stopped. When cancelled, it releases running tasks to others and then ends."""
        unsubscribe = self._bus.subscribe(self._on_message, WorkAvailable, CancelRequested)
        telling = asyncio.create_task(self._record_start())
        try:
            while not self._stopping.is_set():
                self._wake.clear()
                await self._look()
                await self._rest()
            # Running tasks get their time, and may still be cancelled.
            while self._sessions:
                self._wake.clear()
                await self._pass_on_cancels()
                await self._rest()
        finally:
            self._work.stop()
            self._work.hurry()
            unsubscribe()
            telling.cancel()
            await asyncio.gather(telling, *self._sessions.values(), return_exceptions=True)

    async def _rest(self) -> None:
        await wait_for_event(self._wake, self._limits.poll_seconds)

    def stop(self) -> None:
        """Take nothing new.

        Running tasks may finish; those that take too long are left to another worker.
        """
        self._work.stop()
        self._wake.set()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def has_room(self) -> bool:
        """Whether it could take another session now."""
        return len(self._sessions) + len(self._rung) < self._limits.sessions and not self._stopping.is_set()

    async def _record_start(self) -> None:
        started = WorkerStarted(worker=self._name, pid=os.getpid(), host=socket.gethostname())
        await append_with_retry(self._log, self._log.draft(started, EventScope(None, self._spawned)))

    # -- finding work --

    def _on_message(self, message: WorkAvailable | CancelRequested) -> None:
        is_work = isinstance(message, WorkAvailable)
        # Messages that are dropped are found by polling.
        if is_work and len(self._rung) < MAX_NOTIFIED:
            self._rung[message.session_id] = None
        if message.session_id in self._sessions:
            self._cancels_at = -math.inf
        if is_work or message.session_id in self._sessions:
            self._wake.set()

    async def _look(self) -> None:
        now = time.monotonic()
        if now - self._cancels_at >= self._limits.poll_seconds:
            self._cancels_at = now
            await self._pass_on_cancels()
        self._cooling = {session: until for session, until in self._cooling.items() if until > now}
        rung, self._rung = self._rung, {}
        for session_id in rung:
            self._take_up(session_id)
        if self.has_room() and now - self._swept_at >= self._limits.poll_seconds:
            self._swept_at = now
            await self._sweep()

    async def _sweep(self) -> None:
        """Find work without notification: a lost one, a dead worker, or more than there was room for."""
        limit = self._limits.sessions + len(self._cooling)
        try:
            found = await self._backlog.find_work(limit)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next look may go well
            _log.warning("work_not_looked_for", worker=self._name, error=str(error))
            return
        self._left_some = len(found) >= limit
        for session_id in found:
            self._take_up(session_id)

    def _take_up(self, session_id: str) -> None:
        if session_id in self._sessions:
            self._again.add(session_id)
        elif session_id in self._cooling:
            return
        elif self.has_room():
            self._sessions[session_id] = asyncio.create_task(self._work_session(session_id))
        else:
            self._left_some = True

    async def _pass_on_cancels(self) -> None:
        try:
            await self._work.deliver_cancels()
        except Exception as error:  # noqa: BLE001 - as above
            _log.warning("cancels_not_looked_for", worker=self._name, error=str(error))

    # -- running sessions --

    async def _work_session(self, session_id: str) -> None:
        try:
            # Look first: the notification may be spurious or for the holder, and taking a lease is a write.
            prospect = await self._backlog.look_at(session_id)
            if prospect is SessionWorkState.to_stop:
                self._bus.publish(CancelRequested(session_id))
            if (
                prospect not in {SessionWorkState.free, SessionWorkState.cancelled}
                or self._stopping.is_set()
            ):
                return
            async with self._leases.held_and(
                session_id,
                self._name,
                self._first_of(session_id),
                on_full_disk=prospect is SessionWorkState.cancelled,
            ) as taken:
                # Look again afterwards: a notification during the release would be lost.
                self._again.add(session_id)
                if not await self._work.run(*taken):
                    self._cool(session_id)
        except SessionBusy:
            _log.debug("session_taken", session_id=session_id, worker=self._name)
        except (SessionFenced, SessionNotFound, TaskNotFound, StoreError) as error:
            _log.warning("session_lost", session_id=session_id, worker=self._name, error=str(error))
            self._cool(session_id)
        except Exception as error:  # noqa: BLE001 - one session's trouble is not the worker's
            _log.error("session_not_worked_on", session_id=session_id, worker=self._name, exc_info=error)
            self._cool(session_id)
        finally:
            del self._sessions[session_id]
            self._look_again(session_id)

    def _first_of(self, session_id: str) -> Callable[[Transaction], Task | None]:
        return lambda transaction: self._tasks.begin_first(transaction, session_id, self._name)

    def _look_again(self, session_id: str) -> None:
        """Look again at sessions notified while being worked on, or while there was no room."""
        if session_id in self._again:
            self._again.discard(session_id)
            self._rung[session_id] = None
        if self._left_some:
            self._left_some, self._swept_at = False, -math.inf
        self._wake.set()
        if self._stopping.is_set():
            # Another worker continues it.
            self._bus.publish(WorkAvailable(session_id))

    def _cool(self, session_id: str) -> None:
        self._cooling[session_id] = time.monotonic() + COOLING_SECONDS
