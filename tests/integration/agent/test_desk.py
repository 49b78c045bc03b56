"""What the command line tells of a conversation before its first word: the agent's model and its tools."""

import pytest

from interlock.cli.command_line_session import open_chat_client, parse_chat_options
from interlock.config.modes import ToolMode
from interlock.config.settings import load_settings
from interlock.gates.explain import next_action_now
from interlock.policy.verdict import ModeSwitchMethod
from interlock.wiring import open_runtime
from interlock.wiring.agents import open_agent_runtime
from tests.harness.runtime import RuntimeHarness, call, script
from tests.integration.agent.test_office import agent_file


@pytest.fixture
def surroundings(tmp_path, monkeypatch):
    (tmp_path / "root").mkdir()
    own = script(tmp_path, "msg:mine")
    agent_file(tmp_path, more=f"model: {own}\ntools.denied_tools: read_file\n")
    for name, value in {
        "INTERLOCK_STATE_DIR": tmp_path / "state",
        "WORKSPACE_DIR": tmp_path / "workspace",
        "MODEL": "demo",
        "MODELS": own,
    }.items():
        monkeypatch.setenv(name, str(value))
    return own, (tmp_path / "root",)


async def test_an_agent_s_model_and_tools_are_told_before_the_first_word(surroundings):
    own, roots = surroundings
    given = parse_chat_options("coding", roots, None, "reader", None)
    async with open_chat_client(given, lambda _event: None) as harness:
        assert await harness.model() == own
        before = await harness.authority()
        assert "read_file" not in before.exposed
        await harness.local_session("hello")
        assert await harness.model() == own
        assert (await harness.authority()).exposed == before.exposed


async def test_a_person_s_choice_comes_before_the_agent_s(surroundings):
    _, roots = surroundings
    given = parse_chat_options("coding", roots, None, "reader", "demo")
    async with open_chat_client(given, lambda _event: None) as harness:
        assert await harness.model() == "demo"
        await harness.local_session("hello")
        assert await harness.model() == "demo"


@pytest.mark.parametrize(
    ("way", "told"),
    [
        # `serve` opened the modes for itself alone; a worker of another process knows nothing of that.
        (ModeSwitchMethod.page, "(/mode chat)"),
        (None, "which is not open on this deployment"),
    ],
)
async def test_a_refusal_suggests_what_works_where_it_is_read(
    tmp_path, surroundings, monkeypatch, way, told
):
    _, roots = surroundings
    monkeypatch.setenv("MODEL", script(tmp_path, {"tool_calls": [call("read_file", path="x")]}, "msg:No."))
    monkeypatch.setenv("TOOL_ALLOWED_ROOTS", str(roots[0]))
    runtime = open_runtime(load_settings(), opened=list(ToolMode))
    agent_runtime = open_agent_runtime(runtime, way=way)
    ada = RuntimeHarness(agent_runtime, roots[0])
    session = await ada.session(ToolMode.chat_safe)
    await ada.say(session, "read x")
    (denied,) = ada.payloads(session, "tool_call.denied")
    await agent_runtime.close()
    await runtime.close()
    assert told in denied["next_action"]
    assert "sessions mode" not in denied["next_action"]
    # In a chat that another process opens, that mode is closed, and `/why` says how it is opened.
    async with open_chat_client(
        parse_chat_options(None, (), session, None, None), lambda _event: None
    ) as harness:
        now = next_action_now(await harness.last_denial(), await harness.authority())
        assert now.endswith("(a chat started with --mode chat); continue without it.")
    async with open_chat_client(
        parse_chat_options("chat", (), session, None, None), lambda _event: None
    ) as harness:
        now = next_action_now(await harness.last_denial(), await harness.authority())
        assert now == "read_file is available now: this session is in chat mode."
