"""Tasks that wait for an answer: nothing that is said is lost, and nothing goes on without it."""

import asyncio

import pytest

from interlock.infra.errors import (
    QuestionNotFound,
)
from interlock.questions.rows import Status
from interlock.worker.rows import TaskStatus
from tests.conftest import open_store
from tests.integration.worker.shop import Shop

YES = {"confirmed": True}


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
