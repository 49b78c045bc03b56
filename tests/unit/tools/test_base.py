"""What a tool must say about itself, what it may leave unsaid, and what its group is worth (S0-2)."""

import ast
import inspect
from enum import StrEnum
from pathlib import Path

import pytest

from interlock.config import modes
from interlock.tools import tool as tool_module
from interlock.tools.tool import BaseTool, Effect, PolicySwitch, ToolGroup, ToolMode, policy_switches
from interlock.wiring import build_registry
from tests.harness.tools import DeclaredTool, UndeclaredTool

TESTS = Path(__file__).parents[2]


def test_modes_and_groups_are_words_and_live_with_the_tools():
    assert (tool_module.ToolMode, tool_module.ToolGroup) == (modes.ToolMode, modes.ToolGroup)
    assert {"ToolMode", "ToolGroup"} <= set(tool_module.__all__)
    for words in (ToolMode, ToolGroup):
        assert issubclass(words, StrEnum)
        assert all(f"{word}" == word.name == word.value for word in words)


def test_a_tool_must_say_four_things_and_no_more():
    assert BaseTool.__abstractmethods__ == {"name", "description", "parameters", "execute"}
    with pytest.raises(TypeError, match="abstract"):
        BaseTool()
    assert UndeclaredTool().name == "undeclared"
    for name in ("group", "allowed_modes"):
        assert isinstance(inspect.getattr_static(BaseTool, name), property)


def says_modes(part: ast.stmt) -> bool:
    names = [ast.unparse(target) for target in part.targets] if isinstance(part, ast.Assign) else []
    return "allowed_modes" in (*names, getattr(part, "name", ""))


def classes_of_tools() -> dict[str, bool]:
    """Every class in the tests that derives from one of these, and whether it says its modes itself."""
    found = {}
    texts = {path: path.read_text() for path in TESTS.rglob("*.py")}
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text if "(BaseTool" in text or "(UndeclaredTool" in text else "")):
            if not isinstance(node, ast.ClassDef):
                continue
            if {"BaseTool", "UndeclaredTool"} & {ast.unparse(base) for base in node.bases}:
                found[f"{path.name}: {node.name}"] = any(says_modes(part) for part in node.body)
    return found


def test_the_tools_for_tests_declare_their_modes():
    """Whatever leaves them unsaid is closed, and a test with it would show nothing."""
    classes = classes_of_tools()
    assert len(classes) > 2
    assert [name for name, says_so in classes.items() if not says_so] == ["tools.py: UndeclaredTool"]
    assert DeclaredTool().allowed_modes == modes.ALL_MODES


GROUPS = {
    ToolGroup.memory: {"memory_search", "memory_append"},
    ToolGroup.world: {"current_time"},
    ToolGroup.ui: {"ask_user", "complete_step"},
    ToolGroup.media: {"generate_image"},
}


def test_each_tool_has_the_group_that_says_what_it_is_about():
    tools = {entry.tool.name: entry.tool.group for entry in build_registry()}
    for group, names in GROUPS.items():
        assert {name for name, its_group in tools.items() if its_group is group} == names
    code = {name for name, group in tools.items() if group is ToolGroup.code}
    assert {"read_file", "write_file", "edit_file", "bash"} <= code
    assert code == set(tools) - set().union(*GROUPS.values())


HARMLESS = {Effect.read, Effect.ask, Effect.tell}
COMMANDS = {PolicySwitch.shell, PolicySwitch.fs}


@pytest.mark.parametrize("effect", Effect)
def test_what_can_change_something_and_names_no_switch_falls_under_those_of_a_command(effect):
    assert policy_switches(DeclaredTool(effect=effect)) == (set() if effect in HARMLESS else COMMANDS)
    named = DeclaredTool(effect=effect, switches=frozenset({PolicySwitch.memory}))
    assert policy_switches(named) == {PolicySwitch.memory}
    assert policy_switches(DeclaredTool(effect=effect, server="s")) == {PolicySwitch.mcp}


def test_every_built_in_declares_its_effect_and_the_switches_it_needs():
    for entry in build_registry():
        tool = entry.tool
        assert type(tool).effect is not BaseTool.effect, tool.name
        assert tool.switches or tool.effect in HARMLESS, tool.name
