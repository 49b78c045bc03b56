"""What is cancelled winds down, and a worker that stops leaves nothing half done."""

import asyncio

import pytest

from interlock.session.models import Role
from interlock.worker.handler import Done, Failed
from interlock.worker.rows import TaskStatus
from tests.conftest import open_store
from tests.integration.worker.shop import Handler, Shop, until


def held_back():
    """A handler that says when it has begun, and ends when it is let go."""
    begun, go = asyncio.Event(), asyncio.Event()

    async def handling(task, lease, cancelled):
        begun.set()
        await go.wait()
        return Done()

    return Handler(handling), begun, go


# -- cancelling --


async def test_a_running_task_is_told_to_stop_and_winds_down_by_itself(shop):
    session = await shop.session()
    begun, closed = asyncio.Event(), []

    async def handling(task, lease, cancelled):
        begun.set()
        await cancelled.wait()
        await shop.sessions.append_message(session, Role.assistant, "stopped", token=lease.token)
        closed.append(task.id)
        return Failed("it was told to stop")

    async with shop.working(Handler(handling), poll_seconds=60):
        task, after = await shop.put(session), await shop.put(session, "next")
        await begun.wait()
        await shop.tasks.cancel(after.id, who="ben")
        assert (await shop.tasks.cancel(task.id, who="ben")).status is TaskStatus.running
        await shop.ended(task.id)
    assert closed == [task.id]
    assert shop.ends(session) == [(after.id, "cancelled"), (task.id, "cancelled")]


async def test_a_task_that_does_not_wind_down_is_broken_off_after_its_grace(shop):
    session = await shop.session()
    handler, begun, _ = held_back()
    async with shop.working(handler, cancel_grace_seconds=0.1):
        task = await shop.put(session)
        await begun.wait()
        await shop.tasks.cancel(task.id, who="ben")
        (ended,) = await shop.ended(task.id)
    assert ended.status is TaskStatus.cancelled
    assert shop.ends(session) == [(task.id, "cancelled")]


async def test_a_cancel_from_another_process_is_seen_by_looking(shop):
    session = await shop.session()
    other_store = open_store(shop.store.config)
    handler, begun, _ = held_back()
    async with shop.working(handler, cancel_grace_seconds=0, poll_seconds=0.1):
        task = await shop.put(session)
        await begun.wait()
        await Shop(other_store).tasks.cancel(task.id, who="ben")
        (ended,) = await shop.ended(task.id)
    other_store.close()
    assert ended.status is TaskStatus.cancelled


async def test_a_handler_that_will_not_end_keeps_its_session(shop, monkeypatch):
    monkeypatch.setattr("interlock.worker.attempt.STUBBORN_SECONDS", 0.05)
    session, go, refused = await shop.session(), asyncio.Event(), 0

    async def handling(task, lease, cancelled):
        nonlocal refused
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                refused += 1
        return Done()

    handler = Handler(handling)
    async with shop.working(handler, cancel_grace_seconds=0):
        task, after = await shop.put(session), await shop.put(session, "next")
        await until(lambda: handler.seen)
        await shop.tasks.cancel(task.id, who="ben")
        await until(lambda: refused >= 3)
        assert (await shop.tasks.get(after.id)).status is TaskStatus.queued
        go.set()
        await shop.ended(task.id, after.id)
    assert shop.ends(session) == [(task.id, "cancelled"), (after.id, "done")]


# -- stopping --


async def test_a_stopped_worker_lets_what_runs_end_and_takes_nothing_new(shop):
    session = await shop.session()
    handler, begun, go = held_back()
    async with shop.working(handler) as worker:
        task, after = await shop.put(session), await shop.put(session, "next")
        await begun.wait()
        worker.stop()
        await asyncio.sleep(0.1)
        go.set()
        await shop.ended(task.id)
    assert (await shop.tasks.get(after.id)).status is TaskStatus.queued
    assert await shop.backlog.find_work(10) == [session]


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_a_worker_that_is_stopped_while_it_looks_takes_nothing_up(shop, monkeypatch, how):
    session, look = await shop.session(), shop.backlog.look_at
    task, handler = await shop.put(session), Handler()
    worker = shop.worker(handler)

    async def stopped_meanwhile(session_id):
        found = await look(session_id)
        _ = worker.stop() if how == "stop" else run.cancel()
        await until(lambda: worker.is_stopping)
        return found

    monkeypatch.setattr(shop.backlog, "look_at", stopped_meanwhile)
    run = asyncio.create_task(worker.run())
    await asyncio.wait({run})
    left = await shop.tasks.get(task.id)
    assert (left.status, left.attempts, handler.seen) == (TaskStatus.queued, 0, [])
    assert await shop.backlog.find_work(10) == [session]


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_what_takes_too_long_is_left_to_another_worker(shop, how):
    session = await shop.session()
    handler, begun, go = held_back()
    worker = shop.worker(handler, stop_grace_seconds=0.1 if how == "stop" else 60)
    run = asyncio.create_task(worker.run())
    task = await shop.put(session)
    await begun.wait()
    if how == "stop":
        worker.stop()
        await run
    else:
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    left = await shop.tasks.get(task.id)
    assert (left.status, left.interruptions) == (TaskStatus.queued, 0)
    go.set()
    async with shop.working(handler, "w2"):
        (ended,) = await shop.ended(task.id)
    assert (ended.status, ended.attempts) == (TaskStatus.done, 2)


async def test_a_worker_that_is_broken_off_ends_though_it_is_rung_for_just_then(shop):
    for turns_of_the_loop in range(8):
        run = asyncio.create_task(shop.worker(Handler(), poll_seconds=60).run())
        await asyncio.sleep(0.05)
        shop.bell.ring("s_nobody")
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0)
        run.cancel()
        await asyncio.wait({run}, timeout=10)
        assert run.cancelled(), f"{turns_of_the_loop} turns of the loop later"


async def test_a_cancel_is_heard_while_the_worker_stops(shop):
    session = await shop.session()
    handler, begun, _ = held_back()
    async with shop.working(handler, cancel_grace_seconds=0) as worker:
        task = await shop.put(session)
        await begun.wait()
        worker.stop()
        await shop.tasks.cancel(task.id, who="ben")
    assert shop.ends(session) == [(task.id, "cancelled")]
