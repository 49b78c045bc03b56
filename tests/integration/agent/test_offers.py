"""What a model is offered in each turn: the tools of now, and whether it must call one (S0-3.2, S2-5)."""

import json
from collections.abc import AsyncGenerator

import pytest

from interlock.agent.agent import Assignment
from interlock.agent.events import ToolDenied, TurnCompleted
from interlock.config.modes import ToolMode
from interlock.models.provider import ModelItem, ModelRequest, ToolChoice
from interlock.models.script import parse_script
from interlock.models.scripted import Scripted
from interlock.session.models import Role
from tests.integration.agent.test_loop import call, of


class Listening(Scripted):
    """Does what its script says, and remembers what it was asked."""

    def __init__(self, *turns: str) -> None:
        super().__init__(parse_script("\n".join(turns), "test"))
        self.asked: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelItem]:
        self.asked.append(request)
        async for item in super().stream(request):
            yield item

    @property
    def choices(self) -> list[ToolChoice]:
        return [request.tool_choice for request in self.asked]

    @property
    def offered(self) -> list[set[str]]:
        return [
            {tool["function"]["name"] for tool in json.loads(request.tools or b"[]")}
            for request in self.asked
        ]


async def test_a_coding_task_begins_with_a_call_and_can_end_afterwards(desk):
    model = Listening(call("list_files"), call("list_files", limit=5), "msg:done")
    await desk.say(await desk.session(ToolMode.coding), "go", model)
    assert model.choices == [ToolChoice.required, ToolChoice.auto, ToolChoice.auto]


@pytest.mark.parametrize("mode", [ToolMode.chat_safe, ToolMode.chat, ToolMode.plan])
async def test_in_other_modes_nothing_has_to_be_called(desk, mode):
    model = Listening("msg:done")
    await desk.say(await desk.session(mode), "go", model)
    assert model.choices == [ToolChoice.auto]


async def test_a_task_that_is_taken_up_again_need_not_begin_with_a_call(desk):
    session = await desk.session(ToolMode.coding)
    await desk.runtime.sessions.append_message(session, Role.user, "go")
    model = Listening("msg:done")
    assignment = Assignment(session, ToolMode.coding, attempt=2)
    assert [event async for event in desk.loop(model).work(assignment)]
    assert model.choices == [ToolChoice.auto]


async def test_a_tool_that_is_switched_off_in_the_middle_is_gone_from_offer_prompt_and_verdict(desk):
    """Settings hold from the next turn on, for all who read them."""
    session = await desk.session(ToolMode.coding)
    model = Listening(call("list_files"), call("list_files", limit=5), "msg:done")
    denied = []
    async for event in desk.loop(model).handle_message(session, "go"):
        if isinstance(event, TurnCompleted) and event.turn == 1:
            await desk.runtime.stored_settings.update({"tools": {"fs": {"enabled": False}}}, who="test")
        denied += of(ToolDenied, [event])
    assert "list_files" in model.offered[0]
    assert not {"list_files", "read_file", "bash"} & (model.offered[1] | model.offered[2])
    prompts = [json.loads(request.messages[0])["content"] for request in model.asked]
    assert "- list_files:" in prompts[0]
    assert "- list_files:" not in prompts[1]
    assert [(event.tool_name, event.error_code) for event in denied] == [
        ("list_files", "TOOL_NOT_AVAILABLE")
    ]
    digests = [json.loads(row[4])["authority_digest"] for row in desk.events(session, "turn.started")]
    assert digests[0] != digests[1] == digests[2]
