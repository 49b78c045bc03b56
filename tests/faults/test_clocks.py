"""Clocks that are set while work goes on: a day forward, a day back."""

import time

import pytest

from interlock.channels.telegram.bot_lease import BotLease
from interlock.core.errors import SessionFenced
from interlock.db import driver
from interlock.db.leases import Leases
from interlock.runtime.task_rows import TaskStatus
from interlock.runtime.work_queue import SessionWorkState
from tests.harness.tasks import ScriptedHandler, TaskHarness

DAY_MS = 86_400_000


def jump(store, milliseconds: int) -> None:
    """The clock of the leases is set: to the store it is the same whether that moves, or all leases do."""
    store.execute("UPDATE leases SET expires_ms = expires_ms - ? WHERE expires_ms > 0", milliseconds)


async def test_a_clock_that_is_set_back_does_not_keep_a_dead_workers_session_for_a_day(store):
    harness = TaskHarness(store)
    session = await harness.session()
    task, _dead = await harness.started(session)
    assert await harness.backlog.find_work(10) == []
    jump(store, -DAY_MS)
    assert await harness.backlog.find_work(10) == [session]
    assert await harness.backlog.look_at(session) is SessionWorkState.free
    async with harness.working(ScriptedHandler()):
        (ended,) = await harness.ended(task.id)
    assert (ended.status, ended.attempts, ended.interruptions) == (TaskStatus.done, 2, 1)
    assert harness.faults() == []


async def test_a_clock_that_is_set_back_does_not_silence_a_bot_for_a_day(store):
    dead, next_one = (BotLease(store.leases, 7) for _ in range(2))
    assert await dead.take()
    assert not await next_one.take()
    jump(store, -DAY_MS)
    assert await next_one.take()


@pytest.mark.parametrize("milliseconds", [DAY_MS, -DAY_MS], ids=["forward", "back"])
async def test_a_holder_that_was_overtaken_when_the_clock_was_set_writes_nothing_more(store, milliseconds):
    """Whatever clocks do, two never write to one session."""
    leases = Leases(store.log, seconds=30)
    session = await store.sessions.create(opened_by="test")
    first = await leases.take(session.id, "w1")
    jump(store, milliseconds)
    second = await leases.take(session.id, "w2")
    assert second is not None
    assert second.token > first.token
    with pytest.raises(SessionFenced):
        await leases.renew(first)
    await leases.renew(second)


async def test_a_live_holder_whose_lease_is_from_before_the_clock_was_set_back_renews_it(store):
    leases = Leases(store.log, seconds=30)
    session = await store.sessions.create(opened_by="test")
    lease = await leases.take(session.id, "w1")
    jump(store, -DAY_MS)
    await leases.renew(lease)
    assert await leases.take(session.id, "w2") is None


async def test_with_sqlite_no_wall_clock_moves_a_lease(sqlite_store):
    """Processes on one machine have a clock that nobody can set."""
    leases = Leases(sqlite_store.log, seconds=30)
    session = await sqlite_store.sessions.create(opened_by="test")
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    await leases.take(session.id, "w1")
    ((expires,),) = sqlite_store.query("SELECT expires_ms FROM leases")
    since_start = (expires & (2**42 - 1)) / 1000
    assert before + 29.9 < since_start < time.clock_gettime(time.CLOCK_BOOTTIME) + 30.1


async def test_with_sqlite_no_lease_outlives_a_restart_of_the_machine(sqlite_store, monkeypatch):
    leases = Leases(sqlite_store.log, seconds=30)
    session = await sqlite_store.sessions.create(opened_by="test")
    first = await leases.take(session.id, "w1")
    for start in (1, 2**20 - 1):
        # Soon after the start, with the same time on that clock.
        monkeypatch.setattr(driver, "_start_of_the_machine", lambda start=start: start)
        again = await leases.take(session.id, f"w-{start}")
        assert again is not None
        assert again.token > first.token
        assert await leases.take(session.id, "w3") is None


def test_the_number_of_a_start_leaves_room_for_the_clock():
    assert driver.lease_ms() < 2**62
    assert driver.lease_ms() & (2**42 - 1) == pytest.approx(
        time.clock_gettime(time.CLOCK_BOOTTIME) * 1000, abs=60_000
    )
