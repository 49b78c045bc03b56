"""Refused calls do not end the conversation: after the last the model answers, without tools (S0-4.2.4)."""

import json
from contextlib import aclosing

import pytest

from interlock.agent.events import TaskEnded, TextDelta, ToolCallInfo, ToolDenied, TurnCompleted
from interlock.agent.loop import NO_WORDS, TaskAssignment
from interlock.config.modes import ToolMode
from interlock.log.stream_appender import EventScope
from interlock.models.provider import ToolChoice
from interlock.sessions.models import Role
from interlock.wiring.projections import verify
from tests.integration.agent.test_loop import call, of
from tests.integration.agent.test_offers import Listening

TASK = "t_1"
REFUSED = [call("read_file", path=f"/etc/{name}") for name in "abc"]
WRITE = {"name": "write_file", "arguments": {"path": "never", "content": "x"}}


def limits_reached(harness, session: str) -> list[str]:
    return [json.loads(row[4])["limit"] for row in harness.event_rows(session, "control.limit_reached")]


async def assert_each_call_has_one_answer(harness, session: str) -> None:
    messages = await harness.runtime.sessions.transcript(session)
    asked = [call["id"] for message in messages for call in message.tool_calls or ()]
    answered = [message.tool_call_id for message in messages if message.role is Role.tool]
    assert answered == asked


async def test_after_the_third_refusal_in_a_row_the_model_answers_without_tools(harness):
    session = await harness.session()
    model = Listening(*REFUSED, "msg:I may not read there. Ask the operator.")
    events = await harness.run(session, "read", model)
    assert len(of(ToolDenied, events)) == 3
    assert events[-1] == TaskEnded("done")
    assert of(TurnCompleted, events)[-1].text == "I may not read there. Ask the operator."
    assert [bool(names) for names in model.offered] == [True, True, True, False]
    assert model.asked[-1].tool_choice is ToolChoice.none
    assert limits_reached(harness, session) == ["max_denials"]
    notes = [
        json.loads(message.content).get("note")
        for message in await harness.runtime.sessions.transcript(session)
        if message.role is Role.tool
    ]
    assert notes[0] is None
    assert "inside the open folders" in notes[1]
    assert "Answer now, without tools" in notes[2]
    kinds = [row[1] for row in harness.event_rows(session)]
    assert kinds[-4:] == [
        *("message.appended", "control.limit_reached", "turn.completed", "agent.completed"),
    ]
    assert json.loads(harness.event_rows(session, "turn.completed")[-1][4])["tool_choice"] == "none"


async def test_the_same_refused_call_is_no_lack_of_progress(harness):
    """Otherwise it would end the task with an error before the limit on refusals lets the model answer."""
    harness.limits = harness.limits.model_copy(update={"max_denials": 5})
    session = await harness.session()
    model = Listening(*[REFUSED[0]] * 5, "msg:I may not.")
    events = await harness.run(session, "read", model)
    assert events[-1] == TaskEnded("done")
    assert limits_reached(harness, session) == ["max_denials"]


async def test_ten_refusals_in_one_turn_end_in_an_answer_and_the_rest_is_not_run(harness):
    session = await harness.session()
    read = {"name": "read_file", "arguments": {"path": "/etc/passwd"}}
    model = json.dumps([{"tool_calls": [*[read] * 16, WRITE]}, "msg:I may not."])
    events = await harness.run(session, "go", model)
    assert events[-1] == TaskEnded("done")
    assert limits_reached(harness, session) == ["max_recent_denials"]
    assert not (harness.root / "never").exists()
    await assert_each_call_has_one_answer(harness, session)


@pytest.mark.parametrize("text", ["", " \n", "I am trying on."])
async def test_calls_of_the_last_turn_are_answered_and_not_run(harness, text):
    session = await harness.session()
    last = {"msg": text, "tool_calls": [WRITE, WRITE]}
    events = await harness.run(session, "go", json.dumps([*REFUSED, last]))
    assert events[-1] == TaskEnded("done")
    assert len(of(ToolCallInfo, events)) == 3
    assert not (harness.root / "never").exists()
    await assert_each_call_has_one_answer(harness, session)
    *_, one, two, answer = await harness.runtime.sessions.transcript(session)
    assert [json.loads(each.content)["error_code"] for each in (one, two)] == ["CANCELLED"] * 2
    assert (answer.role, answer.content) == (Role.assistant, text if text.strip() else NO_WORDS)
    assert of(TextDelta, events)[-1].text.endswith(answer.content.split()[-1])
    assert of(TurnCompleted, events)[-1].text == answer.content
    with harness.runtime.database.reading() as connection:
        assert verify(connection).ok


async def test_without_a_turn_left_the_limit_of_turns_ends_it(harness):
    harness.limits = harness.limits.model_copy(update={"max_turns": 3})
    session = await harness.session()
    events = await harness.run(session, "go", "\n".join([*REFUSED, "msg:never"]))
    assert (events[-1].status, events[-1].limit) == ("failed", "max_turns")
    assert limits_reached(harness, session) == ["max_turns"]


async def test_a_model_that_fails_in_its_last_turn_fails_the_task(harness):
    session = await harness.session()
    events = await harness.run(session, "go", "\n".join([*REFUSED, "err:auth"]))
    assert events[-1].status == "failed"
    (failed,) = harness.event_rows(session, "agent.failed")
    assert json.loads(failed[4])["error_class"] == "auth"


async def left_off(harness, model: str, until) -> str:
    """A session whose worker was lost in the middle of its task."""
    session = await harness.session()
    await harness.runtime.sessions.append_message(session, Role.user, "go", scope=EventScope(TASK))
    given = TaskAssignment(ToolMode.coding, EventScope(TASK))
    async with aclosing(harness.loop(model).handle_message(session, None, given)) as events:
        async for event in events:
            if until(event):
                break
    return session


async def gone_on(harness, session: str, model) -> list:
    given = TaskAssignment(ToolMode.coding, EventScope(TASK), attempt=2)
    return [event async for event in harness.loop(model).handle_message(session, None, given)]


@pytest.mark.parametrize(
    "until",
    [
        lambda event: isinstance(event, TurnCompleted) and event.turn == 3,
        lambda event: isinstance(event, TextDelta),
    ],
)
async def test_a_crash_before_or_in_the_last_turn_leaves_it_the_last_turn(harness, until):
    said = "msg:" + "I may not read there. " * 40
    session = await left_off(harness, "\n".join([*REFUSED, said]), until)
    model = Listening(*REFUSED, "msg:I may not.")
    events = await gone_on(harness, session, model)
    assert events[-1] == TaskEnded("done")
    assert model.offered == [set()]
    assert limits_reached(harness, session) == ["max_denials"]
    assert (await harness.runtime.sessions.transcript(session))[-1].content == "I may not."


async def test_calls_that_a_crash_left_in_the_last_turn_are_not_run(harness):
    session = await left_off(
        harness,
        "\n".join([*REFUSED, "msg:x"]),
        lambda event: isinstance(event, TurnCompleted) and event.turn == 3,
    )
    asked = [{"id": "c9", "name": "write_file", "arguments": json.dumps(WRITE["arguments"])}]
    await harness.runtime.sessions.append_message(
        session, Role.assistant, "", tool_calls=asked, scope=EventScope(TASK)
    )
    events = await gone_on(harness, session, Listening(*REFUSED, "ok", "msg:I may not."))
    assert events[-1] == TaskEnded("done")
    assert not (harness.root / "never").exists()
    await assert_each_call_has_one_answer(harness, session)


async def test_a_message_that_steers_is_not_given_to_a_turn_without_tools(harness):
    """It would be answered that nothing can be done; as a task by itself it has all tools."""
    session = await harness.session()
    await harness.runtime.sessions.append_message(session, Role.user, "read", scope=EventScope(TASK))
    asked = []

    async def take_steering(_before):
        asked.append(len(model.offered))
        return ()

    model = Listening(*REFUSED, "msg:I may not read there.")
    assignment = TaskAssignment(ToolMode.coding, EventScope(TASK), take_steering=take_steering)
    events = [event async for event in harness.loop(model).handle_message(session, None, assignment)]
    assert events[-1] == TaskEnded("done")
    assert len(model.offered) == 4
    assert asked == [0, 1, 2]
