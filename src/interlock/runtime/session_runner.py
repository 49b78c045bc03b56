"""Runs the tasks of one session, one after another, while its lease is held.

The caller takes the lease: a worker that polls for work, or a terminal with its person.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar, assert_never

from interlock.core.aio import Backoff, wait_for_event
from interlock.core.errors import QuestionNotFound, StatementRefused, StoreError, WrongTaskStatus
from interlock.core.logging import StructuredLogger
from interlock.db.leases import Lease, Leases
from interlock.gates.recovery import record_interrupted_calls
from interlock.log.writer import EventLog, Transaction
from interlock.runtime.task_attempt import AttemptEnd, LeaseLost, ResumeLater, TaskAttempt
from interlock.runtime.task_handler import DoneOutcome, FailedOutcome, TaskHandler, WaitingOutcome
from interlock.runtime.task_rows import Task, TaskStatus
from interlock.runtime.tasks import TaskService
from interlock.runtime.work_queue import WorkQueue

_log = StructuredLogger(__name__)

FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.05, 2.0
# Each one is another attempt, which may cost money.
MAX_STORE_FAILURES = 12


class SessionRunner:
    """Runs sessions. `stop` and `hurry` apply to all sessions that it runs.

    With `leases`, a session is released together with the end of its last task; otherwise it is kept.
    """

    def __init__(
        self,
        handler: TaskHandler,
        *,
        log: EventLog,
        tasks: TaskService,
        backlog: WorkQueue,
        cancel_grace_seconds: float,
        stop_grace_seconds: float,
        leases: Leases | None = None,
    ) -> None:
        self._handler = handler
        self._leases = leases
        self._log = log
        self._tasks = tasks
        self._backlog = backlog
        self._cancel_grace_seconds = cancel_grace_seconds
        self._stop_grace_seconds = stop_grace_seconds
        self._attempts: dict[str, TaskAttempt] = {}
        # Tasks cancelled here, and by whom: this is written before anything else of such a task.
        self._cancelled_by: dict[str, str] = {}
        self.stopping = asyncio.Event()
        self.is_hurrying = False

    async def run(self, lease: Lease, begun: Task | None = None) -> bool:
        """Run until there is nothing to do now, or it is stopped. False: the lease was lost.

        `begun` is a task that was started together with taking the session.
        """
        if begun is not None and not await self._make_attempt(begun, lease):
            return False
        last, failures = begun.id if begun else "", 0
        while not self.stopping.is_set() and not lease.is_released:
            task = await _retry_while_leased(lambda: self._tasks.resumable(lease.stream), lease)
            if task is None:
                break
            failures = failures + 1 if task.id == last else 0
            if not await self._work_task(task, lease, failures):
                return False
            last = task.id
        return True

    @property
    def at_work(self) -> tuple[str, ...]:
        """The tasks that run right now."""
        return tuple(self._attempts)

    def cancel(self, task_id: str, *, who: str) -> None:
        """Stop a task at once, even if the store is unavailable, and discard its further output."""
        self._cancelled_by[task_id] = who
        self._interrupt(task_id)

    def stop(self) -> None:
        """Begin no further task. Those that run longer than the time of grace are left to others."""
        self.stopping.set()
        for attempt in self._attempts.values():
            attempt.leave(self._stop_grace_seconds)

    def hurry(self) -> None:
        """Interrupt what runs, and until `take_time` also what begins."""
        self.is_hurrying = True
        for attempt in self._attempts.values():
            attempt.hurry()

    def take_time(self) -> None:
        self.is_hurrying = False

    async def deliver_cancels(self) -> None:
        """Cancel running tasks whose cancellation another process has stored."""
        if self._attempts:
            for task_id in await self._backlog.to_stop():
                self._interrupt(task_id)

    def _interrupt(self, task_id: str) -> None:
        if (attempt := self._attempts.get(task_id)) is not None:
            attempt.cancel(self._cancel_grace_seconds)

    async def _work_task(self, task: Task, lease: Lease, failures: int) -> bool:
        """Run a task. `failures`: how often in a row an unavailable store interrupted it here."""
        if failures:
            seconds = min(FIRST_DELAY_SECONDS * 2**failures, LONGEST_DELAY_SECONDS)
            await wait_for_event(self.stopping, seconds)
        task = await self._start(task, lease)
        if task.status is not TaskStatus.running:
            return True
        return await self._make_attempt(task, lease, failures)

    async def _make_attempt(self, task: Task, lease: Lease, failures: int = 0) -> bool:
        """Make one attempt at a running task, and store its outcome."""
        end = await self._run_attempt(task, lease)
        if isinstance(end, ResumeLater) and failures >= MAX_STORE_FAILURES and not self.stopping.is_set():
            end = FailedOutcome(
                f"the store was unavailable {failures + 1} times in a row while the task ran; retry it"
            )
        if isinstance(end, LeaseLost):
            _log.warning("task_lost", task_id=task.id, session_id=task.session_id, worker=lease.holder)
            return False
        tries = itertools.count()

        async def store_end() -> None:
            await self._store_cancellation(task.id)
            if next(tries):
                present = await self._tasks.present(task.id)
                # It may have been written with only the reply lost: the session may have been released too.
                if present.status.is_end:
                    return
                if present.is_cancel_requested:
                    await self._end_cancelled(present, lease)
                    return
            await self._store_end(task, end, lease)

        await _retry_while_leased(store_end, lease)
        return True

    async def _run_attempt(self, task: Task, lease: Lease) -> AttemptEnd:
        attempt = self._attempts[task.id] = TaskAttempt(self._handler, task, lease)
        if task.id in self._cancelled_by:
            attempt.cancel(self._cancel_grace_seconds)
        if self.stopping.is_set():
            attempt.leave(self._stop_grace_seconds)
        if self.is_hurrying:
            attempt.hurry()
        try:
            return await attempt.run()
        finally:
            del self._attempts[task.id]

    async def _start(self, task: Task, lease: Lease) -> Task:
        if task.is_cancel_requested:
            return await _retry_while_leased(lambda: self._end_cancelled(task, lease), lease)

        async def record_interrupted() -> None:
            if task.attempts:
                await record_interrupted_calls(self._log, task.session_id, token=lease.token)

        tries = itertools.count()

        async def start() -> Task:
            if next(tries):
                # It may have been written with only the reply lost: no other process can have done it.
                present = await self._tasks.present(task.id)
                if present.attempts > task.attempts:
                    return present
            await self._store_cancellation(task.id)
            return await self._tasks.start(task.id, lease)

        await _retry_while_leased(record_interrupted, lease)
        return await _retry_while_leased(start, lease)

    async def _end_cancelled(self, task: Task, lease: Lease) -> Task:
        """End a started task that is to stop. The few writes are allowed on a full disk too."""
        await record_interrupted_calls(self._log, task.session_id, token=lease.token, on_full_disk=True)
        return await self._tasks.end_cancelled(task.id, lease)

    async def _store_cancellation(self, task_id: str) -> None:
        who = self._cancelled_by.get(task_id)
        if who is not None:
            with suppress(WrongTaskStatus):
                await self._tasks.cancel(task_id, who=who)
            self._cancelled_by.pop(task_id, None)

    async def _store_end(self, task: Task, end: AttemptEnd, lease: Lease) -> None:
        match end:
            case DoneOutcome():
                await self._finish(task, TaskStatus.done, "", lease)
            case FailedOutcome(reason):
                await self._finish(task, TaskStatus.failed, reason, lease)
            case WaitingOutcome(question_id):
                await self._park(task, question_id, lease)
            case ResumeLater():
                await self._tasks.put_back(task.id, lease)
            case LeaseLost():
                pass
            case _:
                assert_never(end)

    async def _finish(self, task: Task, status: TaskStatus, reason: str, lease: Lease) -> None:
        leases = self._leases
        if leases is None:
            await self._tasks.finish(task.id, status, reason, lease)
            return

        def release(transaction: Transaction) -> None:
            leases.release_within(transaction.connection, lease)

        if await self._tasks.finish_and(release, task.id, status, reason, lease):
            leases.mark_released(lease)

    async def _park(self, task: Task, question_id: str, lease: Lease) -> None:
        try:
            await self._tasks.wait(task.id, question_id, lease)
        except QuestionNotFound as error:
            await self._tasks.finish(task.id, TaskStatus.failed, str(error), lease)


T = TypeVar("T")


async def _retry_while_leased(work: Callable[[], Awaitable[T]], lease: Lease) -> T:
    """Retry while the store is unavailable, as long as the lease is held."""
    backoff = Backoff(FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS)
    while True:
        try:
            return await work()
        except StatementRefused:
            raise
        except StoreError as error:
            _log.warning("store_is_waited_for", session_id=lease.stream, error=str(error))
            if await backoff.wait_for(lease.lost):
                raise
