"""A question that is put while its worker stops, or while the store is away, is waited for all the same."""

import asyncio

import pytest

from interlock.core.errors import StoreUnavailable
from interlock.gates import runner
from interlock.questions.service import QuestionService
from interlock.runtime.task_rows import TaskStatus
from tests.harness.runtime import call, open_runtime_harness, script

ASK = {"tool_calls": [call("ask_user", type="confirmation", message="Shall I?")]}


@pytest.fixture
async def harness(tmp_path, monkeypatch):
    variables = {
        "MODEL": script(tmp_path, ASK, "msg:Thank you."),
        "WORKER_STOP_GRACE_SECONDS": "0",
        "WORKER_POLL_SECONDS": "0.1",
    }
    async with open_runtime_harness(tmp_path, monkeypatch, variables) as someone:
        yield someone


async def reached(harness, task, status):
    async with asyncio.timeout(30):
        while (await harness.agent_runtime.tasks.get(task.id)).status is not status:
            await asyncio.sleep(0.02)


async def answered(harness, session, task):
    """The task waits for its one question; what the model is told when that is answered."""
    worker = harness.agent_runtime.worker()
    run = asyncio.create_task(worker.run())
    await reached(harness, task, TaskStatus.waiting)
    [question] = await harness.agent_runtime.runtime.questions.open_questions(session)
    await harness.agent_runtime.runtime.questions.answer(question.id, {"confirmed": True}, who="test")
    await reached(harness, task, TaskStatus.done)
    worker.stop()
    await run
    [[told]] = (await harness.answers(session)).values()
    return told.get("stdout")


async def test_a_question_that_is_put_while_its_worker_stops_is_waited_for(harness, monkeypatch):
    session, real, worker = await harness.session(), QuestionService.ask, harness.agent_runtime.worker()

    async def asked_meanwhile(desk, widget, asking):
        question = await real(desk, widget, asking)
        worker.stop()
        await asyncio.sleep(0.1)
        return question

    monkeypatch.setattr(QuestionService, "ask", asked_meanwhile)
    run = asyncio.create_task(worker.run())
    task = await harness.agent_runtime.tasks.put(session, "go", who="test")
    await run
    assert (await harness.agent_runtime.tasks.get(task.id)).status is TaskStatus.queued
    assert await answered(harness, session, task) == '{"confirmed":true}\n'


async def test_a_question_whose_answer_from_the_store_got_lost_is_waited_for(harness, monkeypatch):
    session, real = await harness.session(), QuestionService.ask

    async def asked_unheard(desk, widget, asking):
        await real(desk, widget, asking)
        raise StoreUnavailable("the connection was lost")

    monkeypatch.setattr(QuestionService, "ask", asked_unheard)
    task = await harness.agent_runtime.tasks.put(session, "go", who="test")
    assert await answered(harness, session, task) == '{"confirmed":true}\n'
    assert harness.payloads(session, "tool_call.failed") == []


async def test_a_question_that_the_store_did_not_take_is_told_as_unknown(harness, monkeypatch):
    """And none is open that nobody waits for."""
    session = await harness.session()

    async def refused(*_):
        raise StoreUnavailable("the connection was lost")

    monkeypatch.setattr(QuestionService, "ask", refused)
    task = await harness.say(session)
    assert task.status is TaskStatus.done
    [[told]] = (await harness.answers(session)).values()
    assert told["error_code"] == "INTERRUPTED"
    assert await harness.agent_runtime.runtime.questions.list_questions(include_closed=True) == []


async def test_a_question_whose_call_was_given_up_before_it_was_stored_is_not_waited_for(
    harness, monkeypatch
):
    """Nobody could answer it: the call has its outcome."""
    monkeypatch.setattr(runner, "GRACE_SECONDS", 0.05)
    session, real, worker = await harness.session(), QuestionService.ask, harness.agent_runtime.worker()

    async def asked_late(desk, widget, asking):
        worker.stop()
        question = await real(desk, widget, asking)
        await asyncio.sleep(1)
        return question

    monkeypatch.setattr(QuestionService, "ask", asked_late)
    run = asyncio.create_task(worker.run())
    task = await harness.agent_runtime.tasks.put(session, "go", who="test")
    await run
    assert len(await harness.agent_runtime.runtime.questions.open_questions(session)) == 1
    assert len(harness.payloads(session, "tool_call.failed")) == 1
    assert (await harness.talk(session).go_on(task)).status is TaskStatus.done
    [[told]] = (await harness.answers(session)).values()
    assert told["error_code"] == "CANCELLED"
    assert await harness.agent_runtime.runtime.questions.open_questions(session) == []
