"""One attempt at one task: runs the handler and ends it when it must end.

It returns an outcome and writes nothing. A handler that does not end keeps its session: two concurrent
attempts, or two tasks of a session at once, would be worse than one that hangs.
"""

import asyncio
import math
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True)
class AttemptInterrupts:
    """What can end an attempt from outside, each with the time the handler has to end by itself."""

    cancelled: asyncio.Event
    cancel_grace_seconds: float
    stopping: asyncio.Event
    stop_grace_seconds: float
    hurrying: asyncio.Event

    def graces(self) -> dict[asyncio.Event, float]:
        return {
            self.cancelled: self.cancel_grace_seconds,
            self.stopping: self.stop_grace_seconds,
            self.hurrying: 0.0,
        }


async def attempt(handler: TaskHandler, task: Task, lease: Lease, signals: AttemptInterrupts) -> AttemptEnd:
    work = asyncio.create_task(_handled(handler, task, lease, signals.cancelled))
    try:
        await _until_it_must_end(work, lease, signals)
        was_left_off = not work.done() and signals.stopping.is_set() and not signals.cancelled.is_set()
        await _end(work, task)
    except asyncio.CancelledError:
        # The session must not be released while part of the work still runs.
        await _end_for_sure(work, task)
        raise
    outcome = _outcome(work, task)
    if lease.lost.is_set():
        return LeaseLost()
    return ResumeLater() if was_left_off and isinstance(outcome, FailedOutcome) else outcome


async def _handled(handler: TaskHandler, task: Task, lease: Lease, cancelled: asyncio.Event) -> TaskOutcome:
    return await handler.handle(task, lease, cancelled)


async def _until_it_must_end(
    work: "asyncio.Task[TaskOutcome]", lease: Lease, signals: AttemptInterrupts
) -> None:
    graces = signals.graces()
    subscribers: dict[asyncio.Future[Any], asyncio.Event] = {
        asyncio.ensure_future(event.wait()): event for event in (lease.lost, *graces)
    }
    deadline = math.inf
    try:
        while not work.done() and not lease.lost.is_set() and time.monotonic() < deadline:
            remaining = None if deadline == math.inf else deadline - time.monotonic()
            silent = {subscriber for subscriber in subscribers if not subscriber.done()}
            heard, _ = await asyncio.wait(
                {work, *silent}, timeout=remaining, return_when=asyncio.FIRST_COMPLETED
            )
            for event in {subscribers[subscriber] for subscriber in heard & silent} & graces.keys():
                deadline = min(deadline, time.monotonic() + graces[event])
    finally:
        for subscriber in subscribers:
            subscriber.cancel()


async def _end(work: "asyncio.Task[TaskOutcome]", task: Task) -> None:
    while not work.done():
        work.cancel()
        await asyncio.wait({work}, timeout=STUBBORN_SECONDS)
        if not work.done():
            _log.warning("handler_does_not_end", task_id=task.id, session_id=task.session_id)


async def _end_for_sure(work: "asyncio.Task[TaskOutcome]", task: Task) -> None:
    while not work.done():
        with suppress(asyncio.CancelledError):
            await _end(work, task)


def _outcome(work: "asyncio.Task[TaskOutcome]", task: Task) -> AttemptEnd:
    if work.cancelled():
        return FailedOutcome("it was interrupted")
    error = work.exception()
    if error is None:
        outcome: object = work.result()
        if isinstance(outcome, DoneOutcome | FailedOutcome | WaitingOutcome):
            return outcome
        return FailedOutcome("it ended without a result")
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
