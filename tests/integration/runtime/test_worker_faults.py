"""Faults from outside: lost leases, dead workers, a store that is away, sessions that are deleted."""

import asyncio

import pytest

from interlock.core.errors import SessionFenced, StoreCorrupt, StoreLocked, StoreUnavailable
from interlock.db.leases import Leases
from interlock.log.kinds import ToolCallStarted
from interlock.runtime import session_runner
from interlock.runtime import worker as worker_module
from interlock.runtime.task_handler import DoneOutcome
from interlock.runtime.task_rows import TaskStatus
from tests.harness.log_capture import capture_logs
from tests.harness.tasks import ScriptedHandler, TaskHarness, until


async def test_a_worker_that_lost_its_lease_stops_and_writes_nothing(store):
    harness = TaskHarness(store, lease_seconds=1.0)
    session, ended = await harness.session(), []
    begun, go = asyncio.Event(), asyncio.Event()

    async def handling(task, lease, cancelled):
        begun.set()
        try:
            await go.wait()
        except asyncio.CancelledError:
            ended.append(lease.lost.is_set())
            raise
        return DoneOutcome()

    async with harness.working(ScriptedHandler(handling), "w1"):
        task = await harness.put(session)
        await begun.wait()
        harness.store.execute(
            "UPDATE leases SET token = token + 1, holder = 'w2', expires_ms = expires_ms + 600000"
        )
        before = harness.kinds(session)
        await until(lambda: ended)
    assert ended == [True]
    assert harness.kinds(session) == before
    assert (await harness.tasks.get(task.id)).status is TaskStatus.running


async def test_a_handler_that_was_fenced_out_fails_nothing(harness):
    session = await harness.session()

    async def handling(task, lease, cancelled):
        if task.attempts == 1:
            raise SessionFenced("somebody else holds it")
        return DoneOutcome()

    async with harness.working(ScriptedHandler(handling)):
        task = await harness.put(session)
        (ended,) = await harness.ended(task.id)
    assert (ended.status, ended.attempts, ended.interruptions) == (TaskStatus.done, 2, 1)


async def test_calls_that_a_dead_worker_left_open_are_settled_before_its_task_goes_on(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    intent = ToolCallStarted(
        call_id="call_1",
        tool_name="bash",
        mode="coding",
        authority_digest="d",
        redacted=False,
        requested_name="bash",
        arguments={},
        effect="exec",
        timeout_seconds=30,
    )
    await harness.store.log.append(session, intent, scope=task.scope, token=lease.token)
    harness.expire_lease(session)
    async with harness.working(ScriptedHandler(), "w2"):
        (ended,) = await harness.ended(task.id)
    assert (ended.status, ended.attempts, ended.interruptions) == (TaskStatus.done, 2, 1)
    assert harness.kinds(session)[3:] == [
        *("tool_call.started", "tool_call.interrupted", "task.started", "task.finished")
    ]
    assert harness.faults() == []


async def test_the_end_of_a_task_waits_for_a_store_that_is_away_for_a_moment(harness, monkeypatch):
    session, refusals = await harness.session(), 3
    finish = harness.tasks.finish_and

    async def sometimes(*arguments):
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise StoreLocked("the database is locked by another process")
        return await finish(*arguments)

    monkeypatch.setattr(harness.tasks, "finish_and", sometimes)
    handler = ScriptedHandler()
    async with harness.working(handler):
        task = await harness.put(session)
        (ended,) = await harness.ended(task.id)
    assert (ended.status, ended.attempts, refusals, len(handler.seen)) == (TaskStatus.done, 1, 0, 1)


@pytest.mark.parametrize("part", ["find_work", "to_stop", "resumable", "start", "take_and"])
async def test_a_store_that_fails_is_survived(harness, monkeypatch, part):
    monkeypatch.setattr(worker_module, "COOLING_SECONDS", 0.1)
    owners = {"find_work": harness.backlog, "to_stop": harness.backlog, "take_and": harness.leases}
    owner = owners.get(part, harness.tasks)
    works, failures = getattr(owner, part), []
    session = await harness.session()
    task = await (
        _left_behind(harness, session) if part in {"resumable", "start"} else harness.put(session)
    )

    async def failing(*arguments, **more):
        if len(failures) < 3:
            failures.append(part)
            raise StoreLocked("the database is locked by another process")
        return await works(*arguments, **more)

    monkeypatch.setattr(owner, part, failing)

    async def handling(task, lease, cancelled):
        await until(lambda: part not in {"to_stop", "find_work"} or len(failures) == 3)
        return DoneOutcome()

    async with harness.working(ScriptedHandler(handling), poll_seconds=0.05):
        (ended,) = await harness.ended(task.id)
    assert (ended.status, len(failures)) == (TaskStatus.done, 3)


async def _left_behind(harness, session):
    """What somebody has worked on before is not taken up together with its session."""
    task, _ = await harness.started(session)
    harness.expire_lease(session)
    return task


async def test_a_session_in_trouble_does_not_keep_the_others_waiting(harness, monkeypatch):
    """Its stream is closed and its task is not: nobody can hold it, and it is tried only now and then."""
    broken, whole = await harness.session(), await harness.session()
    await harness.put(broken)
    harness.store.execute("UPDATE stream_heads SET closed_us = 1 WHERE stream = ?", broken)
    tried, take = [], harness.leases.take_and

    async def counted(session_id, *arguments, **more):
        tried.append(session_id)
        return await take(session_id, *arguments, **more)

    monkeypatch.setattr(harness.leases, "take_and", counted)
    async with harness.working(ScriptedHandler(), sessions=1, poll_seconds=0.05):
        await until(lambda: tried)
        await harness.ended(*[(await harness.put(whole, f"m{n}")).id for n in range(5)])
    assert tried.count(broken) <= 3


async def test_a_deleted_session_stops_its_worker(store):
    harness = TaskHarness(store, lease_seconds=1.0)
    session, stopped = await harness.session(), asyncio.Event()

    async def handling(task, lease, cancelled):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
            raise

    handler = ScriptedHandler(handling)
    async with harness.working(handler):
        await harness.put(session)
        await until(lambda: handler.seen)
        await harness.tasks.delete_session(session, who="ada")
        await asyncio.wait_for(stopped.wait(), 10)
        await until(lambda: "task.cancelled" in harness.kinds(session))
    assert harness.faults() == []


async def test_a_session_that_is_deleted_while_an_end_waits_for_the_store_is_told_in_a_line(
    harness, monkeypatch
):
    session = await harness.session()

    async def refused(*_):
        await harness.tasks.delete_session(session, who="ada")
        raise StoreLocked("the database is locked by another process")

    monkeypatch.setattr(harness.tasks, "finish_and", refused)
    with capture_logs() as logs:
        async with harness.working(ScriptedHandler(_done)):
            await harness.put(session)
            await until(lambda: "task.cancelled" in harness.kinds(session))
    assert [line["event"] for line in logs] == ["store_is_waited_for"]


async def test_a_store_that_is_damaged_is_told_in_a_line_and_not_by_a_traceback(harness, monkeypatch):
    monkeypatch.setattr(worker_module, "COOLING_SECONDS", 0.1)
    session, take = await harness.session(), harness.leases.take_and
    damage = [StoreCorrupt("it is damaged")]

    async def refused(*arguments, **more):
        if damage:
            raise damage.pop()
        return await take(*arguments, **more)

    monkeypatch.setattr(harness.leases, "take_and", refused)
    with capture_logs() as logs:
        async with harness.working(ScriptedHandler()):
            await harness.ended((await harness.put(session)).id)
            await until(lambda: not damage and logs)
    assert [(line["event"], line["log_level"]) for line in logs] == [("session_lost", "warning")]


async def test_a_task_whose_store_was_away_is_gone_on_with(harness):
    """Not failed, and not counted as a worker's death: the next attempt goes on from the log."""
    session, faults = await harness.session(), [StoreUnavailable("lost"), StoreLocked("busy")]

    async def handling(task, lease, cancelled):
        if faults:
            raise faults.pop()
        return DoneOutcome()

    async with harness.working(ScriptedHandler(handling)):
        task = await harness.put(session)
        (ended,) = await harness.ended(task.id)
    assert (ended.status, ended.attempts, ended.interruptions) == (TaskStatus.done, 3, 0)


async def test_a_store_that_is_away_again_and_again_fails_the_task_in_the_end(harness, monkeypatch):
    """Each attempt may ask a model that costs money."""
    monkeypatch.setattr(session_runner, "MAX_STORE_FAILURES", 3)
    session, attempts = await harness.session(), []

    async def handling(task, lease, cancelled):
        attempts.append(task.attempts)
        raise StoreUnavailable("lost")

    async with harness.working(ScriptedHandler(handling)):
        task = await harness.put(session)
        (ended,) = await harness.ended(task.id)
    assert (ended.status, attempts) == (TaskStatus.failed, [1, 2, 3, 4])
    assert "unavailable 4 times" in ended.reason


async def test_a_start_whose_answer_got_lost_is_one_attempt(harness, monkeypatch):
    session, real, times = await harness.session(), harness.tasks.start, []
    task = await _left_behind(harness, session)

    async def start(task_id, lease):
        times.append(task_id)
        started = await real(task_id, lease)
        if len(times) == 1:
            raise StoreUnavailable("the answer is lost")
        return started

    monkeypatch.setattr(harness.tasks, "start", start)
    async with harness.working(ScriptedHandler(_done)):
        (ended,) = await harness.ended(task.id)
    assert (ended.status, ended.attempts, ended.interruptions) == (TaskStatus.done, 2, 1)
    assert times == [task.id]


async def test_an_end_whose_answer_got_lost_is_one_end(harness, monkeypatch):
    """The session was given back with it: what is written once more would be refused."""
    session, real, times = await harness.session(), harness.tasks.finish_and, []

    async def finish(*arguments):
        times.append(arguments[1])
        await real(*arguments)
        raise StoreUnavailable("the answer is lost")

    monkeypatch.setattr(harness.tasks, "finish_and", finish)
    with capture_logs() as logs:
        async with harness.working(ScriptedHandler(_done)):
            task = await harness.put(session)
            (ended,) = await harness.ended(task.id)
    assert (ended.status, ended.attempts, times) == (TaskStatus.done, 1, [task.id])
    assert harness.ends(session) == [(task.id, "done")]
    assert [line["event"] for line in logs] == ["store_is_waited_for"]


async def test_taking_a_session_up_whose_answer_got_lost_ends_with_its_lease(store, monkeypatch):
    harness = TaskHarness(store, lease_seconds=1.0)
    session, real, times = await harness.session(), harness.leases.take_and, []

    async def take(*arguments, **more):
        times.append(arguments[0])
        taken = await real(*arguments, **more)
        if len(times) == 1:
            raise StoreUnavailable("the answer is lost")
        return taken

    monkeypatch.setattr(harness.leases, "take_and", take)
    async with harness.working(ScriptedHandler(_done)):
        task = await harness.put(session)
        (ended,) = await harness.ended(task.id)
    assert (ended.status, ended.attempts, ended.interruptions) == (TaskStatus.done, 2, 1)
    assert harness.faults() == []


async def _done(_task, _lease, _cancelled):
    return DoneOutcome()


async def test_a_store_that_does_not_answer_loses_the_lease_in_time(store, monkeypatch):
    leases = Leases(store.log, seconds=1)
    session = (await store.sessions.create(opened_by="test")).id

    async def hang(_lease):
        await asyncio.Event().wait()

    async with leases.held(session, "one") as lease:
        monkeypatch.setattr(leases, "renew", hang)
        await asyncio.wait_for(lease.lost.wait(), 5)
        assert not lease.is_held()
