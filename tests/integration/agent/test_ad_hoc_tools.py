"""Tools that declare only their group and modes, as the specification's test tools do (S0-2.2, S1-R1)."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from interlock.agent.events import ToolDenied, ToolResultInfo
from interlock.config.modes import ToolMode
from interlock.tools.result import ToolResult
from interlock.tools.tool import BaseTool, ToolContext, ToolGroup
from tests.harness.tools import CHAT_AND_CODING


class EchoTool(BaseTool):
    name = "echo"
    description = "Echo the text."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
    group = ToolGroup.world
    allowed_modes = CHAT_AND_CODING

    async def execute(self, prepared: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult(stdout=prepared["text"])


class FailingTool(BaseTool):
    @property
    def name(self) -> str:
        return "failing"

    @property
    def description(self) -> str:
        return "Always fail."

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"type": "object", "properties": {}}

    @property
    def group(self) -> ToolGroup:
        return ToolGroup.code

    @property
    def allowed_modes(self) -> frozenset[ToolMode]:
        return CHAT_AND_CODING

    async def execute(self, prepared: Any, context: ToolContext) -> ToolResult:
        raise RuntimeError("boom")


SCRIPT = 'call:echo {"text": "hello"}\ncall:failing {}\nmsg:done'


async def run(harness, mode: ToolMode = ToolMode.chat_safe) -> tuple[str, list]:
    for tool in (EchoTool(), FailingTool()):
        harness.runtime.registry.register(tool)
    session = await harness.session(mode)
    return session, await harness.run(session, "go", SCRIPT)


@pytest.mark.parametrize("mode", sorted(CHAT_AND_CODING))
async def test_a_tool_with_group_and_modes_alone_works(harness, mode):
    session, events = await run(harness, mode)
    echoed, failed = [event.result for event in events if isinstance(event, ToolResultInfo)]
    assert (echoed["ok"], echoed["stdout"]) == (True, "hello")
    assert failed["error_code"] == "EXECUTION_ERROR"
    started = [json.loads(row[4]) for row in harness.event_rows(session, "tool_call.started")]
    # What is not declared as reading runs alone, and is never repeated after a crash.
    assert [each["effect"] for each in started] == ["exec", "exec"]
    assert not harness.runtime.runner.only_reads("echo")


@pytest.mark.parametrize("mode", [ToolMode.chat, ToolMode.plan])
async def test_other_modes_stay_closed_to_it(harness, mode):
    _, events = await run(harness, mode)
    assert {event.error_code for event in events if isinstance(event, ToolDenied)} == {"MODE_DENIED"}


@pytest.mark.parametrize("switch", ["shell", "fs"])
async def test_an_undeclared_effect_is_off_where_the_most_dangerous_is(harness, switch):
    await harness.runtime.stored_settings.update({"tools": {switch: {"enabled": False}}}, who="test")
    _, events = await run(harness)
    denied = [event for event in events if isinstance(event, ToolDenied)]
    assert [event.tool_name for event in denied] == ["echo", "failing"]
    assert {event.error_code for event in denied} == {"TOOL_NOT_AVAILABLE"}
