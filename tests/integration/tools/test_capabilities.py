"""The capability matrix of the built-in tools: what each mode may use, and what reading leaves as it was
(S2-1 to S2-3, S2-7)."""

import os
from pathlib import Path

import orjson
import pytest

from interlock.config.modes import ToolMode
from interlock.policy.authority_inputs import CallLimits
from interlock.tools.tool import Effect
from tests.harness.tool_calls import ToolHarness

READ_ONLY = {"list_files", "read_file", "search_files", "get_project_structure"}
WRITE = {"write_file", "delete_file", "move_file"}
SPECIAL = {"generate_image"}
# Beside those that the matrix of the specification names.
ALSO_READING = {"find_files", "bash_readonly"}
ALSO_WRITING = {"edit_file", "memory_append", "bash", "delegate"}
EVERYWHERE = {"current_time", "memory_search", "ask_user", "complete_step"}

MATRIX = {
    ToolMode.chat_safe: EVERYWHERE,
    ToolMode.chat: EVERYWHERE | READ_ONLY | ALSO_READING,
    ToolMode.plan: EVERYWHERE | READ_ONLY | ALSO_READING,
    ToolMode.coding: EVERYWHERE | READ_ONLY | ALSO_READING | WRITE | ALSO_WRITING | SPECIAL,
}


@pytest.mark.parametrize("mode", ToolMode)
def test_each_mode_has_exactly_the_tools_of_the_matrix(harness: ToolHarness, mode):
    assert set(harness.registry.allowed_tool_names(mode)) == MATRIX[mode]
    assert {tool.name for tool in harness.registry.list_tools(mode)} == MATRIX[mode]


def test_each_set_of_tools_has_the_effect_that_its_name_says(harness: ToolHarness):
    effects = {entry.tool.name: entry.tool.effect for entry in harness.registry}
    assert {effects[name] for name in READ_ONLY | ALSO_READING} == {Effect.read}
    assert {effects[name] for name in WRITE} == {Effect.write}
    assert {effects[name] for name in SPECIAL} == {Effect.special}
    assert set(effects) == MATRIX[ToolMode.coding]


@pytest.mark.parametrize("mode", [ToolMode.chat_safe, ToolMode.chat, ToolMode.plan])
def test_nothing_that_changes_things_is_offered_outside_of_coding(harness: ToolHarness, mode):
    effects = {tool.effect for tool in harness.registry.list_tools(mode)}
    assert effects <= {Effect.read, Effect.ask, Effect.tell}


def state_of(folder: Path) -> dict[str, tuple]:
    """Names, contents, permissions and times of changes; reading may leave its own time."""
    found = {}
    for path in sorted(folder.rglob("*")):
        looked = os.lstat(path)
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (looked.st_mode, looked.st_ino, looked.st_mtime_ns, looked.st_ctime_ns, content)
    return found


@pytest.mark.parametrize("mode", [ToolMode.chat, ToolMode.plan, ToolMode.coding])
async def test_the_read_only_tools_change_nothing(harness: ToolHarness, mode):
    harness.mode = mode
    harness.write("src/a.py", "print('needle')\n" * 3000)
    harness.write("b.txt", "needle\n")
    calls = {
        "list_files": {"recursive": True, "limit": 1},
        "read_file": {"path": "src/a.py", "limit_bytes": 100},
        "search_files": {"pattern": "needle", "limit": 2},
        "get_project_structure": {"path": "."},
    }
    assert set(calls) == READ_ONLY
    before = state_of(harness.root)
    for name, arguments in calls.items():
        assert (await harness.ok(name, arguments)).stdout
    assert state_of(harness.root) == before


def schemas(make_harness: ToolHarness) -> dict[str, str]:
    """The descriptions that a model is given."""
    return {
        each["function"]["name"]: each["function"]["description"]
        for each in orjson.loads(make_harness.authority().schemas)
    }


def test_the_schemas_state_the_limits_that_hold(harness: ToolHarness):
    """S4 AC4: the read limit and the output limits are declared where they bound a tool."""
    usual = schemas(harness)
    for name in ("read_file", "search_files", "list_files", "find_files", "get_project_structure"):
        assert "at most 2000 lines and 51200 bytes" in usual[name]
    for name in ("read_file", "search_files", "edit_file"):
        assert "524288" in usual[name]
    assert "2097152" in usual["write_file"]
    harness.narrow(read=777, write=888)
    harness.limits = CallLimits(max_output_lines=11, max_output_bytes=2222)
    narrowed = schemas(harness)
    assert "at most 11 lines and 2222 bytes" in narrowed["read_file"]
    for name, limit in (
        ("read_file", "777"),
        ("search_files", "777"),
        ("edit_file", "777"),
        ("write_file", "888"),
    ):
        assert limit in narrowed[name]
