"""Works through the tasks of one session, one after another, as long as its lease is held.

It is given the lease by whoever took it: a worker that looks for work, or a terminal that has its person
in front of it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar, assert_never

import structlog

from interlock.events.log import EventLog
from interlock.gates.recovery import settle_interrupted_calls
from interlock.infra.errors import QuestionNotFound, StatementRefused, StoreError
from interlock.session.lease import Lease
from interlock.worker.attempt import AttemptEnd, LeftOff, Lost, Signals, attempt
from interlock.worker.handler import Done, Failed, TaskHandler, Waiting
from interlock.worker.queue import Backlog
from interlock.worker.rows import Task, TaskStatus
from interlock.worker.tasks import TaskDesk

_log = structlog.get_logger(__name__)

FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.05, 2.0


class SessionWork:
    """`stop` takes effect on all sessions that are worked on with it."""

    def __init__(
        self,
        handler: TaskHandler,
        *,
        log: EventLog,
        tasks: TaskDesk,
        backlog: Backlog,
        cancel_grace_seconds: float,
        stop_grace_seconds: float,
    ) -> None:
        self._handler = handler
        self._log = log
        self._tasks = tasks
        self._backlog = backlog
        self._cancel_grace_seconds = cancel_grace_seconds
        self._stop_grace_seconds = stop_grace_seconds
        self._cancelled: dict[str, asyncio.Event] = {}
        self.stopping = asyncio.Event()
        self.hurrying = asyncio.Event()

    async def run(self, lease: Lease) -> bool:
        """Until nothing is left to do now, or it is told to stop. False: the session was lost meanwhile."""
        while not self.stopping.is_set():
            task = await _stubbornly(lambda: self._tasks.resumable(lease.session_id), lease)
            if task is None:
                break
            if not await self._work_task(task, lease):
                return False
        return True

    async def pass_on_cancels(self) -> None:
        """Tell the tasks that run what somebody else wrote into the store about them."""
        if not self._cancelled:
            return
        for task_id in await self._backlog.to_stop() & self._cancelled.keys():
            self._cancelled[task_id].set()

    async def _work_task(self, task: Task, lease: Lease) -> bool:
        task = await _stubbornly(lambda: self._start(task, lease), lease)
        if task.status is not TaskStatus.running:
            return True
        cancelled = self._cancelled[task.id] = asyncio.Event()
        try:
            end = await attempt(self._handler, task, lease, self._signals(cancelled))
        finally:
            del self._cancelled[task.id]
            self._log.mend(lease.session_id, lease.token)
        if isinstance(end, Lost):
            _log.warning("task_lost", task_id=task.id, session_id=task.session_id, worker=lease.holder)
            return False
        await _stubbornly(lambda: self._write_down(task, end, lease), lease)
        return True

    async def _start(self, task: Task, lease: Lease) -> Task:
        if task.attempts:
            await settle_interrupted_calls(self._log, task.session_id, token=lease.token)
        return await self._tasks.start(task.id, lease)

    def _signals(self, cancelled: asyncio.Event) -> Signals:
        return Signals(
            cancelled=cancelled,
            cancel_grace_seconds=self._cancel_grace_seconds,
            stopping=self.stopping,
            stop_grace_seconds=self._stop_grace_seconds,
            hurrying=self.hurrying,
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


T = TypeVar("T")


async def _stubbornly(work: Callable[[], Awaitable[T]], lease: Lease) -> T:
    """What a task comes to is worth waiting for the store, as long as the session is ours."""
    delay = FIRST_DELAY_SECONDS
    while True:
        try:
            return await work()
        except StatementRefused:
            raise
        except StoreError as error:
            _log.warning("store_is_waited_for", session_id=lease.session_id, error=str(error))
            with suppress(TimeoutError):
                await asyncio.wait_for(lease.lost.wait(), delay)
            if lease.lost.is_set():
                raise
            delay = min(2 * delay, LONGEST_DELAY_SECONDS)
