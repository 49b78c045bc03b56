"""What is cancelled winds down, and a worker that stops leaves nothing half done."""

import asyncio
from contextlib import suppress

import pytest

from interlock.runtime.task_handler import DoneOutcome, FailedOutcome
from interlock.runtime.task_rows import TaskStatus
from interlock.sessions.models import Role
from tests.harness.store import open_store
from tests.harness.tasks import ScriptedHandler, TaskHarness, until


def held_back():
    """A handler that says when it has begun, and ends when it is let go."""
    begun, go = asyncio.Event(), asyncio.Event()

    async def handling(task, lease, cancelled):
        begun.set()
        await go.wait()
        return DoneOutcome()

    return ScriptedHandler(handling), begun, go


# -- cancelling --


async def test_a_running_task_is_told_to_stop_and_winds_down_by_itself(harness):
    session = await harness.session()
    begun, closed = asyncio.Event(), []

    async def handling(task, lease, cancelled):
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        assert cancelled.is_set()
        await harness.sessions.append_message(session, Role.assistant, "stopped", token=lease.token)
        closed.append(task.id)
        return FailedOutcome("it was told to stop")

    async with harness.working(ScriptedHandler(handling), poll_seconds=60):
        task, after = await harness.put(session), await harness.put(session, "next")
        await begun.wait()
        await harness.tasks.cancel(after.id, who="ben")
        assert (await harness.tasks.cancel(task.id, who="ben")).status is TaskStatus.running
        await harness.ended(task.id)
    assert closed == [task.id]
    assert harness.ends(session) == [(after.id, "cancelled"), (task.id, "cancelled")]


async def test_a_task_that_does_not_wind_down_is_broken_off_after_its_grace(harness):
    session = await harness.session()
    handler, begun, _ = held_back()
    async with harness.working(handler, cancel_grace_seconds=0.1):
        task = await harness.put(session)
        await begun.wait()
        await harness.tasks.cancel(task.id, who="ben")
        (ended,) = await harness.ended(task.id)
    assert ended.status is TaskStatus.cancelled
    assert harness.ends(session) == [(task.id, "cancelled")]


async def test_a_cancel_from_another_process_is_seen_by_looking(harness):
    session = await harness.session()
    other_store = open_store(harness.store.config)
    handler, begun, _ = held_back()
    async with harness.working(handler, cancel_grace_seconds=0, poll_seconds=0.1):
        task = await harness.put(session)
        await begun.wait()
        await TaskHarness(other_store).tasks.cancel(task.id, who="ben")
        (ended,) = await harness.ended(task.id)
    other_store.close()
    assert ended.status is TaskStatus.cancelled


async def test_a_handler_that_will_not_end_keeps_its_session(harness, monkeypatch):
    monkeypatch.setattr("interlock.runtime.task_attempt.STUBBORN_SECONDS", 0.05)
    session, go, refused = await harness.session(), asyncio.Event(), 0

    async def handling(task, lease, cancelled):
        nonlocal refused
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                refused += 1
        return DoneOutcome()

    handler = ScriptedHandler(handling)
    async with harness.working(handler, cancel_grace_seconds=0):
        task, after = await harness.put(session), await harness.put(session, "next")
        await until(lambda: handler.seen)
        await harness.tasks.cancel(task.id, who="ben")
        await until(lambda: refused >= 3)
        assert (await harness.tasks.get(after.id)).status is TaskStatus.queued
        go.set()
        await harness.ended(task.id, after.id)
    assert harness.ends(session) == [(task.id, "cancelled"), (after.id, "done")]


# -- stopping --


async def test_a_stopped_worker_lets_what_runs_end_and_takes_nothing_new(harness):
    session = await harness.session()
    handler, begun, go = held_back()
    async with harness.working(handler) as worker:
        task, after = await harness.put(session), await harness.put(session, "next")
        await begun.wait()
        worker.stop()
        await asyncio.sleep(0.1)
        go.set()
        await harness.ended(task.id)
    assert (await harness.tasks.get(after.id)).status is TaskStatus.queued
    assert await harness.backlog.find_work(10) == [session]


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_a_worker_that_is_stopped_while_it_looks_takes_nothing_up(harness, monkeypatch, how):
    session, look = await harness.session(), harness.backlog.look_at
    task, handler = await harness.put(session), ScriptedHandler()
    worker = harness.worker(handler)

    async def stopped_meanwhile(session_id):
        found = await look(session_id)
        _ = worker.stop() if how == "stop" else run.cancel()
        await until(lambda: worker.is_stopping)
        return found

    monkeypatch.setattr(harness.backlog, "look_at", stopped_meanwhile)
    run = asyncio.create_task(worker.run())
    await asyncio.wait({run})
    left = await harness.tasks.get(task.id)
    assert (left.status, left.attempts, handler.seen) == (TaskStatus.queued, 0, [])
    assert await harness.backlog.find_work(10) == [session]


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_what_takes_too_long_is_left_to_another_worker(harness, how):
    session = await harness.session()
    handler, begun, go = held_back()
    worker = harness.worker(handler, stop_grace_seconds=0.1 if how == "stop" else 60)
    run = asyncio.create_task(worker.run())
    task = await harness.put(session)
    await begun.wait()
    if how == "stop":
        worker.stop()
        await run
    else:
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    left = await harness.tasks.get(task.id)
    assert (left.status, left.interruptions) == (TaskStatus.queued, 0)
    go.set()
    async with harness.working(handler, "w2"):
        (ended,) = await harness.ended(task.id)
    assert (ended.status, ended.attempts) == (TaskStatus.done, 2)


async def test_a_worker_that_is_broken_off_ends_though_it_is_rung_for_just_then(harness):
    for turns_of_the_loop in range(8):
        run = asyncio.create_task(harness.worker(ScriptedHandler(), poll_seconds=60).run())
        await asyncio.sleep(0.05)
        harness.notify("s_nobody")
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0)
        run.cancel()
        await asyncio.wait({run}, timeout=10)
        assert run.cancelled(), f"{turns_of_the_loop} turns of the loop later"


async def test_a_cancel_is_heard_while_the_worker_stops(harness):
    session = await harness.session()
    handler, begun, _ = held_back()
    async with harness.working(handler, cancel_grace_seconds=0) as worker:
        task = await harness.put(session)
        await begun.wait()
        worker.stop()
        await harness.tasks.cancel(task.id, who="ben")
    assert harness.ends(session) == [(task.id, "cancelled")]
