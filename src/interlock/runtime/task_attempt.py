"""One attempt at one task: runs the handler and ends it when it must end.

It returns an outcome and writes nothing. A handler that does not end keeps its session: two concurrent
attempts, or two tasks of a session at once, would be worse than one that hangs.
"""

import asyncio
from dataclasses import dataclass

from interlock.core.errors import InterlockError, SessionFenced, SessionNotFound, is_transient
from interlock.core.logging import StructuredLogger
from interlock.db.leases import Lease
from interlock.runtime.task_handler import (
    DoneOutcome,
    FailedOutcome,
    TaskHandler,
    TaskOutcome,
    WaitingOutcome,
)
from interlock.runtime.task_rows import Task

_log = StructuredLogger(__name__)

# The interval at which a handler that does not end is cancelled and logged again.
STUBBORN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ResumeLater:
    """The worker stops, or the store was unavailable: another attempt resumes from the log."""


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """Another worker holds the session: nothing more may be written."""


AttemptEnd = TaskOutcome | ResumeLater | LeaseLost


class TaskAttempt:
    """The handler runs in the asyncio task that awaits `run`.

    Others interrupt it by `cancel`, `leave`, `hurry` or the loss of the lease: that cancels the asyncio
    task, and `run` takes it back, as `asyncio.timeout` does.
    """

    def __init__(self, handler: TaskHandler, task: Task, lease: Lease) -> None:
        self._handler = handler
        self._task = task
        self._lease = lease
        self._cancelled = asyncio.Event()
        self._is_left = False
        self._timers: list[asyncio.TimerHandle] = []
        self._interrupts = 0
        self._working: asyncio.Task[object] | None = None

    def cancel(self, grace_seconds: float) -> None:
        """The task was cancelled. The handler may use the time of grace to store what is left."""
        if not self._cancelled.is_set():
            self._cancelled.set()
            self._interrupt_in(0)
            self._interrupt_in(grace_seconds)

    def leave(self, grace_seconds: float) -> None:
        """The worker stops. What is not done within the time of grace is left to another attempt."""
        if not self._is_left:
            self._is_left = True
            self._interrupt_in(grace_seconds)

    def hurry(self) -> None:
        """Nothing more is waited for."""
        self._interrupt_in(0)

    async def run(self) -> AttemptEnd:
        self._working = asyncio.current_task()
        before = 0 if self._working is None else self._working.cancelling()
        error: BaseException | None = None
        outcome: object = None
        with self._lease.lost.calling(self.hurry):
            try:
                outcome = await self._handler.handle(self._task, self._lease, self._cancelled)
            except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 - it becomes the outcome
                error = raised
            finally:
                is_cancelled_itself = self._take_back() > before
        if is_cancelled_itself:
            raise asyncio.CancelledError
        end = _outcome(self._task, outcome, error)
        if self._lease.lost.is_set():
            return LeaseLost()
        is_left = self._is_left and self._interrupts and not self._cancelled.is_set()
        return ResumeLater() if is_left and isinstance(end, FailedOutcome) else end

    def _interrupt_in(self, seconds: float) -> None:
        """Always by the event loop: a cancellation from within the handler's own step could come late."""
        self._timers.append(asyncio.get_running_loop().call_later(seconds, self._interrupt))

    def _interrupt(self) -> None:
        if self._working is not None:
            self._interrupts += 1
            self._working.cancel()
            loop = asyncio.get_running_loop()
            self._timers.append(loop.call_later(STUBBORN_SECONDS, self._insist, self._interrupts))

    def _insist(self, interrupts: int) -> None:
        if interrupts == self._interrupts:
            task = self._task
            _log.warning("handler_does_not_end", task_id=task.id, session_id=task.session_id)
            self._interrupt()

    def _take_back(self) -> int:
        """Take back the cancellations of this attempt; returns how many others there are."""
        for timer in self._timers:
            timer.cancel()
        if self._working is None:
            return 0
        for _ in range(self._interrupts):
            self._working.uncancel()
        return self._working.cancelling()


def _outcome(task: Task, outcome: object, error: BaseException | None) -> AttemptEnd:
    if isinstance(outcome, DoneOutcome | FailedOutcome | WaitingOutcome):
        return outcome
    if error is None:
        return FailedOutcome("it ended without a result")
    if isinstance(error, asyncio.CancelledError):
        return FailedOutcome("it was interrupted")
    if isinstance(error, SessionFenced | SessionNotFound):
        return LeaseLost()
    if is_transient(error):
        _log.warning("task_left_off", task_id=task.id, session_id=task.session_id, error=str(error))
        return ResumeLater()
    if isinstance(error, InterlockError):
        _log.warning("task_failed", task_id=task.id, error_code=error.code, error=str(error))
        return FailedOutcome(str(error))
    _log.error("handler_raised", task_id=task.id, session_id=task.session_id, exc_info=error)
    return FailedOutcome(f"an unexpected error ended it ({type(error).__name__})")
