"""Tasks as rows, on both databases: put with their message, ended once, fenced, told by events."""

import asyncio

import pytest

from interlock.config.modes import ToolMode
from interlock.infra.errors import (
    PersonError,
    QuestionNotFound,
    SessionBusy,
    SessionFenced,
    SessionNotFound,
    TaskNotFound,
    WrongTaskStatus,
)
from interlock.questions.rows import Status
from interlock.session.models import Role
from interlock.worker.rows import TaskStatus
from interlock.worker.tasks import MAX_INTERRUPTIONS
from tests.conftest import open_store
from tests.integration.worker.shop import SECRET, Shop

YES = {"confirmed": True}


# -- putting --


async def test_a_message_and_its_task_are_one(shop):
    session = await shop.session()
    task = await shop.tasks.put(session, "tidy up", who="ada")
    assert task.id.startswith("t_")
    assert (task.status, task.who, task.attempts, task.mode) == (TaskStatus.queued, "ada", 0, None)
    assert await shop.tasks.get(task.id) == task
    (message,) = await shop.sessions.transcript(session)
    assert (message.seq, message.role, message.content) == (task.message_seq, Role.user, "tidy up")
    appended, queued = shop.events(session)
    assert appended[0] == "message.appended"
    assert queued == ("task.queued", {"task_id": task.id, "message_seq": task.message_seq, "who": "ada"})
    rows = shop.store.query("SELECT task FROM events WHERE stream = ? AND seq > 1", session)
    assert rows == [(task.id,)] * 2
    assert shop.faults() == []


async def test_a_full_queue_takes_nothing_and_changes_nothing(store):
    shop = Shop(store, queue_limit=2)
    session = await shop.session()
    task, question = await shop.parked(session)
    for _ in range(2):
        # Written as if they had come before the question was asked.
        shop.store.execute(
            "INSERT INTO tasks (id, session_id, message_seq, status, who, created_us, attempts,"
            " interruptions, queued_event) VALUES (?, ?, ?, 'queued', 'x', 1, 0, 0, 'e')",
            *(f"t_{_}", session, 100 + _),
        )
    before = shop.kinds(session)
    with pytest.raises(SessionBusy, match="2 messages wait in session"):
        await shop.put(session)
    assert shop.kinds(session) == before
    assert (await shop.questions.get(question.id)).status is Status.open
    assert (await shop.tasks.get(task.id)).status is TaskStatus.waiting


async def test_the_queue_limit_holds_when_many_send_at_once(store):
    shop, other_store = Shop(store, queue_limit=5), open_store(store.config)
    other = Shop(other_store, queue_limit=5)
    session = await shop.session()
    sent = await asyncio.gather(
        *(part.put(session, f"m{n}") for n in range(6) for part in (shop, other)), return_exceptions=True
    )
    other_store.close()
    assert len([one for one in sent if isinstance(one, SessionBusy)]) == 7
    assert len(await shop.tasks.list_tasks(session_id=session)) == 5
    assert len(await shop.sessions.transcript(session)) == 5
    assert shop.store.deadlocks() == 0


async def test_nothing_is_put_where_there_is_no_session(shop):
    with pytest.raises(SessionNotFound):
        await shop.put("nobody")
    with pytest.raises(PersonError, match="nothing in the message"):
        await shop.put(await shop.session(), " \n ")
    assert await shop.tasks.list_tasks() == []


async def test_a_secret_in_a_message_is_stored_nowhere(shop):
    session = await shop.session()
    task = await shop.tasks.put(session, f"use {SECRET} here", who=f"ada {SECRET}")
    lease = await shop.leases.take(session, "w1")
    await shop.tasks.start(task.id, lease)
    failed = await shop.tasks.finish(task.id, TaskStatus.failed, f"could not use {SECRET}", lease)
    assert "could not use" in failed.reason
    for table in ("tasks", "messages", "events"):
        assert SECRET not in str(shop.store.query(f"SELECT * FROM {table}"))


# -- the life of a task --


async def test_a_task_starts_in_its_sessions_mode_and_ends_done(shop):
    session = await shop.session(ToolMode.coding)
    task, lease = await shop.started(session)
    assert (task.status, task.mode, task.attempts) == (TaskStatus.running, ToolMode.coding, 1)
    done = await shop.tasks.finish(task.id, TaskStatus.done, "", lease)
    assert (done.status, done.reason) == (TaskStatus.done, None)
    assert done.created_us <= done.started_us <= done.ended_us
    events = shop.events(session)
    assert [kind for kind, _ in events[2:]] == ["task.started", "task.finished"]
    assert events[2][1] == {"task_id": task.id, "mode": "coding", "worker": "w1", "attempt": 1}
    assert await shop.tasks.finish(task.id, TaskStatus.failed, "twice", lease) == done
    assert len(shop.events(session)) == 4


async def test_the_parents_of_a_tasks_events_are_its_scopes(shop):
    session = await shop.session()
    task, lease = await shop.started(session)
    await shop.tasks.finish(task.id, TaskStatus.done, "", lease)
    sql = "SELECT kind, id, parent FROM events WHERE stream = ? AND kind LIKE 'task.%' ORDER BY seq"
    queued, started, finished = shop.store.query(sql, session)
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
async def test_a_resumed_task_gets_the_stricter_mode(shop, at_start, present, resumed):
    session = await shop.session(ToolMode(at_start))
    task, question = await shop.parked(session)
    assert task.mode == at_start
    shop.store.execute("UPDATE sessions SET mode = ? WHERE id = ?", present, session)
    await shop.questions.answer(question.id, YES, who="ada")
    again = await shop.tasks.start(task.id, await shop.leases.take(session, "w2"))
    assert (again.mode, again.attempts) == (resumed, 2)
    assert [p["mode"] for kind, p in shop.events(session) if kind == "task.started"] == [at_start, resumed]


async def test_tasks_of_a_session_are_worked_on_in_order(shop):
    session = await shop.session()
    first, second = await shop.put(session, "one"), await shop.put(session, "two")
    lease = await shop.leases.take(session, "w1")
    assert await shop.tasks.resumable(session) == first
    await shop.tasks.start(first.id, lease)
    assert (await shop.tasks.resumable(session)).id == first.id
    await shop.tasks.finish(first.id, TaskStatus.failed, "no", lease)
    assert await shop.tasks.resumable(session) == second


async def test_a_worker_that_lost_the_session_changes_no_task(shop):
    session = await shop.session()
    task, lease = await shop.started(session)
    question = await shop.asked(task, lease)
    await shop.put(session, "later")
    shop.expire_lease(session)
    before = shop.kinds(session), await shop.tasks.list_tasks()
    for change in (
        lambda: shop.tasks.start(task.id, lease),
        lambda: shop.tasks.wait(task.id, question.id, lease),
        lambda: shop.tasks.finish(task.id, TaskStatus.done, "", lease),
        lambda: shop.tasks.put_back(task.id, lease),
    ):
        with pytest.raises(SessionFenced):
            await change()
    assert (shop.kinds(session), await shop.tasks.list_tasks()) == before


async def test_a_task_that_outlives_no_worker_is_given_up(shop):
    session = await shop.session()
    task = await shop.put(session)
    for _ in range(MAX_INTERRUPTIONS + 1):
        lease = await shop.leases.take(session, "w")
        assert (await shop.tasks.start(task.id, lease)).status is TaskStatus.running
        shop.expire_lease(session)
    given_up = await shop.tasks.start(task.id, await shop.leases.take(session, "w"))
    assert given_up.status is TaskStatus.failed
    assert given_up.reason == "its worker was lost 6 times in the middle of it, so it is not tried again"
    assert shop.ends(session) == [(task.id, "failed")]


async def test_a_task_that_was_left_off_in_order_is_no_interruption(shop):
    session = await shop.session()
    task = await shop.put(session)
    for attempt in range(1, 2 * MAX_INTERRUPTIONS + 1):
        lease = await shop.leases.take(session, "w")
        running = await shop.tasks.start(task.id, lease)
        assert (running.attempts, running.interruptions) == (attempt, 0)
        assert (await shop.tasks.put_back(task.id, lease)).status is TaskStatus.queued
        await shop.leases.give_back(lease)


# -- questions --


async def test_a_parked_task_goes_on_when_it_is_answered(shop):
    session = await shop.session()
    task, question = await shop.parked(session)
    assert (task.status, task.question_id) == (TaskStatus.waiting, question.id)
    assert await shop.tasks.resumable(session) is None
    assert await shop.backlog.find_work(10) == []
    await shop.questions.answer(question.id, YES, who="ada")
    woken = await shop.tasks.get(task.id)
    assert (woken.status, woken.question_id) == (TaskStatus.queued, None)
    assert await shop.tasks.resumable(session) == woken
    assert await shop.backlog.find_work(10) == [session]
    assert shop.kinds(session)[-4:] == [
        *("ask_user.asked", "task.waiting", "ask_user.answered", "tool_call.completed")
    ]
    assert shop.faults() == []


async def test_a_question_that_is_closed_wakes_its_task_as_well(shop):
    session = await shop.session()
    task, question = await shop.parked(session)
    await shop.questions.expire(question.id, reason="nobody knows", who="ben")
    assert (await shop.tasks.get(task.id)).status is TaskStatus.queued


async def test_an_answer_that_came_before_the_task_was_parked_is_not_lost(shop):
    session = await shop.session()
    task, lease = await shop.started(session)
    question = await shop.asked(task, lease)
    await shop.questions.answer(question.id, YES, who="ada")
    again = await shop.tasks.wait(task.id, question.id, lease)
    assert (again.status, again.question_id) == (TaskStatus.queued, None)
    assert "task.waiting" not in shop.kinds(session)


async def test_of_answering_and_parking_at_once_neither_is_lost(shop):
    other_store = open_store(shop.store.config)
    other = Shop(other_store)
    for _ in range(15):
        session = await shop.session()
        task, lease = await shop.started(session)
        question = await shop.asked(task, lease)
        await asyncio.gather(
            shop.tasks.wait(task.id, question.id, lease),
            other.questions.answer(question.id, YES, who="ada"),
        )
        assert (await shop.tasks.get(task.id)).status is TaskStatus.queued
    other_store.close()


async def test_the_answer_to_another_question_wakes_nobody(shop):
    session = await shop.session()
    task, lease = await shop.started(session)
    first, second = await shop.asked(task, lease), await shop.asked(task, lease)
    await shop.tasks.wait(task.id, first.id, lease)
    await shop.questions.answer(second.id, YES, who="ada")
    assert (await shop.tasks.get(task.id)).status is TaskStatus.waiting
    await shop.questions.answer(first.id, YES, who="ada")
    assert (await shop.tasks.get(task.id)).status is TaskStatus.queued


async def test_a_task_waits_only_for_what_it_asked_itself(shop):
    session, elsewhere = await shop.session(), await shop.session()
    task, lease = await shop.started(session)
    _, foreign = await shop.parked(elsewhere)
    for wrong in ("q_nothing", foreign.id):
        with pytest.raises(QuestionNotFound, match="has not asked"):
            await shop.tasks.wait(task.id, wrong, lease)
    assert (await shop.tasks.get(task.id)).status is TaskStatus.running


async def test_a_message_instead_of_an_answer_closes_the_question_and_is_next(shop):
    session = await shop.session()
    task, question = await shop.parked(session)
    message = await shop.put(session, "never mind")
    closed = await shop.questions.get(question.id)
    assert (closed.status, closed.closed_by) == (Status.expired, "ada")
    assert closed.close_reason == "a message came instead of an answer"
    assert shop.kinds(session)[-4:] == [
        *("ask_user.expired", "tool_call.failed", "message.appended", "task.queued")
    ]
    assert (await shop.tasks.resumable(session)).id == task.id
    lease = await shop.leases.take(session, "w1")
    await shop.tasks.start(task.id, lease)
    await shop.tasks.finish(task.id, TaskStatus.done, "", lease)
    assert (await shop.tasks.resumable(session)).id == message.id
    assert shop.faults() == []


async def test_a_task_behind_one_that_waits_waits_too(shop):
    session = await shop.session()
    task, lease = await shop.started(session)
    behind = await shop.put(session, "sent before the question")
    question = await shop.asked(task, lease)
    await shop.tasks.wait(task.id, question.id, lease)
    await shop.leases.give_back(lease)
    assert await shop.backlog.find_work(10) == []
    await shop.tasks.cancel(task.id, who="ada")
    assert await shop.backlog.find_work(10) == [session]
    assert (await shop.tasks.resumable(session)).id == behind.id


async def test_a_task_that_ends_leaves_no_question_open(shop):
    session = await shop.session()
    task, lease = await shop.started(session)
    question = await shop.asked(task, lease)
    await shop.tasks.finish(task.id, TaskStatus.failed, "no", lease)
    assert (await shop.questions.get(question.id)).close_reason == "its task failed"
    assert shop.kinds(session)[-3:] == ["ask_user.expired", "tool_call.failed", "task.finished"]
    assert shop.faults() == []


# -- cancelling --


async def test_a_queued_task_is_cancelled_at_once(shop):
    session = await shop.session()
    task = await shop.put(session)
    cancelled = await shop.tasks.cancel(task.id, who="ben")
    assert (cancelled.status, cancelled.cancel_requested_by) == (TaskStatus.cancelled, "ben")
    assert shop.events(session)[-1] == ("task.cancelled", {"task_id": task.id, "who": "ben"})
    with pytest.raises(WrongTaskStatus, match="is cancelled already"):
        await shop.tasks.cancel(task.id, who="ben")
    lease = await shop.leases.take(session, "w1")
    assert (await shop.tasks.start(task.id, lease)).status is TaskStatus.cancelled
    assert shop.ends(session) == [(task.id, "cancelled")]


async def test_a_waiting_task_is_cancelled_at_once_with_its_question(shop):
    session = await shop.session()
    task, question = await shop.parked(session)
    assert (await shop.tasks.cancel(task.id, who="ben")).status is TaskStatus.cancelled
    assert (await shop.questions.get(question.id)).close_reason == "its task was cancelled"
    assert shop.kinds(session)[-3:] == ["ask_user.expired", "tool_call.failed", "task.cancelled"]
    assert await shop.backlog.find_work(10) == []
    assert shop.faults() == []


@pytest.mark.parametrize("status", [TaskStatus.done, TaskStatus.failed])
async def test_what_was_asked_to_stop_before_it_ended_is_cancelled(shop, status):
    session = await shop.session()
    task, lease = await shop.started(session)
    asked = await shop.tasks.cancel(task.id, who="ben")
    assert (asked.status, asked.is_to_stop) == (TaskStatus.running, True)
    assert await shop.tasks.cancel(task.id, who="eve") == asked
    assert await shop.backlog.to_stop() == {task.id}
    ended = await shop.tasks.finish(task.id, status, "too late", lease)
    assert (ended.status, ended.reason) == (TaskStatus.cancelled, None)
    assert shop.events(session)[-1] == ("task.cancelled", {"task_id": task.id, "who": "ben"})
    assert await shop.backlog.to_stop() == frozenset()


async def test_what_ended_is_not_cancelled_any_more(shop):
    session = await shop.session()
    task, lease = await shop.started(session)
    await shop.tasks.finish(task.id, TaskStatus.done, "", lease)
    with pytest.raises(WrongTaskStatus, match="is done already; nothing was changed"):
        await shop.tasks.cancel(task.id, who="ben")
    assert shop.ends(session) == [(task.id, "done")]


async def test_a_task_that_is_to_stop_is_not_parked_nor_left_to_others(shop):
    for leave in ("wait", "put_back"):
        session = await shop.session()
        task, lease = await shop.started(session)
        question = await shop.asked(task, lease)
        await shop.tasks.cancel(task.id, who="ben")
        if leave == "wait":
            ended = await shop.tasks.wait(task.id, question.id, lease)
        else:
            ended = await shop.tasks.put_back(task.id, lease)
        assert ended.status is TaskStatus.cancelled
        assert (await shop.questions.get(question.id)).status is Status.expired
        assert shop.ends(session) == [(task.id, "cancelled")]


async def test_a_dead_workers_task_that_is_to_stop_is_not_taken_up_again(shop):
    session = await shop.session()
    task, _ = await shop.started(session)
    shop.expire_lease(session)
    await shop.tasks.cancel(task.id, who="ben")
    assert await shop.backlog.find_work(10) == [session]
    lease = await shop.leases.take(session, "w2")
    assert (await shop.tasks.start(task.id, lease)).status is TaskStatus.cancelled
    assert shop.kinds(session).count("task.started") == 1


async def test_of_cancel_and_finish_at_once_exactly_one_is_told(shop):
    """Two writers with connections of their own, as two processes have."""
    other_store = open_store(shop.store.config)
    other, outcomes, head_start = Shop(other_store), [], 0.0
    while len(outcomes) < 30 or len(set(outcomes)) < 2:
        session = await shop.session()
        task, lease = await shop.started(session)

        async def finish(task_id: str = task.id, lease=lease, delay: float = head_start):
            await asyncio.sleep(delay)
            return await shop.tasks.finish(task_id, TaskStatus.done, "", lease)

        finished, cancelled = await asyncio.gather(
            finish(), other.tasks.cancel(task.id, who="ben"), return_exceptions=True
        )
        ((_, told),) = shop.ends(session)
        assert finished.status == told == (await shop.tasks.get(task.id)).status
        assert isinstance(cancelled, WrongTaskStatus) == (told == "done")
        outcomes.append(told)
        # Who lost gets a little more time, so that they come to meet.
        head_start = max(0.0, head_start + (0.0005 if told == "done" else -0.0005))
    other_store.close()
    assert shop.faults() == []
    assert shop.store.deadlocks() == 0


# -- retrying, listing, forgetting --


async def test_a_retry_is_a_new_task_with_the_same_words(shop):
    session = await shop.session()
    task = await shop.put(session, "once more")
    with pytest.raises(WrongTaskStatus, match="is queued; only a failed or cancelled one"):
        await shop.tasks.retry(task.id, who="ben")
    await shop.tasks.cancel(task.id, who="ada")
    again = await shop.tasks.retry(task.id, who="ben")
    assert (again.retry_of, again.who, again.status) == (task.id, "ben", TaskStatus.queued)
    assert again.message_seq > task.message_seq
    assert [m.content for m in await shop.sessions.transcript(session)] == ["once more"] * 2
    assert (await shop.tasks.get(task.id)).status is TaskStatus.cancelled
    assert shop.faults() == []


async def test_tasks_are_listed_newest_first_by_session_and_status(shop):
    one, two = await shop.session(), await shop.session()
    first, second = await shop.put(one), await shop.put(two)
    third = await shop.put(one)
    await shop.tasks.cancel(third.id, who="ada")

    async def ids(**wanted) -> list[str]:
        return [task.id for task in await shop.tasks.list_tasks(**wanted)]

    assert await ids() == [third.id, second.id, first.id]
    assert await ids(session_id=one) == [third.id, first.id]
    assert await ids(status=TaskStatus.queued) == [second.id, first.id]
    assert await ids(session_id=one, status=TaskStatus.cancelled) == [third.id]
    assert await ids(limit=1) == [third.id]
    assert await ids(session_id="nobody") == []
    with pytest.raises(TaskNotFound):
        await shop.tasks.get("t_nothing")


async def test_with_its_session_a_task_is_gone_and_its_row_stays(shop):
    session = await shop.session()
    failed, lease = await shop.started(session)
    await shop.tasks.finish(failed.id, TaskStatus.failed, "the diary says", lease)
    queued = await shop.put(session, "private")
    await shop.leases.give_back(lease)
    await shop.sessions.delete(session, who="ada")
    assert await shop.tasks.list_tasks() == []
    assert await shop.backlog.find_work(10) == []
    for task_id in (failed.id, queued.id):
        with pytest.raises(TaskNotFound):
            await shop.tasks.get(task_id)
        with pytest.raises(TaskNotFound):
            await shop.tasks.cancel(task_id, who="ada")
    rows = shop.store.query("SELECT id, status, reason FROM tasks ORDER BY message_seq")
    assert rows == [(failed.id, "failed", None), (queued.id, "cancelled", None)]
    assert shop.store.query("SELECT count(*) FROM tasks WHERE ended_us IS NULL") == [(0,)]
    assert shop.faults() == []


# -- what there is to do --


async def test_work_is_what_nobody_holds_oldest_first(shop):
    sessions = [await shop.session() for _ in range(4)]
    for session in sessions:
        await shop.put(session)
    assert await shop.backlog.find_work(10) == sessions
    assert await shop.backlog.find_work(2) == sessions[:2]
    held = await shop.leases.take(sessions[0], "w1")
    assert await shop.backlog.find_work(10) == sessions[1:]
    running = await shop.tasks.resumable(sessions[0])
    await shop.tasks.start(running.id, held)
    assert await shop.backlog.find_work(10) == sessions[1:]
    shop.expire_lease(sessions[0])
    assert await shop.backlog.find_work(10) == sessions
