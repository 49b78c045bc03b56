"""What a model is offered in each turn: the tools of now, and whether it must call one (S0-3.2, S2-5)."""

import json
from collections.abc import AsyncGenerator

import pytest

from interlock.agent.events import TaskEnded, ToolDenied, TurnCompleted
from interlock.agent.loop import TaskAssignment
from interlock.config.modes import ToolMode
from interlock.models.provider import ModelRequest, ModelStreamItem, ToolChoice
from interlock.models.script import parse_script
from interlock.models.scripted_provider import ScriptedProvider
from interlock.sessions.mode_switch import ModeSwitch
from interlock.sessions.models import Role
from tests.harness.model_answers import refused, said
from tests.harness.model_server import ModelServer
from tests.integration.agent.test_loop import call, of
from tests.integration.models.asking import chat


class Listening(ScriptedProvider):
    """Does what its script says, and remembers what it was asked."""

    def __init__(self, *turns: str) -> None:
        super().__init__(parse_script("\n".join(turns), "test"))
        self.asked: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelStreamItem]:
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


REQUIRED, AUTO = ToolChoice.required, ToolChoice.auto


async def test_a_coding_task_begins_with_a_call_and_can_end_afterwards(harness):
    model = Listening(call("list_files"), call("list_files", limit=5), "msg:done", "msg:You are welcome.")
    session = await harness.session(ToolMode.coding)
    await harness.run(session, "go", model)
    assert model.choices == [REQUIRED, AUTO, AUTO]
    # A follow-up message may be answered.
    await harness.run(session, "thanks", model)
    assert model.choices[3:] == [AUTO]


async def test_each_time_a_person_switches_to_coding_the_next_task_begins_with_a_call(harness):
    switch = ModeSwitch(harness.runtime.log, open_modes=frozenset(ToolMode))
    model = Listening(*["msg:done"] * 9)
    session = await harness.session(ToolMode.chat)
    await harness.run(session, "look", model)
    for mode in (ToolMode.coding, ToolMode.plan, ToolMode.coding):
        await switch.switch(session, mode, who="test")
        await harness.run(session, "go", model)
        await harness.run(session, "thanks", model)
    assert model.choices == [AUTO, REQUIRED, AUTO, AUTO, AUTO, REQUIRED, AUTO]


@pytest.mark.parametrize(("setting", "choices"), [("auto", [AUTO] * 3), ("required", [REQUIRED, AUTO] * 2)])
async def test_a_setting_forces_either(harness, setting, choices):
    harness.tool_choice = setting
    model = Listening(*[call("list_files"), "msg:done"] * 2)
    session = await harness.session(ToolMode.coding)
    await harness.run(session, "go", model)
    await harness.run(session, "again", model)
    assert model.choices[:3] == choices[:3]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "tool_choice 'required' is not supported"),
        (422, "tool_choice: only auto and none"),
        (400, "bad request"),
        (404, "No endpoints found that support the provided value."),
    ],
)
async def test_a_server_that_refuses_required_is_asked_again_with_auto_and_not_asked_for_it_again(
    harness, status, message
):
    async with ModelServer([refused(status, message), said("a"), said("b")]) as server:
        provider = chat(server)
        loop = harness.loop(provider)
        first, second = [await harness.session(ToolMode.coding) for _ in range(2)]
        for session in (first, second):
            events = [event async for event in loop.handle_message(session, "go")]
            assert events[-1] == TaskEnded("done")
        await provider.close()
    assert ["tool_choice" in asked.document for asked in server.asked] == [True, False, False]
    (row,) = harness.event_rows(first, "model.tool_choice_refused")
    told = json.loads(row[4])
    assert (told["model"], told["tool_choice"]) == (provider.name, "required")
    assert message in told["error"]
    assert not harness.event_rows(second, "model.tool_choice_refused")
    assert not harness.event_rows(first, "retry.scheduled")


async def test_a_request_that_is_refused_without_required_as_well_says_why(harness):
    async with ModelServer([refused(400, "first"), refused(400, "the model is gone")]) as server:
        provider = chat(server)
        session = await harness.session(ToolMode.coding)
        events = await harness.run(session, "go", provider)
        await provider.close()
    assert "the model is gone" in events[-1].sentence
    assert not harness.event_rows(session, "model.tool_choice_refused")


@pytest.mark.parametrize("mode", [ToolMode.chat_safe, ToolMode.chat, ToolMode.plan])
async def test_in_other_modes_nothing_has_to_be_called(harness, mode):
    model = Listening("msg:done")
    await harness.run(await harness.session(mode), "go", model)
    assert model.choices == [ToolChoice.auto]


async def test_a_task_that_is_taken_up_again_need_not_begin_with_a_call(harness):
    session = await harness.session(ToolMode.coding)
    await harness.runtime.sessions.append_message(session, Role.user, "go")
    model = Listening("msg:done")
    assignment = TaskAssignment(ToolMode.coding, attempt=2)
    assert [event async for event in harness.loop(model).handle_message(session, None, assignment)]
    assert model.choices == [ToolChoice.auto]


async def test_a_tool_that_is_switched_off_in_the_middle_is_gone_from_offer_prompt_and_verdict(harness):
    """Settings hold from the next turn on, for all who read them."""
    session = await harness.session(ToolMode.coding)
    model = Listening(call("list_files"), call("list_files", limit=5), "msg:done")
    denied = []
    async for event in harness.loop(model).handle_message(session, "go"):
        if isinstance(event, TurnCompleted) and event.turn == 1:
            await harness.runtime.stored_settings.update({"tools": {"fs": {"enabled": False}}}, who="test")
        denied += of(ToolDenied, [event])
    assert "list_files" in model.offered[0]
    assert not {"list_files", "read_file", "bash"} & (model.offered[1] | model.offered[2])
    prompts = [request.messages[0].text for request in model.asked]
    assert "- list_files:" in prompts[0]
    assert "- list_files:" not in prompts[1]
    assert [(event.tool_name, event.error_code) for event in denied] == [
        ("list_files", "TOOL_NOT_AVAILABLE")
    ]
    digests = [
        json.loads(row[4])["authority_digest"] for row in harness.event_rows(session, "turn.completed")
    ]
    assert digests[0] != digests[1] == digests[2]
