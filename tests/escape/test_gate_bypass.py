"""Attempts to run a tool past the gate."""

import dataclasses

import pytest

from interlock.config.modes import ToolMode
from interlock.gates.gate import ClearedCall, ToolCall
from interlock.gates.runner import ToolRunner
from interlock.policy.authority import AuthorityCache, compile_authority
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.redaction.redactor import Redactor
from interlock.tools.registry import ToolRegistry
from interlock.tools.tool import TimeLimit, ToolContext
from tests.harness.tools import DeclaredTool, file_reader, judge_call


def registry_with(tool) -> ToolRegistry:
    registry = ToolRegistry()
    registry.register(tool)
    return registry


def test_a_cleared_call_cannot_be_made_by_hand():
    tool = file_reader()
    authority = compile_authority(registry_with(tool), AuthorityInputs(mode=ToolMode.chat_safe))
    with pytest.raises(TypeError, match="only the gate"):
        ClearedCall("read_file", tool, {}, {}, TimeLimit(1.0), authority, None, object())


def test_a_cleared_call_cannot_be_turned_into_another():
    registry = registry_with(DeclaredTool("echo"))
    authority = compile_authority(registry, AuthorityInputs(mode=ToolMode.chat_safe))
    cleared = judge_call(ToolCall("c", "echo", "{}"), authority, registry)
    with pytest.raises((TypeError, ValueError)):
        dataclasses.replace(cleared, tool=file_reader())


async def test_the_runner_judges_every_call_itself(sqlite_store):
    """S0-3.3.5, S1-S2: a tool the model was never shown still meets the gate."""
    tool = file_reader()
    session = await sqlite_store.sessions.create(opened_by="test")
    authority = AuthorityCache(registry_with(tool)).get(AuthorityInputs(mode=ToolMode.chat_safe))
    runner = ToolRunner(registry_with(tool), sqlite_store.log, Redactor())
    for name in ("read_file", "read", "fs.read"):
        result = await runner.call(ToolCall("c", name, '{"path": "a"}'), authority, ToolContext(session.id))
        assert result.as_dict()["error_code"] == "MODE_DENIED"
    assert tool.calls == 0


async def test_arguments_cannot_name_a_mode_or_an_authority(sqlite_store):
    tool = file_reader()
    session = await sqlite_store.sessions.create(opened_by="test")
    authority = AuthorityCache(registry_with(tool)).get(AuthorityInputs(mode=ToolMode.chat_safe))
    runner = ToolRunner(registry_with(tool), sqlite_store.log, Redactor())
    arguments = '{"path": "a", "mode": "coding", "authority": {"allowed": true}}'
    result = await runner.call(ToolCall("c", "read_file", arguments), authority, ToolContext(session.id))
    assert result.as_dict()["mode"] == "chat_safe"
    assert result.as_dict()["error_code"] == "MODE_DENIED"
