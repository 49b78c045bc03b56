"""One judgement, in one order: name, tool, arguments."""

import pytest

from interlock.config.modes import ToolMode
from interlock.gates.authority import Situation, compile_authority
from interlock.gates.gate import ClearedCall, Refusal, ToolCall, judge
from interlock.infra.errors import ErrorClass, ErrorCode, ToolError
from interlock.tools.registry import ToolRegistry
from tests.doubles import DeclaredTool, file_reader


@pytest.fixture
def registry() -> ToolRegistry:
    registry = ToolRegistry()
    registry.register(file_reader())
    registry.register(DeclaredTool("current_time"))
    return registry


def judged(registry, name, arguments="{}", mode=ToolMode.chat_safe):
    open_modes = frozenset({ToolMode.chat_safe, mode})
    return judge(
        ToolCall("c1", name, arguments),
        compile_authority(registry, Situation(mode=mode, open_modes=open_modes)),
    )


def test_a_name_that_does_not_exist_is_not_called_a_denial(registry):
    """S1-S1: an invented tool and a forbidden one can be told apart."""
    refusal = judged(registry, "launch_rocket")
    assert refusal.failure.error_code is ErrorCode.TOOL_NOT_FOUND
    assert refusal.failure.error_class is ErrorClass.validation
    assert not refusal.failure.is_denial
    assert "current_time" in refusal.failure.next_action


def test_a_near_miss_is_helped(registry):
    assert "current_time" in judged(registry, "curent_time").failure.next_action


@pytest.mark.parametrize("name", ["read_file", "read", "fs.read"])
def test_a_forbidden_tool_is_denied_by_every_name_it_has(registry, name):
    refusal = judged(registry, name, '{"path": "a"}')
    assert refusal.failure.error_code is ErrorCode.MODE_DENIED
    assert refusal.failure.tool_name == "read_file"
    assert refusal.requested_name == name


def test_the_tool_is_judged_before_its_arguments(registry):
    assert judged(registry, "read_file", "not json").failure.error_code is ErrorCode.MODE_DENIED


@pytest.mark.parametrize("arguments", ["not json", "[]", "{}", '{"path": 5}', '{"path": "a", "more": 1}'])
def test_wrong_arguments_are_refused(registry, arguments):
    refusal = judged(registry, "read_file", arguments, ToolMode.chat)
    assert refusal.failure.error_code is ErrorCode.INVALID_ARGS


def test_a_right_call_is_cleared_under_its_own_name(registry):
    cleared = judged(registry, "fs.read", '{"path": "a"}', ToolMode.chat)
    assert isinstance(cleared, ClearedCall)
    assert (cleared.tool.name, cleared.requested_name, cleared.arguments) == (
        "read_file",
        "fs.read",
        {"path": "a"},
    )


def test_a_tool_can_object_to_its_arguments():
    objection = ToolError(ErrorCode.PATH_DENIED, "it lies outside", "Stay inside.")
    registry = ToolRegistry()
    registry.register(DeclaredTool("reader", refusal=objection))
    refusal = judged(registry, "reader")
    assert isinstance(refusal, Refusal)
    assert refusal.failure.is_denial
    assert refusal.layer.value == "arguments"


@pytest.mark.parametrize("name", ["", "\0", "read_file\n", "READ_FILE", "a" * 100_000, "../read_file"])
def test_a_garbled_name_is_simply_not_found(registry, name):
    refusal = judged(registry, name)
    assert refusal.failure.error_code is ErrorCode.TOOL_NOT_FOUND
    assert len(refusal.failure.message) < 200
