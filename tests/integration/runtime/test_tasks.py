"""Tasks as rows, on both databases: put with their message, ended once, fenced, told by events."""

import asyncio

import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import (
    SessionBusy,
    SessionFenced,
    SessionNotFound,
    TaskNotFound,
    UserError,
    WrongTaskStatus,
)
from interlock.questions.rows import QuestionStatus
from interlock.redaction.redactor import Redactor
from interlock.runtime.task_rows import TaskStatus
from interlock.runtime.tasks import MAX_INTERRUPTIONS
from interlock.sessions.models import Role
from tests.conftest import open_store
from tests.harness.tasks import SECRET, TaskHarness

YES = {"confirmed": True}


# -- putting --


async def test_a_message_and_its_task_are_one(harness):
    session = await harness.session()
    task = await harness.tasks.put(session, "tidy up", who="ada")
    assert task.id.startswith("t_")
    assert (task.status, task.who, task.attempts, task.mode) == (TaskStatus.queued, "ada", 0, "chat_safe")
    assert await harness.tasks.get(task.id) == task
    (message,) = await harness.sessions.transcript(session)
    assert (message.seq, message.role, message.content) == (task.message_seq, Role.user, "tidy up")
    appended, queued = harness.events(session)
    assert appended[0] == "message.appended"
    told = {"task_id": task.id, "message_seq": task.message_seq, "who": "ada"}
    assert queued == (
        "task.queued",
        told | {"mode": "chat_safe", "credential_id": "", "retry_of": "", "steers": ""},
    )
    rows = harness.store.query("SELECT task FROM events WHERE stream = ? AND seq > 1", session)
    assert rows == [(task.id,)] * 2
    assert harness.faults() == []


async def test_a_task_keeps_its_id_and_its_credential_whatever_is_a_secret(store):
    """Its row follows from an event, and other events are redacted as a whole."""
    identity, credential = "t_0123456789abcdef", "c_0123456789abcdef"
    masking = open_store(store.config, Redactor([identity, credential]))
    harness = TaskHarness(masking)
    session = await harness.session()
    masking.execute(
        "INSERT INTO credentials (id, kind, name, hash, created_us, created_by) "
        "VALUES (?, 'token', 'ada', ?, 0, 'ada')",
        *(credential, b"1" * 32),
    )
    await harness.tasks.put(session, "go", who="ada", credential_id=credential, task_id=identity)
    assert (await harness.tasks.get(identity)).credential_id == credential
    masking.close()


async def test_a_full_queue_takes_nothing_and_changes_nothing(store):
    harness = TaskHarness(store, queue_limit=2)
    session = await harness.session()
    task, question = await harness.parked(session)
    for _ in range(2):
        # Written as if they had come before the question was asked.
        harness.store.execute(
            "INSERT INTO tasks (id, session_id, message_seq, status, who, created_us, attempts,"
            " interruptions, queued_event) VALUES (?, ?, ?, 'queued', 'x', 1, 0, 0, 'e')",
            *(f"t_{_}", session, 100 + _),
        )
    before = harness.kinds(session)
    with pytest.raises(SessionBusy, match="2 messages are already queued in session"):
        await harness.put(session)
    assert harness.kinds(session) == before
    assert (await harness.questions.get(question.id)).status is QuestionStatus.open
    assert (await harness.tasks.get(task.id)).status is TaskStatus.waiting


async def test_the_queue_limit_holds_when_many_send_at_once(store):
    harness, other_store = TaskHarness(store, queue_limit=5), open_store(store.config)
    other = TaskHarness(other_store, queue_limit=5)
    session = await harness.session()
    sent = await asyncio.gather(
        *(part.put(session, f"m{n}") for n in range(6) for part in (harness, other)), return_exceptions=True
    )
    other_store.close()
    assert len([one for one in sent if isinstance(one, SessionBusy)]) == 7
    assert len(await harness.tasks.list_tasks(session_id=session)) == 5
    assert len(await harness.sessions.transcript(session)) == 5
    assert harness.store.deadlocks() == 0


async def test_nothing_is_put_where_there_is_no_session(harness):
    with pytest.raises(SessionNotFound):
        await harness.put("nobody")
    with pytest.raises(UserError, match="the message is empty"):
        await harness.put(await harness.session(), " \n ")
    assert await harness.tasks.list_tasks() == []


async def test_a_secret_in_a_message_is_stored_nowhere(harness):
    session = await harness.session()
    task = await harness.tasks.put(session, f"use {SECRET} here", who=f"ada {SECRET}")
    lease = await harness.leases.take(session, "w1")
    await harness.tasks.start(task.id, lease)
    failed = await harness.tasks.finish(task.id, TaskStatus.failed, f"could not use {SECRET}", lease)
    assert "could not use" in failed.reason
    for table in ("tasks", "event_texts", "events"):
        assert SECRET not in str(harness.store.query(f"SELECT * FROM {table}"))


# -- the life of a task --


async def test_a_task_starts_in_its_sessions_mode_and_ends_done(harness):
    session = await harness.session(ToolMode.coding)
    task, lease = await harness.started(session)
    assert (task.status, task.mode, task.attempts) == (TaskStatus.running, ToolMode.coding, 1)
    done = await harness.tasks.finish(task.id, TaskStatus.done, "", lease)
    assert (done.status, done.reason) == (TaskStatus.done, None)
    assert done.created_us <= done.started_us <= done.ended_us
    events = harness.events(session)
    assert [kind for kind, _ in events[2:]] == ["task.started", "task.finished"]
    assert events[2][1] == {"task_id": task.id, "mode": "coding", "worker": "w1", "attempt": 1}
    assert await harness.tasks.finish(task.id, TaskStatus.failed, "twice", lease) == done
    assert len(harness.events(session)) == 4


async def test_the_parents_of_a_tasks_events_are_its_scopes(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    await harness.tasks.finish(task.id, TaskStatus.done, "", lease)
    sql = "SELECT kind, id, parent FROM events WHERE stream = ? AND kind LIKE 'task.%' ORDER BY seq"
    queued, started, finished = harness.store.query(sql, session)
    assert (started[2], finished[2]) == (queued[1], started[1])
    assert (task.scope.task, task.scope.parent) == (task.id, started[1])


@pytest.mark.parametrize(
    ("at_start", "present", "resumed"),
    [
        ("coding", "chat_safe", "chat_safe"),
        ("chat_safe", "coding", "chat_safe"),
        ("plan", "coding", "plan"),
        ("coding", "nonsense", "chat_safe"),
    ],
)
async def test_a_resumed_task_gets_the_stricter_mode(harness, at_start, present, resumed):
    session = await harness.session(ToolMode(at_start))
    task, question = await harness.parked(session)
    assert task.mode == at_start
    harness.store.execute("UPDATE sessions SET mode = ? WHERE id = ?", present, session)
    await harness.questions.answer(question.id, YES, who="ada")
    again = await harness.tasks.start(task.id, await harness.leases.take(session, "w2"))
    assert (again.mode, again.attempts) == (resumed, 2)
    assert [p["mode"] for kind, p in harness.events(session) if kind == "task.started"] == [
        at_start,
        resumed,
    ]


async def test_tasks_of_a_session_are_worked_on_in_order(harness):
    session = await harness.session()
    first, second = await harness.put(session, "one"), await harness.put(session, "two")
    lease = await harness.leases.take(session, "w1")
    assert await harness.tasks.resumable(session) == first
    await harness.tasks.start(first.id, lease)
    assert (await harness.tasks.resumable(session)).id == first.id
    await harness.tasks.finish(first.id, TaskStatus.failed, "no", lease)
    assert await harness.tasks.resumable(session) == second


async def test_a_worker_that_lost_the_session_changes_no_task(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    question = await harness.asked(task, lease)
    await harness.put(session, "later")
    harness.expire_lease(session)
    before = harness.kinds(session), await harness.tasks.list_tasks()
    for change in (
        lambda: harness.tasks.start(task.id, lease),
        lambda: harness.tasks.wait(task.id, question.id, lease),
        lambda: harness.tasks.finish(task.id, TaskStatus.done, "", lease),
        lambda: harness.tasks.put_back(task.id, lease),
    ):
        with pytest.raises(SessionFenced):
            await change()
    assert (harness.kinds(session), await harness.tasks.list_tasks()) == before


async def test_a_task_that_outlives_no_worker_is_given_up(harness):
    session = await harness.session()
    task = await harness.put(session)
    for _ in range(MAX_INTERRUPTIONS + 1):
        lease = await harness.leases.take(session, "w")
        assert (await harness.tasks.start(task.id, lease)).status is TaskStatus.running
        harness.expire_lease(session)
    given_up = await harness.tasks.start(task.id, await harness.leases.take(session, "w"))
    assert given_up.status is TaskStatus.failed
    assert given_up.reason == "its worker was lost 6 times during the task, so it is not retried"
    assert harness.ends(session) == [(task.id, "failed")]


async def test_a_task_that_was_left_off_in_order_is_no_interruption(harness):
    session = await harness.session()
    task = await harness.put(session)
    for attempt in range(1, 2 * MAX_INTERRUPTIONS + 1):
        lease = await harness.leases.take(session, "w")
        running = await harness.tasks.start(task.id, lease)
        assert (running.attempts, running.interruptions) == (attempt, 0)
        assert (await harness.tasks.put_back(task.id, lease)).status is TaskStatus.queued
        await harness.leases.release(lease)


# -- retrying, listing, forgetting --


async def test_a_retry_is_a_new_task_with_the_same_words(harness):
    session = await harness.session()
    task = await harness.put(session, "once more")
    with pytest.raises(WrongTaskStatus, match="is queued; only a failed or cancelled task"):
        await harness.tasks.retry(task.id, who="ben")
    await harness.tasks.cancel(task.id, who="ada")
    again = await harness.tasks.retry(task.id, who="ben")
    assert (again.retry_of, again.who, again.status) == (task.id, "ben", TaskStatus.queued)
    assert again.message_seq > task.message_seq
    assert [m.content for m in await harness.sessions.transcript(session)] == ["once more"] * 2
    assert (await harness.tasks.get(task.id)).status is TaskStatus.cancelled
    assert harness.faults() == []


async def test_tasks_are_listed_newest_first_by_session_and_status(harness):
    one, two = await harness.session(), await harness.session()
    first, second = await harness.put(one), await harness.put(two)
    third = await harness.put(one)
    await harness.tasks.cancel(third.id, who="ada")

    async def ids(**wanted) -> list[str]:
        return [task.id for task in await harness.tasks.list_tasks(**wanted)]

    assert await ids() == [third.id, second.id, first.id]
    assert await ids(session_id=one) == [third.id, first.id]
    assert await ids(status=TaskStatus.queued) == [second.id, first.id]
    assert await ids(session_id=one, status=TaskStatus.cancelled) == [third.id]
    assert await ids(limit=1) == [third.id]
    assert await ids(session_id="nobody") == []
    with pytest.raises(TaskNotFound):
        await harness.tasks.get("t_nothing")


async def test_with_its_session_a_task_is_gone_and_its_row_stays(harness):
    session = await harness.session()
    failed, lease = await harness.started(session)
    await harness.tasks.finish(failed.id, TaskStatus.failed, "the diary says", lease)
    queued = await harness.put(session, "private")
    await harness.leases.release(lease)
    await harness.tasks.delete_session(session, who="ada")
    assert await harness.tasks.list_tasks() == []
    assert await harness.backlog.find_work(10) == []
    for task_id in (failed.id, queued.id):
        with pytest.raises(TaskNotFound):
            await harness.tasks.get(task_id)
    rows = harness.store.query("SELECT id, status, reason FROM tasks ORDER BY message_seq")
    assert rows == [(failed.id, "failed", "the diary says"), (queued.id, "cancelled", None)]
    assert harness.store.query("SELECT count(*) FROM tasks WHERE ended_us IS NULL") == [(0,)]
    assert harness.faults() == []


# -- what there is to do --


async def test_work_is_what_nobody_holds_oldest_first(harness):
    sessions = [await harness.session() for _ in range(4)]
    for session in sessions:
        await harness.put(session)
    assert await harness.backlog.find_work(10) == sessions
    assert await harness.backlog.find_work(2) == sessions[:2]
    held = await harness.leases.take(sessions[0], "w1")
    assert await harness.backlog.find_work(10) == sessions[1:]
    running = await harness.tasks.resumable(sessions[0])
    await harness.tasks.start(running.id, held)
    assert await harness.backlog.find_work(10) == sessions[1:]
    harness.expire_lease(sessions[0])
    assert await harness.backlog.find_work(10) == sessions
