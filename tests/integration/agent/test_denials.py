"""What a mode refuses, as the model meets it: not offered, not run, told, and told again (S0-3, S0-4)."""

import asyncio
import json

import pytest

from interlock.agent.events import ToolCallInfo, ToolDenied, ToolResultInfo, TurnCompleted
from interlock.config.modes import ToolMode
from interlock.gates.gate import ToolCall
from interlock.models.message_encoding import encode_message
from interlock.sessions.mode_switch import ModeSwitch
from interlock.sessions.models import Role
from interlock.tools.result import ToolResult
from interlock.tools.tool import Effect, ToolContext
from tests.harness.tools import DeclaredTool
from tests.integration.agent.test_loop import call, of
from tests.integration.agent.test_offers import Listening

SIX = {"ok", "error_code", "tool_name", "mode", "message", "next_action"}


def tool_messages(request) -> list[dict]:
    messages = [json.loads(encode_message(message)) for message in request.messages]
    return [message for message in messages if message["role"] == "tool"]


@pytest.mark.parametrize("mode", ToolMode)
async def test_a_model_is_offered_exactly_the_tools_of_the_mode(harness, mode):
    model = Listening(call("current_time"), "msg:done")
    await harness.run(await harness.session(mode), "go", model)
    authority = await harness.runtime.authority(mode)
    allowed = set(harness.runtime.registry.allowed_tool_names(mode))
    assert model.offered == [set(authority.exposed)] * 2
    assert model.offered[0] <= allowed
    # What the mode allows and is not offered cannot work on this machine or in this task, and says so.
    for name in allowed - model.offered[0]:
        assert authority.verdict(name).layer.value in {"capability", "environment", "settings", "task"}
    assert ("read_file" in model.offered[0]) is (mode is not ToolMode.chat_safe)
    assert ("write_file" in model.offered[0]) is (mode is ToolMode.coding)


@pytest.mark.parametrize("name", ["read_file", "read", "fs.read", "write_file", "bash"])
async def test_the_loop_s_own_way_to_a_tool_leads_through_the_gate(harness, name):
    """Called past everything that stands before it, `_execute_tool` still refuses."""
    (harness.root / "a.txt").write_text("never read")
    session = await harness.session(ToolMode.chat_safe)
    authority = await harness.runtime.authority(ToolMode.chat_safe)
    loop = harness.loop("msg:never")
    asked = ToolCall("c", name, json.dumps({"path": "a.txt"}))
    told = (await loop._execute_tool(asked, authority, ToolContext(session))).as_dict()
    assert set(told) == SIX
    assert (told["ok"], told["error_code"], told["mode"]) == (False, "MODE_DENIED", "chat_safe")
    assert not harness.event_rows(session, "tool_call.started")
    assert (harness.root / "a.txt").read_text() == "never read"


async def test_a_refusal_is_the_tool_message_that_the_model_reads_next(harness):
    model = Listening(call("read_file", path="a"), "msg:I may not read files here.")
    events = await harness.run(await harness.session(ToolMode.chat_safe), "read it", model)
    [denied] = of(ToolDenied, events)
    assert not of(ToolResultInfo, events)
    [message] = tool_messages(model.asked[1])
    assert message["tool_call_id"] == denied.call_id
    told = json.loads(message["content"])
    assert set(told) == SIX
    assert told["ok"] is False
    assert {name: getattr(denied, name) for name in SIX - {"ok"}} == {
        name: told[name] for name in SIX - {"ok"}
    }


async def test_an_earlier_refusal_is_told_again_with_the_next_message(harness):
    session = await harness.session(ToolMode.chat_safe)
    model = Listening(call("read_file", path="a"), "msg:I may not.", "msg:Because of the mode.")
    await harness.run(session, "read it", model)
    await harness.run(session, "why not?", model)
    [told] = tool_messages(model.asked[1])
    assert tool_messages(model.asked[2]) == [told]


async def test_a_task_keeps_the_mode_it_began_with(harness):
    """A switch in the middle opens nothing to the task that runs; the next one has it."""
    session = await harness.session(ToolMode.chat_safe)
    switch = ModeSwitch(harness.runtime.log, open_modes=frozenset(ToolMode))
    writes = [call("write_file", path=f"{name}.txt", content="x") for name in "abc"]
    model = Listening(*writes[:2], "msg:done", writes[2], "msg:done")
    modes = []
    async for event in harness.loop(model).handle_message(session, "go"):
        if isinstance(event, TurnCompleted) and event.turn == 1:
            await switch.switch(session, ToolMode.coding, who="test")
        modes += [denied.mode for denied in of(ToolDenied, [event])]
    assert modes == ["chat_safe", "chat_safe"]
    assert model.offered[0] == model.offered[1]
    await harness.run(session, "now", model)
    assert [path.name for path in harness.root.iterdir()] == ["c.txt"]


async def test_an_alias_is_told_by_the_tool_s_own_name(harness):
    session = await harness.session(ToolMode.chat_safe)
    events = await harness.run(session, "go", "\n".join([call("read", path="a"), "msg:no"]))
    [asked], [denied] = of(ToolCallInfo, events), of(ToolDenied, events)
    assert (asked.tool_name, asked.called_as) == ("read_file", "read")
    assert denied.tool_name == "read_file"
    [payload] = [json.loads(row[4]) for row in harness.event_rows(session, "tool_call.denied")]
    assert (payload["tool_name"], payload["requested_name"]) == ("read_file", "read")
    assert payload["arguments"] == {"path": "a"}


async def test_a_call_that_is_not_run_is_told_by_the_tool_s_own_name(harness):
    async def crawl(_arguments, context):
        await asyncio.sleep(0.6)
        return ToolResult()

    harness.runtime.registry.register(
        DeclaredTool("slow", aliases=("crawl",), effect=Effect.exec, run=crawl)
    )
    harness.limits = harness.limits.model_copy(update={"max_wall_seconds": 0.5})
    session = await harness.session(ToolMode.chat_safe)
    await harness.run(session, "go", json.dumps({"tool_calls": [{"name": "crawl", "arguments": {}}] * 2}))
    messages = await harness.runtime.sessions.transcript(session)
    answers = [json.loads(message.content) for message in messages if message.role is Role.tool]
    assert (answers[-1]["error_code"], answers[-1]["tool_name"]) == ("CANCELLED", "slow")
