"""Cancelling a task, whatever state it is in: told once, and for good."""

import asyncio

import pytest

from interlock.core.errors import (
    WrongTaskStatus,
)
from interlock.questions.rows import QuestionStatus
from interlock.runtime.task_rows import TaskStatus
from tests.harness.store import open_store
from tests.harness.tasks import TaskHarness


async def test_a_queued_task_is_cancelled_at_once(harness):
    session = await harness.session()
    task = await harness.put(session)
    cancelled = await harness.tasks.cancel(task.id, who="ben")
    assert (cancelled.status, cancelled.cancel_requested_by) == (TaskStatus.cancelled, "ben")
    assert harness.events(session)[-1] == (
        "task.cancelled",
        {"task_id": task.id, "who": "ben", "reason": ""},
    )
    with pytest.raises(WrongTaskStatus, match="is already cancelled"):
        await harness.tasks.cancel(task.id, who="ben")
    lease = await harness.leases.take(session, "w1")
    assert (await harness.tasks.start(task.id, lease)).status is TaskStatus.cancelled
    assert harness.ends(session) == [(task.id, "cancelled")]


async def test_a_waiting_task_is_cancelled_at_once_with_its_question(harness):
    session = await harness.session()
    task, question = await harness.parked(session)
    assert (await harness.tasks.cancel(task.id, who="ben")).status is TaskStatus.cancelled
    assert (await harness.questions.get(question.id)).close_reason == "its task was cancelled"
    assert harness.kinds(session)[-3:] == ["ask_user.expired", "tool_call.failed", "task.cancelled"]
    assert await harness.backlog.find_work(10) == []
    assert harness.faults() == []


@pytest.mark.parametrize("status", [TaskStatus.done, TaskStatus.failed])
async def test_what_was_asked_to_stop_before_it_ended_is_cancelled(harness, status):
    session = await harness.session()
    task, lease = await harness.started(session)
    asked = await harness.tasks.cancel(task.id, who="ben")
    assert (asked.status, asked.is_cancel_requested) == (TaskStatus.running, True)
    assert await harness.tasks.cancel(task.id, who="eve") == asked
    assert await harness.backlog.to_stop() == {task.id}
    ended = await harness.tasks.finish(task.id, status, "too late", lease)
    assert (ended.status, ended.reason) == (TaskStatus.cancelled, None)
    assert harness.events(session)[-1] == (
        "task.cancelled",
        {"task_id": task.id, "who": "ben", "reason": ""},
    )
    assert await harness.backlog.to_stop() == frozenset()


async def test_what_ended_is_not_cancelled_any_more(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    await harness.tasks.finish(task.id, TaskStatus.done, "", lease)
    with pytest.raises(WrongTaskStatus, match="is already done; nothing was changed"):
        await harness.tasks.cancel(task.id, who="ben")
    assert harness.ends(session) == [(task.id, "done")]


async def test_a_task_that_is_to_stop_is_not_parked_nor_left_to_others(harness):
    for leave in ("wait", "put_back"):
        session = await harness.session()
        task, lease = await harness.started(session)
        question = await harness.asked(task, lease)
        await harness.tasks.cancel(task.id, who="ben")
        if leave == "wait":
            ended = await harness.tasks.wait(task.id, question.id, lease)
        else:
            ended = await harness.tasks.put_back(task.id, lease)
        assert ended.status is TaskStatus.cancelled
        assert (await harness.questions.get(question.id)).status is QuestionStatus.expired
        assert harness.ends(session) == [(task.id, "cancelled")]


async def test_a_dead_workers_task_that_is_to_stop_is_not_taken_up_again(harness):
    session = await harness.session()
    task, _ = await harness.started(session)
    harness.expire_lease(session)
    await harness.tasks.cancel(task.id, who="ben")
    assert await harness.backlog.find_work(10) == [session]
    lease = await harness.leases.take(session, "w2")
    assert (await harness.tasks.start(task.id, lease)).status is TaskStatus.cancelled
    assert harness.kinds(session).count("task.started") == 1


async def test_of_cancel_and_finish_at_once_exactly_one_is_told(harness):
    """Two writers with connections of their own, as two processes have."""
    other_store = open_store(harness.store.config)
    other, outcomes, head_start = TaskHarness(other_store), [], 0.0
    while len(outcomes) < 30 or len(set(outcomes)) < 2:
        session = await harness.session()
        task, lease = await harness.started(session)

        async def finish(task_id: str = task.id, lease=lease, delay: float = head_start):
            await asyncio.sleep(delay)
            return await harness.tasks.finish(task_id, TaskStatus.done, "", lease)

        finished, cancelled = await asyncio.gather(
            finish(), other.tasks.cancel(task.id, who="ben"), return_exceptions=True
        )
        ((_, told),) = harness.ends(session)
        assert finished.status == told == (await harness.tasks.get(task.id)).status
        assert isinstance(cancelled, WrongTaskStatus) == (told == "done")
        outcomes.append(told)
        # Who lost gets a little more time, so that they come to meet.
        head_start = max(0.0, head_start + (0.0005 if told == "done" else -0.0005))
    other_store.close()
    assert harness.faults() == []
    assert harness.store.deadlocks() == 0
