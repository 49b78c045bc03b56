"""One attempt: what ends it, what it then came to, and that whatever it held is over when it has ended."""

import asyncio
import gc

import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import (
    AuditUnavailable,
    SessionFenced,
    SessionNotFound,
    StoreCorrupt,
    StoreFull,
    StoreLocked,
    StoreUnavailable,
)
from interlock.db.leases import Lease
from interlock.runtime.task_attempt import LeaseLost, ResumeLater, TaskAttempt
from interlock.runtime.task_handler import DoneOutcome, FailedOutcome, WaitingOutcome
from interlock.runtime.task_rows import Task, TaskStatus

TASK = Task(
    id="t_1",
    session_id="s_1",
    message_seq=2,
    status=TaskStatus.running,
    mode=ToolMode.chat_safe,
    who="ada",
    created_us=1,
    queued_event="e",
)
FOR_EVER = 3600.0


class Trial:
    """A handler, and everything that can happen to it."""

    def __init__(self, handling, *, cancel_grace: float = FOR_EVER, stop_grace: float = FOR_EVER) -> None:
        self._handling = handling
        self._cancel_grace, self._stop_grace = cancel_grace, stop_grace
        self.lease = Lease("session:s_1", "s_1", 1, "w1")
        self.attempt = TaskAttempt(self, TASK, self.lease)
        self.begun, self.broken_off = asyncio.Event(), asyncio.Event()

    def cancel(self) -> None:
        self.attempt.cancel(self._cancel_grace)

    def stop(self) -> None:
        self.attempt.leave(self._stop_grace)

    def hurry(self) -> None:
        self.attempt.hurry()

    def lose(self) -> None:
        self.lease.lost.set()

    async def handle(self, task, lease, cancelled):
        self.begun.set()
        try:
            return await self._handling(task, lease, cancelled)
        except asyncio.CancelledError:
            self.broken_off.set()
            raise

    async def end(self, *interruptions):
        """What it came to; whoever ran it was left as it was."""
        run = asyncio.create_task(self._run())
        await self.begun.wait()
        for interrupt in interruptions:
            interrupt()
        return await asyncio.wait_for(run, 10)

    async def _run(self):
        end = await self.attempt.run()
        assert asyncio.current_task().cancelling() == 0
        await asyncio.sleep(0)
        return end


def caused(cause: Exception) -> AuditUnavailable:
    error = AuditUnavailable("it could not be recorded")
    error.__cause__ = cause
    return error


async def hang(_task, _lease, _cancelled):
    await asyncio.Event().wait()


async def obey(_task, _lease, cancelled):
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        assert cancelled.is_set()
        await asyncio.sleep(0.02)
        return DoneOutcome()


def returning(outcome):
    async def handling(_task, _lease, _cancelled):
        return outcome

    return handling


def raising(error):
    async def handling(_task, _lease, _cancelled):
        raise error

    return handling


@pytest.mark.parametrize("outcome", [DoneOutcome(), FailedOutcome("no"), WaitingOutcome("q_1")])
async def test_what_the_handler_says_counts(outcome):
    assert await Trial(returning(outcome)).end() == outcome


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (SessionFenced("gone"), LeaseLost()),
        (SessionNotFound("gone"), LeaseLost()),
        (StoreCorrupt("it is damaged"), FailedOutcome("it is damaged")),
        (caused(StoreCorrupt("it is damaged")), FailedOutcome("it could not be recorded")),
        (StoreFull("no space left"), ResumeLater()),
        (caused(StoreFull("no space left")), ResumeLater()),
        (StoreLocked("the store is locked"), ResumeLater()),
        (StoreUnavailable("the connection was lost"), ResumeLater()),
        (caused(StoreUnavailable("the connection was lost")), ResumeLater()),
        (KeyError("inner"), FailedOutcome("an unexpected error ended it (KeyError)")),
        (asyncio.CancelledError(), FailedOutcome("it was interrupted")),
    ],
)
async def test_what_it_raises_is_told_in_a_sentence_without_internals(error, end):
    assert await Trial(raising(error)).end() == end


async def test_a_lost_lease_ends_it_at_once_whatever_it_says():
    trial = Trial(hang)
    assert await trial.end(trial.lose) == LeaseLost()
    assert trial.broken_off.is_set()

    async def stubborn(_task, _lease, _cancelled):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return DoneOutcome()

    trial = Trial(stubborn)
    assert await trial.end(trial.lose) == LeaseLost()


async def test_a_fault_that_came_with_a_lost_lease_is_not_told_by_the_garbage_collector():
    unheard = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unheard.append(context))

    async def fenced(_task, lease, _cancelled):
        lease.lost.set()
        raise SessionFenced("gone")

    trial = Trial(fenced)
    assert await trial.end() == LeaseLost()
    gc.collect()
    assert unheard == []


async def test_who_is_told_to_stop_may_end_by_itself():
    trial = Trial(obey)
    assert await trial.end(trial.cancel) == DoneOutcome()
    assert not trial.broken_off.is_set()


async def test_who_does_not_is_broken_off():
    trial = Trial(hang, cancel_grace=0.05)
    assert await trial.end(trial.cancel) == FailedOutcome("it was interrupted")
    assert trial.broken_off.is_set()


async def test_a_worker_that_stops_waits_and_then_leaves_it_to_others():
    trial = Trial(hang, stop_grace=0.05)
    assert await trial.end(trial.stop) == ResumeLater()
    assert trial.broken_off.is_set()


async def test_what_ends_while_the_worker_stops_has_ended():
    async def soon(_task, _lease, _cancelled):
        await asyncio.sleep(0.05)
        return FailedOutcome("no")

    trial = Trial(soon)
    assert await trial.end(trial.stop) == FailedOutcome("no")


async def test_in_a_hurry_nothing_is_waited_for():
    trial = Trial(hang)
    assert await trial.end(trial.stop, trial.hurry) == ResumeLater()


async def test_told_to_stop_while_the_worker_stops_it_is_not_left_to_others():
    trial = Trial(hang, cancel_grace=0.05, stop_grace=0.01)
    end = await trial.end(trial.cancel, trial.stop)
    assert end == FailedOutcome("it was interrupted")


async def test_cancelled_itself_an_attempt_takes_its_handler_along():
    trial = Trial(hang)
    run = asyncio.create_task(trial.attempt.run())
    await trial.begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert trial.broken_off.is_set(), "the session would be given back while something of it goes on"


async def test_a_handler_that_ends_although_its_attempt_was_cancelled_does_not_hide_that():
    async def deaf(_task, _lease, _cancelled):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return DoneOutcome()

    trial = Trial(deaf)
    run = asyncio.create_task(trial.attempt.run())
    await trial.begun.wait()
    trial.cancel()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


async def test_cancelled_twice_it_is_interrupted_once_within_its_grace():
    interrupts = []

    async def slow(_task, _lease, _cancelled):
        for _ in range(4):
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                interrupts.append("cancelled")
        return DoneOutcome()

    trial = Trial(slow)
    assert await trial.end(trial.cancel, trial.cancel) == DoneOutcome()
    assert interrupts == ["cancelled"]


async def test_interrupted_in_its_own_last_step_it_leaves_nothing_behind():
    async def ends_it_all(_task, lease, _cancelled):
        trial.cancel()
        trial.hurry()
        lease.lost.set()
        return DoneOutcome()

    trial = Trial(ends_it_all)
    assert await trial.end() == LeaseLost()
