"""One judgement, in one order: name, tool, arguments."""

import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import ErrorClass, ErrorCode, ToolError
from interlock.gates.gate import ClearedCall, Refusal, ToolCall
from interlock.policy.authority import compile_authority
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.policy.verdict import PolicyLayer
from interlock.tools.registry import ToolRegistry
from tests.harness import tools
from tests.harness.tools import DeclaredTool, file_reader


@pytest.fixture
def registry() -> ToolRegistry:
    registry = ToolRegistry()
    registry.register(file_reader())
    registry.register(DeclaredTool("current_time"))
    return registry


def judged(registry, name, arguments="{}", mode=ToolMode.chat_safe):
    open_modes = frozenset({ToolMode.chat_safe, mode})
    authority = compile_authority(registry, AuthorityInputs(mode=mode, open_modes=open_modes))
    return tools.judge_call(ToolCall("c1", name, arguments), authority, registry)


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


def test_a_tool_that_the_registry_closed_meanwhile_is_refused(registry):
    """S0-3.3.2: the execution gate asks the registry itself, whatever was exposed when the turn began."""
    authority = compile_authority(registry, AuthorityInputs(mode=ToolMode.chat_safe))
    registry.set_mode_override("current_time", frozenset({ToolMode.coding}))
    assert "current_time" in authority.exposed
    refusal = tools.judge_call(ToolCall("c1", "current_time", "{}"), authority, registry)
    assert isinstance(refusal, Refusal)
    assert (refusal.failure.error_code, refusal.layer) == (ErrorCode.MODE_DENIED, PolicyLayer.override)


def test_the_tool_is_judged_before_its_arguments(registry):
    assert judged(registry, "read_file", "not json").failure.error_code is ErrorCode.MODE_DENIED


@pytest.mark.parametrize("arguments", ["not json", "[]", "{}", '{"path": 5}', '{"path": "a", "more": 1}'])
def test_wrong_arguments_are_refused(registry, arguments):
    refusal = judged(registry, "read_file", arguments, ToolMode.chat)
    assert isinstance(refusal, Refusal)
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


def test_a_tool_that_cannot_judge_does_not_run():
    registry = ToolRegistry()
    registry.register(DeclaredTool("odd", refusal=ValueError("embedded null byte")))
    refusal = judged(registry, "odd")
    assert refusal.failure.error_code is ErrorCode.EXECUTION_ERROR
    assert "null byte" not in refusal.failure.message


def test_a_long_wrong_list_is_answered_at_once_and_shortly():
    registry = ToolRegistry()
    items = {"type": "object", "properties": {"paths": {"type": "array", "items": {"type": "string"}}}}
    registry.register(DeclaredTool("reader", parameters=items))
    refusal = judged(registry, "reader", '{"paths": [' + "1," * 1_000_000 + '"x"]}')
    assert refusal.failure.error_code is ErrorCode.INVALID_ARGS
    assert "paths[0]" in refusal.failure.message
    huge = judged(registry, "reader", '{"paths": "' + "x" * 5_000_000 + '"}')
    assert len(huge.failure.message) < 500


@pytest.mark.parametrize("arguments", [None, [], 5, object()])
def test_arguments_of_another_kind_are_refused(registry, arguments):
    assert judged(registry, "current_time", arguments).failure.error_code is ErrorCode.INVALID_ARGS


def test_a_call_may_not_ask_for_more_time_than_the_policy_gives():
    registry = ToolRegistry()
    registry.register(DeclaredTool("slow", seconds=50))
    registry.register(DeclaredTool("endless", seconds=10**9))
    assert judged(registry, "slow").context.timeout_seconds == 50
    assert judged(registry, "endless").context.timeout_seconds == 600
