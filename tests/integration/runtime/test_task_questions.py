"""Tasks that wait for an answer: nothing that is said is lost, and nothing goes on without it."""

import asyncio

import pytest

from interlock.core.errors import (
    QuestionNotFound,
)
from interlock.questions.rows import QuestionStatus
from interlock.runtime.task_rows import TaskStatus
from tests.harness.store import open_store
from tests.harness.tasks import TaskHarness

YES = {"confirmed": True}


async def test_a_parked_task_goes_on_when_it_is_answered(harness):
    session = await harness.session()
    task, question = await harness.parked(session)
    assert (task.status, task.question_id) == (TaskStatus.waiting, question.id)
    assert await harness.tasks.resumable(session) is None
    assert await harness.backlog.find_work(10) == []
    await harness.questions.answer(question.id, YES, who="ada")
    woken = await harness.tasks.get(task.id)
    assert (woken.status, woken.question_id) == (TaskStatus.queued, None)
    assert await harness.tasks.resumable(session) == woken
    assert await harness.backlog.find_work(10) == [session]
    assert harness.kinds(session)[-4:] == [
        *("ask_user.asked", "task.waiting", "ask_user.answered", "tool_call.completed")
    ]
    assert harness.faults() == []


async def test_a_question_that_is_closed_wakes_its_task_as_well(harness):
    session = await harness.session()
    task, question = await harness.parked(session)
    await harness.questions.expire(question.id, reason="nobody knows", who="ben")
    assert (await harness.tasks.get(task.id)).status is TaskStatus.queued


async def test_an_answer_that_came_before_the_task_was_parked_is_not_lost(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    question = await harness.asked(task, lease)
    await harness.questions.answer(question.id, YES, who="ada")
    again = await harness.tasks.wait(task.id, question.id, lease)
    assert (again.status, again.question_id) == (TaskStatus.queued, None)
    assert "task.waiting" not in harness.kinds(session)


async def test_of_answering_and_parking_at_once_neither_is_lost(harness):
    other_store = open_store(harness.store.config)
    other = TaskHarness(other_store)
    for _ in range(15):
        session = await harness.session()
        task, lease = await harness.started(session)
        question = await harness.asked(task, lease)
        await asyncio.gather(
            harness.tasks.wait(task.id, question.id, lease),
            other.questions.answer(question.id, YES, who="ada"),
        )
        assert (await harness.tasks.get(task.id)).status is TaskStatus.queued
    other_store.close()


async def test_the_answer_to_another_question_wakes_nobody(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    first, second = await harness.asked(task, lease), await harness.asked(task, lease)
    await harness.tasks.wait(task.id, first.id, lease)
    await harness.questions.answer(second.id, YES, who="ada")
    assert (await harness.tasks.get(task.id)).status is TaskStatus.waiting
    await harness.questions.answer(first.id, YES, who="ada")
    assert (await harness.tasks.get(task.id)).status is TaskStatus.queued


async def test_a_task_waits_only_for_what_it_asked_itself(harness):
    session, elsewhere = await harness.session(), await harness.session()
    task, lease = await harness.started(session)
    _, foreign = await harness.parked(elsewhere)
    for wrong in ("q_nothing", foreign.id):
        with pytest.raises(QuestionNotFound, match="has not asked"):
            await harness.tasks.wait(task.id, wrong, lease)
    assert (await harness.tasks.get(task.id)).status is TaskStatus.running


async def test_a_message_instead_of_an_answer_closes_the_question_and_is_next(harness):
    session = await harness.session()
    task, question = await harness.parked(session)
    message = await harness.put(session, "never mind")
    closed = await harness.questions.get(question.id)
    assert (closed.status, closed.closed_by) == (QuestionStatus.expired, "ada")
    assert closed.close_reason == "a message was sent instead of an answer"
    assert harness.kinds(session)[-4:] == [
        *("ask_user.expired", "tool_call.failed", "message.appended", "task.queued")
    ]
    assert (await harness.tasks.resumable(session)).id == task.id
    lease = await harness.leases.take(session, "w1")
    await harness.tasks.start(task.id, lease)
    await harness.tasks.finish(task.id, TaskStatus.done, "", lease)
    assert (await harness.tasks.resumable(session)).id == message.id
    assert harness.faults() == []


async def test_a_task_behind_one_that_waits_waits_too(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    behind = await harness.put(session, "sent before the question")
    question = await harness.asked(task, lease)
    await harness.tasks.wait(task.id, question.id, lease)
    await harness.leases.release(lease)
    assert await harness.backlog.find_work(10) == []
    await harness.tasks.cancel(task.id, who="ada")
    assert await harness.backlog.find_work(10) == [session]
    assert (await harness.tasks.resumable(session)).id == behind.id


async def test_a_task_that_ends_leaves_no_question_open(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    question = await harness.asked(task, lease)
    await harness.tasks.finish(task.id, TaskStatus.failed, "no", lease)
    assert (await harness.questions.get(question.id)).close_reason == "its task failed"
    assert harness.kinds(session)[-3:] == ["ask_user.expired", "tool_call.failed", "task.finished"]
    assert harness.faults() == []
