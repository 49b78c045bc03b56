"""Cancelling a task, whatever state it is in: told once, and for good."""

import asyncio

import pytest

from interlock.infra.errors import (
    WrongTaskStatus,
)
from interlock.questions.rows import Status
from interlock.worker.rows import TaskStatus
from tests.conftest import open_store
from tests.integration.worker.shop import Shop


async def test_a_queued_task_is_cancelled_at_once(shop):
    session = await shop.session()
    task = await shop.put(session)
    cancelled = await shop.tasks.cancel(task.id, who="ben")
    assert (cancelled.status, cancelled.cancel_requested_by) == (TaskStatus.cancelled, "ben")
    assert shop.events(session)[-1] == ("task.cancelled", {"task_id": task.id, "who": "ben", "reason": ""})
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
    assert shop.events(session)[-1] == ("task.cancelled", {"task_id": task.id, "who": "ben", "reason": ""})
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
