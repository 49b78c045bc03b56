"""A task that is taken up again has no more room than before (S3-7): turns, time, tokens, repetitions."""

import asyncio
import json
import time
from contextlib import aclosing

import pytest

from interlock.agent.events import TaskEnded, TurnCompleted
from interlock.agent.loop import TaskAssignment
from interlock.agent.resume import read_task_history
from interlock.config.modes import ToolMode
from interlock.log.stream_appender import EventScope
from interlock.log.task_events import TaskStarted, TaskSteered
from interlock.models.provider import ModelProvider, ModelReply, RequestedCall
from interlock.sessions.models import Role
from tests.integration.agent.test_loop import call, of
from tests.integration.agent.test_model_faults import BROKEN, Answering, spent_by

TASK = "t_1"
LOOK = call("list_files")


async def begun(harness, model: str | ModelProvider, turns: int) -> str:
    """A session whose task was left after so many turns."""
    session = await harness.session()
    await harness.runtime.sessions.append_message(session, Role.user, "go", scope=EventScope(TASK))
    assignment = TaskAssignment(ToolMode.coding, EventScope(TASK))
    async with aclosing(harness.loop(model).handle_message(session, None, assignment)) as events:
        async for event in events:
            if not turns or (isinstance(event, TurnCompleted) and event.turn == turns):
                break
    return session


async def gone_on(harness, session: str, model: str | ModelProvider) -> list:
    assignment = TaskAssignment(ToolMode.coding, EventScope(TASK), attempt=2)
    return [event async for event in harness.loop(model).handle_message(session, None, assignment)]


def reached(harness, session: str) -> dict:
    (row,) = harness.event_rows(session, "control.limit_reached")
    return json.loads(row[4])


async def test_the_turns_of_before_count(harness):
    harness.limits = harness.limits.model_copy(update={"max_turns": 3})
    model = "\n".join(call("list_files", limit=number) for number in range(1, 9))
    session = await begun(harness, model, 2)
    events = await gone_on(harness, session, model)
    assert [event.turn for event in of(TurnCompleted, events)] == [3]
    assert events[-1].limit == "max_turns"
    assert reached(harness, session)["reached"] == 3


@pytest.mark.parametrize(("turns_before", "counted"), [(0, 1), (2, 3)])
async def test_a_turn_whose_model_call_was_cut_off_counts(harness, turns_before, counted):
    model = "\n".join(call("list_files", limit=number) for number in range(1, 9))
    session = await begun(harness, model, turns_before)
    started = TaskStarted(task_id=TASK, mode="coding", worker="the next", attempt=2)
    await harness.runtime.log.append(session, started, scope=EventScope(TASK))
    with harness.runtime.database.reading() as connection:
        assert read_task_history(connection, session, TASK).turns == counted


async def test_the_tokens_of_before_count(harness):
    model = "\n".join(call("list_files", limit=number) for number in range(1, 9))
    session = await begun(harness, model, 2)
    spent = sum(
        json.loads(row[4])["input_tokens"] + json.loads(row[4])["output_tokens"]
        for row in harness.event_rows(session, "turn.completed")
    )
    harness.limits = harness.limits.model_copy(update={"max_tokens": spent})
    events = await gone_on(harness, session, model)
    assert events[-1].limit == "max_tokens"
    assert of(TurnCompleted, events) == []
    assert reached(harness, session)["reached"] == spent


async def test_the_tokens_of_a_discarded_answer_of_before_count(harness):
    calls = [ModelReply("", (RequestedCall("", "list_files", '{"limit": 1}'),)), "never"]
    session = await begun(harness, Answering("m", BROKEN, *calls), 1)
    before = spent_by(harness, session, "turn.completed", "turn.discarded")
    assert before > spent_by(harness, session, "turn.completed")
    harness.limits = harness.limits.model_copy(update={"max_tokens": before})
    model = Answering("m", "never")
    events = await gone_on(harness, session, model)
    assert (events[-1].limit, model.requests) == ("max_tokens", [])
    assert reached(harness, session)["reached"] == before


async def test_calls_that_repeated_themselves_before_still_do(harness):
    """The second was told with a note; that note is not part of what the call gave."""
    model = "\n".join([LOOK] * 6)
    session = await begun(harness, model, 2)
    told = [m.content for m in await harness.runtime.sessions.transcript(session) if m.role is Role.tool]
    assert ["note" in json.loads(content) for content in told] == [False, True]
    events = await gone_on(harness, session, model)
    assert events[-1] == TaskEnded("failed", events[-1].sentence, "max_repeats")
    assert len(of(TurnCompleted, events)) == 1
    assert len(harness.event_rows(session, "progress.stalled")) == 1


async def test_refusals_of_before_count(harness):
    refused = [call("read_file", path=f"/etc/{name}") for name in ("a", "b", "c")]
    model = "\n".join([*refused, "msg:I may not read there."])
    session = await begun(harness, model, 2)
    events = await gone_on(harness, session, model)
    assert events[-1] == TaskEnded("done")
    assert [turn.text for turn in of(TurnCompleted, events)] == ["", "I may not read there."]
    assert reached(harness, session)["limit"] == "max_denials"


async def test_the_tokens_of_every_attempt_are_counted_when_it_is_done(harness):
    model = "\n".join([call("list_files", limit=1), call("list_files", limit=2), "msg:done"])
    session = await begun(harness, model, 2)
    assert (await gone_on(harness, session, model))[-1] == TaskEnded("done")
    turns = [json.loads(row[4]) for row in harness.event_rows(session, "turn.completed")]
    (row,) = harness.event_rows(session, "agent.completed")
    completed = json.loads(row[4])
    assert (len(turns), completed["turns"]) == (3, 3)
    assert completed["input_tokens"] == sum(turn["input_tokens"] for turn in turns)
    assert completed["output_tokens"] == sum(turn["output_tokens"] for turn in turns)


@pytest.mark.parametrize("asks", [False, True])
async def test_the_time_it_worked_counts_and_not_the_time_between(harness, asks):
    model = call("ask_user", type="confirmation", message="?") if asks else LOOK
    began = time.monotonic()
    session = await begun(harness, f"{model}\n{LOOK}", 1)
    took = time.monotonic() - began
    await asyncio.sleep(0.5)
    if asks:
        (question,) = await harness.runtime.questions.open_questions(session)
        await harness.runtime.questions.answer(question.id, {"confirmed": True}, who="test")
    with harness.runtime.database.reading() as connection:
        past = read_task_history(connection, session, TASK)
    assert past.turns == 1
    assert 0 < past.seconds <= took


async def test_calls_before_a_message_that_steered_count_too(harness):
    """The task began with the message before: a resumed task has no more room than before."""
    session = await begun(harness, "\n".join([LOOK] * 6), 2)
    log = harness.runtime.log
    await harness.runtime.sessions.append_message(session, Role.user, "go on", scope=EventScope("t_2"))
    said = (await harness.runtime.sessions.transcript(session))[-1]
    steered = TaskSteered(task_id="t_2", into=TASK, message_seq=said.seq)
    await log.append(session, steered, scope=EventScope("t_2"))
    events = await gone_on(harness, session, "\n".join([LOOK] * 6))
    assert events[-1] == TaskEnded("failed", events[-1].sentence, "max_repeats")
    assert len(of(TurnCompleted, events)) == 1
