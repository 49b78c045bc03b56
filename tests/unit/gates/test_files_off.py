"""With the file tools switched off: what is gone, what stays, what a call of it is told (S4-E1, S4-T4)."""

import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import ErrorCode
from interlock.gates.gate import Refusal, ToolCall
from interlock.policy.authority import Authority, AuthorityCache
from interlock.policy.authority_inputs import AuthorityInputs, Capabilities
from interlock.policy.policy_fields import NO_RESTRICTION, FsPolicy, ToolPolicy
from interlock.sessions.runtime_settings import StoredSettings
from interlock.wiring import build_registry
from tests.harness.case_tables import each_row
from tests.harness.tools import judge_call

REGISTRY = build_registry()
EVERYTHING = Capabilities(present=frozenset(need for entry in REGISTRY for need in entry.tool.needs))
SYSTEM = StoredSettings().tools
OFF = SYSTEM.model_copy(update={"fs": FsPolicy(enabled=False)})
STAYS = {"ask_user", "complete_step", "current_time", "memory_search"}
OF_FILES = {
    *(
        "read_file",
        "fs.read",
        "list_files",
        "fs.list",
        "search_files",
        "fs.search",
        "write_file",
        "fs.write",
    ),
    *("find_files", "get_project_structure", "edit_file", "move_file", "delete_file"),
    *("bash", "bash_readonly", "generate_image", "delegate"),
}


def authority_in(mode: ToolMode, settings: ToolPolicy, agent: ToolPolicy = NO_RESTRICTION) -> Authority:
    authority_inputs = AuthorityInputs(
        mode=mode,
        open_modes=frozenset(ToolMode),
        settings=settings,
        agent=agent,
        capabilities=EVERYTHING,
    )
    return AuthorityCache(REGISTRY).get(authority_inputs)


@pytest.mark.parametrize("mode", ToolMode)
def test_only_what_touches_no_file_stays(mode):
    remains = STAYS | ({"memory_append"} if mode is ToolMode.coding else set())
    assert set(authority_in(mode, OFF).exposed) == remains
    assert (set(authority_in(mode, SYSTEM).exposed) == remains) is (mode is ToolMode.chat_safe)


@each_row("name", sorted(OF_FILES))
def test_every_call_of_a_file_tool_is_refused_clearly(name):
    refusal = judge_call(ToolCall("c", name, "{}"), authority_in(ToolMode.coding, OFF), REGISTRY)
    assert isinstance(refusal, Refusal)
    assert refusal.failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE
    assert "fs tools are switched off" in refusal.failure.message
    assert "the stored settings" in refusal.failure.message
    assert refusal.failure.next_action


def test_an_agent_cannot_switch_them_on_again():
    on = ToolPolicy(fs=FsPolicy(enabled=True, max_read_bytes=10**9))
    assert set(authority_in(ToolMode.coding, OFF, on).exposed) == STAYS | {"memory_append"}
