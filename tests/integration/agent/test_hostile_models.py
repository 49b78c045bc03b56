"""Models that send what no server should: the transcript stays valid, nothing secret is shown, all ends."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import asdict

import orjson
import pytest

from interlock.agent.events import TaskEnded, ToolCallInfo, ToolResultInfo
from interlock.config.modes import ToolMode
from interlock.models.message_encoding import encode_message
from interlock.models.provider import (
    FinishReason,
    ModelReply,
    ModelRequest,
    ModelStreamItem,
    ModelTextDelta,
    RequestedCall,
)
from interlock.sessions.models import Role
from tests.harness.agent_loop import SECRET
from tests.harness.model_request_checks import message_faults
from tests.harness.task_limits import task_limits
from tests.integration.agent.test_loop import of

READ = '{"path": "."}'


class Sends:
    """A model that sends these calls, then answers. Every history that it is given must be valid."""

    name = "hostile"

    def __init__(self, *calls: RequestedCall, text: str = "") -> None:
        self._reply = ModelReply(text, calls, FinishReason.tool_calls)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelStreamItem]:
        messages = [orjson.loads(encode_message(message)) for message in request.messages]
        assert message_faults(messages, orjson.loads) == []
        reply = self._reply if messages[-1]["role"] == "user" else ModelReply("done")
        if reply.text:
            yield ModelTextDelta(reply.text)
        yield reply

    async def close(self) -> None:
        pass


class NeverEnds(Sends):
    """Says a little, or only goes on with a call's arguments, without end."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelStreamItem]:
        yield ModelTextDelta("and ")
        await asyncio.Event().wait()
        yield ModelReply("never")


async def assert_each_call_has_one_answer(harness, session: str) -> None:
    messages = await harness.runtime.sessions.transcript(session)
    asked = [call["id"] for message in messages for call in message.tool_calls or ()]
    answered = [message.tool_call_id for message in messages if message.role is Role.tool]
    assert asked == answered
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize(
    "ids",
    [
        (SECRET, f"{SECRET}-2"),
        ("API_TOKEN=abcdefghij1234567890", "API_TOKEN=abcdefghij0987654321"),
        ("a\0", "a\0"),
        ("\ud800", "\ud800"),
        ("a\x1b[2J", "a\nb"),
        ("", ""),
    ],
)
async def test_an_id_that_cannot_be_stored_or_shown_is_replaced(harness, ids):
    session = await harness.session()
    model = Sends(*(RequestedCall(each, "list_files", READ) for each in ids))
    events = await harness.run(session, "go", model)
    assert events[-1] == TaskEnded("done")
    shown = [event.call_id for event in of(ToolCallInfo, events)]
    assert not {each for each in ids if each} & set(shown)
    assert [event.call_id for event in of(ToolResultInfo, events)] == shown
    await assert_each_call_has_one_answer(harness, session)


async def test_a_name_that_a_model_made_up_is_told_without_secrets(harness):
    session = await harness.session()
    events = await harness.run(session, "go", Sends(RequestedCall("c", f"read_{SECRET}", "{}")))
    assert SECRET not in repr(events)
    assert events[-1] == TaskEnded("done")


@pytest.mark.parametrize("depth", [60, 300, 500, 1000, 10_000])
@pytest.mark.parametrize(("opened", "closed"), [('{"a":', "}"), ("[", "]")])
async def test_deeply_nested_arguments_are_told_as_they_were_written(harness, depth, opened, closed):
    session = await harness.session()
    arguments = f'{{"path": {opened * depth}1{closed * depth}}}'
    events = await harness.run(session, "go", Sends(RequestedCall("c", "read_file", arguments)))
    assert of(ToolCallInfo, events)[0].arguments == arguments
    assert of(ToolResultInfo, events)[0].result["error_code"] == "INVALID_ARGS"
    assert events[-1] == TaskEnded("done")
    orjson.dumps([asdict(event) for event in events])


async def test_text_that_no_store_can_hold_is_made_storable(harness):
    session = await harness.session()
    broken = RequestedCall("c", "list\ud800", '{"path": "\udfff"}')
    events = await harness.run(session, "go", Sends(broken, text="half of \ud83d and\0 more"))
    assert events[-1] == TaskEnded("done")
    orjson.dumps([asdict(event) for event in events])
    await assert_each_call_has_one_answer(harness, session)


async def test_a_model_that_never_ends_is_stopped_when_the_tasks_time_is_up(harness):
    harness.limits = task_limits(max_wall_seconds=0.2)
    session = await harness.session(ToolMode.chat_safe)
    events = await asyncio.wait_for(harness.run(session, "go", NeverEnds()), 20)
    ended = events[-1]
    assert (ended.status, ended.limit) == ("failed", "max_wall_seconds")
    (limit,) = harness.event_rows(session, "control.limit_reached")
    assert json.loads(limit[4])["limit"] == "max_wall_seconds"
    assert not harness.event_rows(session, "circuit.opened", "retry.scheduled")


async def test_calls_of_a_turn_are_not_begun_when_the_tasks_time_is_up(harness):
    harness.limits = task_limits(max_wall_seconds=0.3)
    session = await harness.session()
    writes = [
        {"name": "write_file", "arguments": {"path": f"{number}.txt", "content": "x"}}
        for number in range(400)
    ]
    events = await harness.run(session, "go", json.dumps([{"sleep_ms": 200, "tool_calls": writes}]))
    assert events[-1].limit == "max_wall_seconds"
    assert len(list(harness.root.iterdir())) < 400
    await assert_each_call_has_one_answer(harness, session)
