"""A worker on both databases: tasks in order and side by side, and what a handler comes to."""

import asyncio

from interlock.core.errors import AuditUnavailable
from interlock.runtime import worker as worker_module
from interlock.runtime.bus import Bus
from interlock.runtime.task_handler import DoneOutcome, FailedOutcome, WaitingOutcome
from interlock.runtime.task_rows import TaskStatus
from interlock.sessions.models import Role
from tests.harness.store import open_store
from tests.harness.tasks import SECRET, ScriptedHandler, TaskHarness, until

# -- order --


async def test_tasks_of_a_session_run_one_after_another_in_order(harness):
    session, running, most = await harness.session(), 0, 0

    async def handling(task, lease, cancelled):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await harness.sessions.append_message(session, Role.assistant, task.id, token=lease.token)
        running -= 1
        return DoneOutcome()

    tasks = [await harness.put(session, f"m{n}") for n in range(5)]
    handler = ScriptedHandler(handling)
    async with harness.working(handler):
        tasks += [await harness.put(session, f"m{n}") for n in range(5, 10)]
        ended = await harness.ended(*(task.id for task in tasks))
    assert {task.status for task in ended} == {TaskStatus.done}
    assert [task.id for task in handler.seen] == [task.id for task in tasks]
    assert (most, harness.ends(session)) == (1, [(task.id, "done") for task in tasks])
    assert harness.faults() == []


async def test_a_session_is_taken_with_its_first_task_and_given_back_with_its_last(harness):
    """Each in one transaction: nobody sees a session that is held for nothing."""
    session, tokens, units = await harness.session(), [], []
    log = harness.store.log

    def counting(transact):
        def counted(stream, work, **options):
            units.append(work.__qualname__.split(".")[1])
            return transact(stream, work, **options)

        return counted

    async def handling(task, lease, cancelled):
        tokens.append(lease.token)
        return DoneOutcome()

    tasks = [await harness.put(session, f"m{n}") for n in range(2)]
    log.transact = counting(log.transact)
    async with harness.working(ScriptedHandler(handling)):
        await harness.ended(*(task.id for task in tasks))
    assert len(tokens) == 2
    assert len(set(tokens)) == 1
    assert units == ["take_and", "finish_and", "start", "finish_and"]
    assert harness.store.query("SELECT expires_ms FROM leases") == [(0,)]


async def test_a_first_task_that_cannot_be_taken_up_leaves_its_session_free(harness, monkeypatch):
    session, begin = await harness.session(), harness.tasks.begin_first
    failures = [ValueError("no")]

    def failing(*arguments):
        begin(*arguments)
        if failures:
            raise failures.pop()
        return begin(*arguments)

    monkeypatch.setattr(harness.tasks, "begin_first", failing)
    monkeypatch.setattr(worker_module, "COOLING_SECONDS", 30.0)
    task = await harness.put(session)
    async with harness.working(ScriptedHandler()):
        await until(lambda: not failures)
        await asyncio.sleep(0)
    assert (await harness.tasks.get(task.id)).attempts == 0
    assert await harness.leases.take(session, "w2") is not None
    assert harness.faults() == []


async def test_sessions_run_side_by_side_up_to_the_bound(harness):
    sessions = [await harness.session() for _ in range(5)]
    tasks = [await harness.put(session) for session in sessions]
    gate, running = asyncio.Event(), set()

    async def handling(task, lease, cancelled):
        running.add(task.id)
        await gate.wait()
        running.discard(task.id)
        return DoneOutcome()

    async with harness.working(ScriptedHandler(handling), sessions=3):
        await until(lambda: len(running) == 3)
        await asyncio.sleep(0.5)
        assert running == {task.id for task in tasks[:3]}
        gate.set()
        await harness.ended(*(task.id for task in tasks))


async def test_two_workers_never_run_one_task_at_once(harness):
    other_store = open_store(harness.store.config)
    other, running = TaskHarness(other_store), []

    async def handling(task, lease, cancelled):
        assert task.session_id not in running
        running.append(task.session_id)
        await asyncio.sleep(0.005)
        running.remove(task.session_id)
        return DoneOutcome()

    sessions = [await harness.session() for _ in range(6)]
    tasks = [await harness.put(session, f"m{n}") for n in range(4) for session in sessions]
    handlers = ScriptedHandler(handling), ScriptedHandler(handling)
    async with harness.working(handlers[0], "w1"), other.working(handlers[1], "w2"):
        ended = await harness.ended(*(task.id for task in tasks))
    other_store.close()
    assert {task.status for task in ended} == {TaskStatus.done}
    assert {task.attempts for task in ended} == {1}
    for session in sessions:
        mine = [task.id for task in tasks if task.session_id == session]
        assert harness.ends(session) == [(task_id, "done") for task_id in mine]
    assert harness.store.deadlocks() == 0


async def test_what_no_bell_told_is_found_by_looking(harness):
    session = await harness.session()
    # Its bus has no messages of the tasks'.
    async with harness.working(ScriptedHandler(), bus=Bus(), poll_seconds=0.1):
        await asyncio.sleep(0.2)
        task = await harness.put(session)
        assert (await harness.ended(task.id))[0].status is TaskStatus.done


async def test_a_ring_starts_a_task_without_waiting_for_the_next_look(harness):
    session = await harness.session()
    handler, put = ScriptedHandler(), []
    # Nobody waits that long: what is worked on was rung for.
    async with harness.working(handler, poll_seconds=3600):
        await asyncio.sleep(0.2)
        for _ in range(3):
            put.append((await harness.put(session)).id)
            (task,) = await harness.ended(put[-1])
            assert task.status is TaskStatus.done
    assert [task.id for task in handler.seen] == put


# -- what a handler comes to --


async def test_a_handler_that_fails_or_raises_fails_its_task_and_not_the_worker(harness):
    session = await harness.session()
    words = ("fail", "raise", "audit", "cancel oneself", "nonsense", "well")

    async def handling(task, lease, cancelled):
        match words[len(handler.seen) - 1]:
            case "fail":
                return FailedOutcome("the model does not answer")
            case "raise":
                raise ValueError(f"internal detail {SECRET}")
            case "audit":
                raise AuditUnavailable("what cannot be recorded is not done")
            case "cancel oneself":
                raise asyncio.CancelledError
            case "nonsense":
                return "ready"
        return DoneOutcome()

    handler = ScriptedHandler(handling)
    tasks = [await harness.put(session, word) for word in words]
    async with harness.working(handler):
        ended = await harness.ended(*(task.id for task in tasks))
    assert [(task.status.value, task.reason) for task in ended] == [
        ("failed", "the model does not answer"),
        ("failed", "an unexpected error ended it (ValueError)"),
        ("failed", "what cannot be recorded is not done"),
        ("failed", "it was interrupted"),
        ("failed", "it ended without a result"),
        ("done", None),
    ]
    assert SECRET not in str(harness.events(session))


async def test_a_question_nobody_put_fails_the_task(harness):
    session = await harness.session()

    async def handling(task, lease, cancelled):
        return WaitingOutcome("q_nothing")

    task = await harness.put(session)
    async with harness.working(ScriptedHandler(handling)):
        (ended,) = await harness.ended(task.id)
    assert (ended.status, ended.attempts) == (TaskStatus.failed, 1)
