"""The tests that the tool-modes test plan names (S1 5.1), as far as this stage has their subjects.

Those of the agent's loop come with it.
"""

import re
from pathlib import Path

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.config.session import SessionSettings
from interlock.gates.gate import Refusal, ToolCall
from interlock.gates.runner import ToolRunner
from interlock.log.kinds import ToolCallDenied
from interlock.log.read import read_stream
from interlock.policy.authority import AuthorityCache
from interlock.policy.authority_inputs import AuthorityInputs, Capabilities, ModeSwitching
from interlock.policy.verdict import ModeSwitchMethod
from interlock.redaction.redactor import Redactor
from interlock.tools.builtins.current_time import CurrentTimeTool
from interlock.tools.builtins.memory_search import MemorySearchTool
from interlock.tools.registry import ToolRegistry
from interlock.tools.tool import BaseTool, ToolContext
from interlock.wiring import build_registry
from tests.harness.log_capture import capture_logs
from tests.harness.store import StoreHarness
from tests.harness.tools import CHAT_AND_CODING, UndeclaredTool, judge_call

CODING_ONLY = frozenset({ToolMode.coding})
NOT_CHAT_SAFE = frozenset(ToolMode) - {ToolMode.chat_safe}


@pytest.fixture
def registry() -> ToolRegistry:
    return build_registry()


def names(schema: list[dict]) -> set[str]:
    return {item["function"]["name"] for item in schema}


def denial(registry: ToolRegistry, *opened: ToolMode) -> Refusal:
    """On the page, with a folder opened."""
    open_modes = frozenset({ToolMode.chat_safe, *opened})
    authority_inputs = AuthorityInputs(
        mode=ToolMode.chat_safe,
        open_modes=open_modes,
        capabilities=Capabilities(present=frozenset({"roots"})),
        switching=ModeSwitching(ModeSwitchMethod.page, open_modes),
    )
    authority = AuthorityCache(registry).get(authority_inputs)
    refused = judge_call(ToolCall("call_1", "read_file", "{}"), authority, registry)
    assert isinstance(refused, Refusal)
    return refused


def test_tool_group_enum_values():
    assert {"code", "memory", "world"} <= {group.value for group in ToolGroup}


def test_tool_mode_enum_values():
    assert [mode.value for mode in ToolMode] == ["chat_safe", "chat", "plan", "coding"]


def test_base_tool_default_group_is_code():
    assert UndeclaredTool().group is ToolGroup.code


def test_base_tool_default_allowed_modes_is_empty():
    assert UndeclaredTool().allowed_modes == frozenset()


def test_current_time_group_and_modes():
    tool = CurrentTimeTool()
    assert tool.group is ToolGroup.world
    assert tool.allowed_modes == frozenset(ToolMode)


def test_memory_search_group_and_modes():
    tool = MemorySearchTool(None)
    assert tool.group is ToolGroup.memory
    assert tool.allowed_modes == frozenset(ToolMode)


def test_current_time_allowed_in_chat_safe(registry):
    assert registry.check_mode("current_time", ToolMode.chat_safe) is True


def test_memory_search_allowed_in_chat_safe(registry):
    assert registry.check_mode("memory_search", ToolMode.chat_safe) is True


def test_read_file_not_in_chat_safe_schema(registry):
    assert "read_file" not in names(registry.get_tools_schema(ToolMode.chat_safe))


def test_read_file_denied_in_chat_safe(registry):
    assert registry.check_mode("read_file", ToolMode.chat_safe) is False


def test_read_file_allowed_in_coding(registry):
    assert registry.check_mode("read_file", ToolMode.coding) is True
    assert "read_file" in names(registry.get_tools_schema(ToolMode.coding))


def test_all_tools_in_coding_schema(registry):
    offered = names(registry.get_tools_schema(ToolMode.coding))
    assert {"current_time", "memory_search", "read_file"} <= offered
    assert offered == {entry.tool.name for entry in registry}


def test_override_tightens_modes(registry):
    registry.set_mode_override("current_time", CODING_ONLY)
    assert registry.get_effective_modes("current_time") == CODING_ONLY
    assert registry.check_mode("current_time", ToolMode.chat_safe) is False


def test_override_loosen_raises_value_error(registry):
    with pytest.raises(ValueError, match="can only tighten"):
        registry.set_mode_override("read_file", CHAT_AND_CODING)
    assert registry.get_effective_modes("read_file") == NOT_CHAT_SAFE


def test_override_intersection_logic(registry):
    assert registry.get_effective_modes("memory_search") == frozenset(ToolMode)
    registry.set_mode_override("memory_search", CODING_ONLY)
    registry.set_mode_override("memory_search", frozenset({ToolMode.chat_safe}))
    assert registry.get_effective_modes("memory_search") == frozenset({ToolMode.chat_safe})


def test_check_mode_unregistered_tool(registry):
    assert registry.check_mode("nonexistent_tool", ToolMode.chat_safe) is False


@pytest.mark.parametrize("mode", ToolMode)
def test_list_tools_matches_get_tools_schema(registry, mode):
    assert {tool.name for tool in registry.list_tools(mode)} == names(registry.get_tools_schema(mode))


@pytest.mark.parametrize("mode", ToolMode)
def test_fail_closed_default_tool_invisible(registry, mode):
    registry.register(UndeclaredTool())
    assert "undeclared" not in names(registry.get_tools_schema(mode))


@pytest.mark.parametrize("mode", ToolMode)
async def test_fail_closed_default_tool_not_executable(registry, mode, sqlite_store: StoreHarness):
    registry.register(UndeclaredTool())
    assert registry.check_mode("undeclared", mode) is False
    session = await sqlite_store.sessions.create(opened_by="test")
    authority = AuthorityCache(registry).get(AuthorityInputs(mode=mode, open_modes=frozenset(ToolMode)))
    runner = ToolRunner(registry, sqlite_store.log, Redactor())
    result = await runner.call(ToolCall("c", "undeclared", "{}"), authority, ToolContext(session.id))
    assert result.as_dict()["error_code"] == "MODE_DENIED"


def test_registration_warning_for_default_modes():
    with capture_logs() as logs:
        ToolRegistry().register(UndeclaredTool())
    assert [entry["event"] for entry in logs] == ["tool_registered_with_default_modes"]
    assert logs[0]["log_level"] == "warning"
    assert logs[0]["tool_name"] == "undeclared"


def builtins() -> list[BaseTool]:
    return [entry.tool for entry in build_registry()]


def left_unsaid(tool: BaseTool) -> list[str]:
    """By the property itself: a tool of the group `code` has to say so, though that is the default."""
    return [
        name for name in ("group", "allowed_modes") if getattr(type(tool), name) is getattr(BaseTool, name)
    ]


def test_builtins_all_override_group_and_modes():
    assert {tool.name: left_unsaid(tool) for tool in builtins() if left_unsaid(tool)} == {}
    assert left_unsaid(UndeclaredTool()) == ["group", "allowed_modes"]
    assert [tool.name for tool in builtins() if tool.group is ToolGroup.code]


def test_builtins_all_have_nonempty_allowed_modes():
    assert all(tool.allowed_modes for tool in builtins())


async def test_execute_tool_returns_mode_denied_dict(registry, sqlite_store):
    session = await sqlite_store.sessions.create(opened_by="test")
    authority = AuthorityCache(registry).get(AuthorityInputs(mode=ToolMode.chat_safe))
    runner = ToolRunner(registry, sqlite_store.log, Redactor())
    result = await runner.call(ToolCall("c", "read_file", "{}"), authority, ToolContext(session.id))
    told = result.as_dict()
    assert (told["ok"], told["error_code"]) == (False, "MODE_DENIED")
    assert (told["tool_name"], told["mode"]) == ("read_file", "chat_safe")


async def test_tool_denied_event_fields_complete(registry, sqlite_store):
    session = await sqlite_store.sessions.create(opened_by="test")
    authority = AuthorityCache(registry).get(AuthorityInputs(mode=ToolMode.chat_safe))
    runner = ToolRunner(registry, sqlite_store.log, Redactor())
    await runner.call(ToolCall("call_9", "read_file", "{}"), authority, ToolContext(session.id))
    with sqlite_store.database.reading() as connection:
        event = read_stream(connection, session.id)[-1].event()
    assert isinstance(event, ToolCallDenied)
    told = (event.tool_name, event.call_id, event.mode, event.error_code, event.error, event.next_action)
    assert told[:4] == ("read_file", "call_9", "chat_safe", "MODE_DENIED")
    assert all(told)


def test_mode_denied_dict_fields(registry):
    assert denial(registry).result().as_dict() == {
        "ok": False,
        "error_code": "MODE_DENIED",
        "tool_name": "read_file",
        "mode": "chat_safe",
        "message": "read_file is not allowed in chat_safe mode",
        "next_action": (
            "This session is in chat_safe mode; read_file needs chat, plan or coding "
            "mode, which is not open on this deployment. Only the operator can open "
            "it; continue without it."
        ),
    }


def test_mode_denied_next_action_stage_appropriate(registry):
    closed = denial(registry).failure.next_action
    assert "not open on this deployment" in closed
    assert "/mode" not in closed
    opened = denial(registry, ToolMode.coding).failure.next_action
    assert opened == (
        "This session is in chat_safe mode; read_file needs coding mode. "
        "Only a person can switch it (/mode coding)."
    )
    assert "(/mode plan)" in denial(registry, ToolMode.coding, ToolMode.plan).failure.next_action


def test_tool_denied_deterministic(registry):
    first = denial(registry).result().as_dict()
    assert all(denial(registry).result().as_dict() == first for _ in range(20))


@pytest.mark.parametrize("mode", ToolMode)
def test_prompt_tooling_matches_schema(registry, mode):
    everything = frozenset(need for entry in registry for need in entry.tool.needs)
    authority_inputs = AuthorityInputs(
        mode=mode, open_modes=frozenset(ToolMode), capabilities=Capabilities(present=everything)
    )
    authority = AuthorityCache(registry).get(authority_inputs)
    listed = [line[2:].split(":")[0] for line in authority.tooling_text.splitlines()[1:]]
    assert listed == [tool.name for tool in registry.list_tools(mode)]
    assert tuple(listed) == authority.exposed


def test_safety_layer_mentions_mode(registry):
    text = AuthorityCache(registry).get(AuthorityInputs(mode=ToolMode.chat_safe)).safety_text
    assert "chat_safe mode" in text
    assert "read_file is not allowed in chat_safe mode" in text
    assert "current_time is not allowed" not in text


async def stored_mode(store: StoreHarness, value: str | None) -> tuple[ToolMode, list]:
    session = await store.sessions.create(opened_by="test")
    store.execute("UPDATE sessions SET mode = ? WHERE id = ?", value, session.id)
    with capture_logs() as logs:
        mode = await store.sessions.get_mode(session.id)
    assert [entry["session_id"] for entry in logs] == [session.id]
    return mode, logs


async def test_get_mode_coding_downgrades_in_m15(sqlite_store):
    mode, logs = await stored_mode(sqlite_store, "coding")
    assert mode is ToolMode.chat_safe
    assert (logs[0]["event"], logs[0]["log_level"]) == ("mode_downgraded", "warning")
    assert logs[0]["value"] == "coding"
    assert "not open" in logs[0]["reason"]


@pytest.mark.parametrize("value", ["admin", "nonexistent_mode", "", "CODING", "build"])
async def test_get_mode_invalid_value_fallback(sqlite_store, value):
    mode, logs = await stored_mode(sqlite_store, value)
    assert mode is ToolMode.chat_safe
    assert (logs[0]["event"], logs[0]["value"]) == ("invalid_mode_value", value)


async def test_get_mode_db_error_fallback(sqlite_store):
    session = await sqlite_store.sessions.create(opened_by="test")
    sqlite_store.execute("ALTER TABLE sessions RENAME COLUMN mode TO lost")
    with capture_logs() as logs:
        assert await sqlite_store.sessions.get_mode(session.id) is ToolMode.chat_safe
    assert logs[0]["event"] == "mode_read_error"
    assert logs[0]["error"] == "StatementRefused"
    assert logs[0]["session_id"] == session.id


async def test_no_false_warning_on_normal_execution(registry, sqlite_store):
    session = await sqlite_store.sessions.create(opened_by="test")
    with capture_logs() as logs:
        mode = await sqlite_store.sessions.get_mode(session.id)
        authority = AuthorityCache(registry).get(AuthorityInputs(mode=mode))
        runner = ToolRunner(registry, sqlite_store.log, Redactor())
        result = await runner.call(ToolCall("c", "current_time", "{}"), authority, ToolContext(session.id))
    assert result.ok
    assert [entry for entry in logs if entry["log_level"] != "info"] == []


def test_default_mode_from_config():
    assert SessionSettings().default_mode == ToolMode.chat_safe.value


def test_session_manager_has_no_public_set_mode():
    """S1-B3: nothing but the switch for people can change a mode."""
    from interlock.sessions.manager import SessionManager

    public = {name for name in vars(SessionManager) if name[0] != "_"}
    about_modes = {name for name in public if "mode" in name.replace("model", "")}
    assert about_modes == {"get_mode", "mode_of", "mode_within"}
    source = Path("src/interlock/sessions/manager.py").read_text()
    assert not re.search(r"SET mode\b", source)
