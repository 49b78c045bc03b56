"""A worker on both databases: order, side by side, cancel, questions, stops, and faults from outside."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from interlock.events.catalog import ToolCallStarted
from interlock.infra.errors import AuditUnavailable, SessionFenced, StoreLocked
from interlock.session.models import Role
from interlock.worker import worker as worker_module
from interlock.worker.handler import Done, Failed, Waiting
from interlock.worker.rows import TaskStatus
from tests.conftest import open_store
from tests.integration.worker.shop import SECRET, Handler, Shop, until

YES = {"confirmed": True}


class SilentBell:
    """Loses every ring."""

    def ring(self, session_id: str) -> None:
        pass

    async def rings(self) -> AsyncIterator[str]:
        await asyncio.Event().wait()
        yield ""


class BrokenBell(SilentBell):
    async def rings(self) -> AsyncIterator[str]:
        raise ConnectionError("the bell fell down")
        yield ""


def held_back():
    """A handler that says when it has begun, and ends when it is let go."""
    begun, go = asyncio.Event(), asyncio.Event()

    async def handling(task, lease, cancelled):
        begun.set()
        await go.wait()
        return Done()

    return Handler(handling), begun, go


# -- order --


async def test_tasks_of_a_session_run_one_after_another_in_order(shop):
    session, running, most = await shop.session(), 0, 0

    async def handling(task, lease, cancelled):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await shop.sessions.append_message(session, Role.assistant, task.id, token=lease.token)
        running -= 1
        return Done()

    tasks = [await shop.put(session, f"m{n}") for n in range(5)]
    handler = Handler(handling)
    async with shop.working(handler):
        tasks += [await shop.put(session, f"m{n}") for n in range(5, 10)]
        ended = await shop.ended(*(task.id for task in tasks))
    assert {task.status for task in ended} == {TaskStatus.done}
    assert [task.id for task in handler.seen] == [task.id for task in tasks]
    assert (most, shop.ends(session)) == (1, [(task.id, "done") for task in tasks])
    assert shop.faults() == []


async def test_sessions_run_side_by_side_up_to_the_bound(shop):
    sessions = [await shop.session() for _ in range(5)]
    tasks = [await shop.put(session) for session in sessions]
    gate, running = asyncio.Event(), set()

    async def handling(task, lease, cancelled):
        running.add(task.id)
        await gate.wait()
        running.discard(task.id)
        return Done()

    async with shop.working(Handler(handling), sessions=3):
        await until(lambda: len(running) == 3)
        await asyncio.sleep(0.5)
        assert running == {task.id for task in tasks[:3]}
        gate.set()
        await shop.ended(*(task.id for task in tasks))


async def test_two_workers_never_run_one_task_at_once(shop):
    other_store = open_store(shop.store.config)
    other, running = Shop(other_store), []

    async def handling(task, lease, cancelled):
        assert task.session_id not in running
        running.append(task.session_id)
        await asyncio.sleep(0.005)
        running.remove(task.session_id)
        return Done()

    sessions = [await shop.session() for _ in range(6)]
    tasks = [await shop.put(session, f"m{n}") for n in range(4) for session in sessions]
    handlers = Handler(handling), Handler(handling)
    async with shop.working(handlers[0], "w1"), other.working(handlers[1], "w2"):
        ended = await shop.ended(*(task.id for task in tasks))
    other_store.close()
    assert {task.status for task in ended} == {TaskStatus.done}
    assert {task.attempts for task in ended} == {1}
    for session in sessions:
        mine = [task.id for task in tasks if task.session_id == session]
        assert shop.ends(session) == [(task_id, "done") for task_id in mine]
    assert shop.store.deadlocks() == 0


@pytest.mark.parametrize("bell", [SilentBell(), BrokenBell()])
async def test_what_no_bell_told_is_found_by_looking(shop, bell):
    session = await shop.session()
    async with shop.working(Handler(), bell=bell, poll_seconds=0.1):
        await asyncio.sleep(0.2)
        task = await shop.put(session)
        assert (await shop.ended(task.id))[0].status is TaskStatus.done


async def test_a_ring_starts_a_task_without_waiting_for_the_next_look(shop):
    session = await shop.session()
    async with shop.working(Handler(), poll_seconds=60):
        await asyncio.sleep(0.2)
        for _ in range(3):
            await shop.ended((await shop.put(session)).id)


# -- what a handler comes to --


async def test_a_handler_that_fails_or_raises_fails_its_task_and_not_the_worker(shop):
    session = await shop.session()
    words = ("fail", "raise", "audit", "cancel oneself", "nonsense", "well")

    async def handling(task, lease, cancelled):
        match words[len(handler.seen) - 1]:
            case "fail":
                return Failed("the model does not answer")
            case "raise":
                raise ValueError(f"internal detail {SECRET}")
            case "audit":
                raise AuditUnavailable("what cannot be recorded is not done")
            case "cancel oneself":
                raise asyncio.CancelledError
            case "nonsense":
                return "ready"
        return Done()

    handler = Handler(handling)
    tasks = [await shop.put(session, word) for word in words]
    async with shop.working(handler):
        ended = await shop.ended(*(task.id for task in tasks))
    assert [(task.status.value, task.reason) for task in ended] == [
        ("failed", "the model does not answer"),
        ("failed", "an unexpected error ended it (ValueError)"),
        ("failed", "what cannot be recorded is not done"),
        ("failed", "the work on it was broken off"),
        ("failed", "the work on it ended without saying how"),
        ("done", None),
    ]
    assert SECRET not in str(shop.events(session))


async def test_a_question_nobody_put_fails_the_task(shop):
    session = await shop.session()

    async def handling(task, lease, cancelled):
        return Waiting("q_nothing")

    task = await shop.put(session)
    async with shop.working(Handler(handling)):
        (ended,) = await shop.ended(task.id)
    assert (ended.status, ended.attempts) == (TaskStatus.failed, 1)


# -- questions --


def asking_once(shop):
    """Asks at the first attempt and is done at the second."""

    async def handling(task, lease, cancelled):
        if task.attempts > 1:
            return Done()
        return Waiting((await shop.asked(task, lease)).id)

    return Handler(handling)


async def test_a_task_that_asks_holds_nothing_and_goes_on_with_the_answer(shop):
    session, other = await shop.session(), await shop.session()
    async with shop.working(asking_once(shop), sessions=1, poll_seconds=60):
        task = await shop.put(session)
        waiting = await shop.reached(task.id, TaskStatus.waiting)
        await until(lambda: shop.store.query("SELECT expires_ms FROM session_leases") == [(0,)])
        elsewhere = await shop.put(other)
        await shop.reached(elsewhere.id, TaskStatus.waiting)
        await shop.questions.answer(waiting.question_id, YES, who="ada")
        (ended,) = await shop.ended(task.id)
    assert (ended.status, ended.attempts, ended.interruptions) == (TaskStatus.done, 2, 0)
    told = [kind for kind in shop.kinds(session) if kind.startswith("task.")]
    assert told == ["task.queued", "task.started", "task.waiting", "task.started", "task.finished"]
    assert shop.faults() == []


async def test_a_parked_task_goes_on_after_a_restart(shop):
    session = await shop.session()
    task = await shop.put(session)
    async with shop.working(asking_once(shop)):
        waiting = await shop.reached(task.id, TaskStatus.waiting)
    await shop.questions.answer(waiting.question_id, YES, who="ada")
    again_store = open_store(shop.store.config)
    again = Shop(again_store)
    async with again.working(asking_once(again), "w2"):
        (ended,) = await again.ended(task.id)
    again_store.close()
    assert (ended.status, ended.attempts) == (TaskStatus.done, 2)


async def test_a_message_instead_of_an_answer_is_worked_on_after_what_asked(shop):
    session = await shop.session()
    handler = asking_once(shop)
    async with shop.working(handler, poll_seconds=60):
        task = await shop.put(session)
        await shop.reached(task.id, TaskStatus.waiting)
        message = await shop.put(session, "never mind")
        await shop.ended(task.id)
        await shop.reached(message.id, TaskStatus.waiting)
    assert [seen.id for seen in handler.seen] == [task.id, task.id, message.id]
    assert shop.ends(session) == [(task.id, "done")]


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


async def test_a_cancel_is_heard_while_the_worker_stops(shop):
    session = await shop.session()
    handler, begun, _ = held_back()
    async with shop.working(handler, cancel_grace_seconds=0) as worker:
        task = await shop.put(session)
        await begun.wait()
        worker.stop()
        await shop.tasks.cancel(task.id, who="ben")
    assert shop.ends(session) == [(task.id, "cancelled")]


# -- faults from outside --


async def test_a_worker_that_lost_its_lease_stops_and_writes_nothing(store):
    shop = Shop(store, lease_seconds=1.0)
    session, ended = await shop.session(), []
    begun, go = asyncio.Event(), asyncio.Event()

    async def handling(task, lease, cancelled):
        begun.set()
        try:
            await go.wait()
        except asyncio.CancelledError:
            ended.append(lease.lost.is_set())
            raise
        return Done()

    async with shop.working(Handler(handling), "w1"):
        task = await shop.put(session)
        await begun.wait()
        shop.store.execute(
            "UPDATE session_leases SET token = token + 1, holder = 'w2', expires_ms = expires_ms + 600000"
        )
        before = shop.kinds(session)
        await until(lambda: ended)
    assert ended == [True]
    assert shop.kinds(session) == before
    assert (await shop.tasks.get(task.id)).status is TaskStatus.running


async def test_a_handler_that_was_fenced_out_fails_nothing(shop):
    session = await shop.session()

    async def handling(task, lease, cancelled):
        if task.attempts == 1:
            raise SessionFenced("somebody else holds it")
        return Done()

    async with shop.working(Handler(handling)):
        task = await shop.put(session)
        (ended,) = await shop.ended(task.id)
    assert (ended.status, ended.attempts, ended.interruptions) == (TaskStatus.done, 2, 1)


async def test_calls_that_a_dead_worker_left_open_are_settled_before_its_task_goes_on(shop):
    session = await shop.session()
    task, lease = await shop.started(session)
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
    await shop.store.log.append(session, intent, scope=task.scope, token=lease.token)
    shop.expire_lease(session)
    async with shop.working(Handler(), "w2"):
        (ended,) = await shop.ended(task.id)
    assert (ended.status, ended.attempts, ended.interruptions) == (TaskStatus.done, 2, 1)
    assert shop.kinds(session)[3:] == [
        *("tool_call.started", "tool_call.interrupted", "task.started", "task.finished")
    ]
    assert shop.faults() == []


async def test_the_end_of_a_task_waits_for_a_store_that_is_away_for_a_moment(shop, monkeypatch):
    session, refusals = await shop.session(), 3
    finish = shop.tasks.finish

    async def sometimes(*arguments):
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise StoreLocked("the database is locked by another process")
        return await finish(*arguments)

    monkeypatch.setattr(shop.tasks, "finish", sometimes)
    handler = Handler()
    async with shop.working(handler):
        task = await shop.put(session)
        (ended,) = await shop.ended(task.id)
    assert (ended.status, ended.attempts, refusals, len(handler.seen)) == (TaskStatus.done, 1, 0, 1)


@pytest.mark.parametrize("part", ["find_work", "to_stop", "resumable", "start", "take"])
async def test_a_store_that_fails_is_survived(shop, monkeypatch, part):
    monkeypatch.setattr(worker_module, "COOLING_SECONDS", 0.1)
    owner = {"find_work": shop.backlog, "to_stop": shop.backlog, "take": shop.leases}.get(part, shop.tasks)
    works, failures = getattr(owner, part), []

    async def failing(*arguments):
        if len(failures) < 3:
            failures.append(part)
            raise StoreLocked("the database is locked by another process")
        return await works(*arguments)

    monkeypatch.setattr(owner, part, failing)
    session = await shop.session()

    async def handling(task, lease, cancelled):
        await until(lambda: part != "to_stop" or len(failures) == 3)
        return Done()

    async with shop.working(Handler(handling), poll_seconds=0.05):
        task = await shop.put(session)
        (ended,) = await shop.ended(task.id)
    assert (ended.status, len(failures)) == (TaskStatus.done, 3)


async def test_a_session_in_trouble_does_not_keep_the_others_waiting(shop, monkeypatch):
    """Its stream is closed and its task is not: nobody can hold it, and it is tried only now and then."""
    broken, whole = await shop.session(), await shop.session()
    await shop.put(broken)
    shop.store.execute("UPDATE stream_heads SET closed_us = 1 WHERE stream = ?", broken)
    tried, take = [], shop.leases.take

    async def counted(session_id, holder):
        tried.append(session_id)
        return await take(session_id, holder)

    monkeypatch.setattr(shop.leases, "take", counted)
    async with shop.working(Handler(), sessions=1, poll_seconds=0.05):
        await until(lambda: tried)
        await shop.ended(*[(await shop.put(whole, f"m{n}")).id for n in range(5)])
    assert tried.count(broken) <= 3


async def test_a_deleted_session_stops_its_worker(store):
    shop = Shop(store, lease_seconds=1.0)
    session, stopped = await shop.session(), asyncio.Event()

    async def handling(task, lease, cancelled):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
            raise

    handler = Handler(handling)
    async with shop.working(handler):
        await shop.put(session)
        await until(lambda: handler.seen)
        await shop.sessions.delete(session, who="ada")
        await asyncio.wait_for(stopped.wait(), 10)
    assert shop.faults() == []
