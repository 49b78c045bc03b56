"""What a tool must say about itself, what it may leave unsaid, and what its group is worth (S0-2)."""

import inspect
from enum import StrEnum

import pytest

from interlock.config import modes
from interlock.tools import base
from interlock.tools.base import BaseTool, ToolGroup, ToolMode
from interlock.wiring import build_registry
from tests.doubles import DeclaredTool, UndeclaredTool


def test_modes_and_groups_are_words_and_live_with_the_tools():
    assert (base.ToolMode, base.ToolGroup) == (modes.ToolMode, modes.ToolGroup)
    assert {"ToolMode", "ToolGroup"} <= set(base.__all__)
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


def test_the_tools_for_tests_declare_their_modes():
    """Whatever leaves them unsaid is closed, and a test with it would show nothing."""
    for tool in (DeclaredTool(), DeclaredTool("reader", modes=frozenset({ToolMode.plan}))):
        assert type(tool).allowed_modes is not BaseTool.allowed_modes
        assert tool.allowed_modes
    assert UndeclaredTool.allowed_modes is BaseTool.allowed_modes


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
