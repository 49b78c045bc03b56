"""Builds the events of a call: its intent, its outcome and its refusal."""

from hashlib import sha256
from typing import Any

import orjson

from interlock.core.errors import ToolError
from interlock.core.text import sanitize_text, to_json_value
from interlock.gates.gate import ClearedCall, Refusal, ToolCall
from interlock.log.event import Event
from interlock.log.kinds import (
    ToolCallCompleted,
    ToolCallDenied,
    ToolCallFailed,
    ToolCallStarted,
)
from interlock.policy.authority import Authority
from interlock.policy.verdict import PolicyLayer
from interlock.redaction.redactor import Redacted
from interlock.tools.result import ToolFailure, ToolResult
from interlock.tools.tool import BaseTool, Effect, PolicySwitch, policy_switches

MAX_RECORDED_ARGUMENT_CHARS = 4000
# A command is recorded whole: no part of it may hide behind its beginning. No tool takes a longer one.
MAX_RECORDED_COMMAND_CHARS = 100_000
_COMMANDS = frozenset({Effect.exec, Effect.special})


def intent_event(cleared: ClearedCall, arguments: Redacted, seal: str) -> Event:
    """`arguments` are the redacted ones; `seal` authenticates the unredacted ones."""
    return ToolCallStarted(
        call_id=cleared.context.call_id,
        tool_name=cleared.tool.name,
        mode=cleared.authority.mode.value,
        authority_digest=cleared.authority.digest,
        redacted=arguments.changed,
        requested_name=cleared.requested_name,
        arguments=_shortened(arguments.value, _most_chars(cleared.tool)),
        effect=cleared.tool.effect.value,
        timeout_seconds=cleared.context.timeout_seconds,
        sandbox=cleared.authority.profile.sandbox,
        arguments_seal=seal,
    )


def outcome_event(cleared: ClearedCall, result: ToolResult, latency_ms: float) -> Event:
    """`result` is ready to be shown. In a turn, it is a message of the transcript."""
    fields: dict[str, Any] = {
        "result": result.as_dict() if cleared.context.appender is not None else None,
        "call_id": cleared.context.call_id,
        "tool_name": cleared.tool.name,
        "mode": cleared.authority.mode.value,
        "authority_digest": cleared.authority.digest,
        "redacted": result.redacted,
        "latency_ms": latency_ms,
    }
    if result.failure is not None:
        fields |= _failure_fields(result.failure)
        return _failure_event(fields, cleared.requested_name, result.failure, PolicyLayer.arguments)
    return ToolCallCompleted(
        **fields,
        exit_code=result.exit_code,
        truncated_lines=result.truncated_lines,
        truncated_bytes=result.truncated_bytes,
        output_hash=sha256(result.stdout.encode() + b"\0" + result.stderr.encode()).hexdigest(),
        files=[touch.as_dict() for touch in result.touched],
    )


def refusal_event(
    call: ToolCall,
    refusal: Refusal,
    authority: Authority,
    arguments: Redacted,
    tool: BaseTool | None,
    *,
    in_turn: bool,
) -> Event:
    """`refusal` is redacted. `tool` is the requested one, if it exists."""
    fields: dict[str, Any] = {
        "result": refusal.result().as_dict() if in_turn else None,
        "call_id": call.call_id,
        "mode": authority.mode.value,
        "authority_digest": authority.digest,
        "latency_ms": 0.0,
        "redacted": refusal.redacted or arguments.changed,
        "arguments": _bounded(arguments.value, tool),
        **_failure_fields(refusal.failure),
    }
    return _failure_event(fields, refusal.requested_name[:64], refusal.failure, refusal.layer)


def recorded_arguments(call: ToolCall) -> Any:
    """The arguments of a refused call: an object, or text if they are no object."""
    raw: Any = call.arguments
    try:
        return call.decoded()
    except ToolError:
        if isinstance(raw, bytes):
            return sanitize_text(raw.decode("utf-8", "replace"))
        return sanitize_text(raw) if isinstance(raw, str) else to_json_value(raw)


def _failure_event(
    fields: dict[str, Any], requested_name: str, failure: ToolFailure, layer: PolicyLayer
) -> Event:
    if failure.is_denial:
        return ToolCallDenied(**fields, requested_name=requested_name, layer=layer.value)
    return ToolCallFailed(**fields, requested_name=requested_name)


def _failure_fields(failure: ToolFailure) -> dict[str, Any]:
    return {
        "tool_name": failure.tool_name,
        "error": failure.message,
        "error_code": failure.error_code.value,
        "error_class": failure.error_class.value,
        "next_action": failure.next_action,
    }


def _bounded(arguments: Any, tool: BaseTool | None) -> Any:
    """No schema has validated them: the number of their parts is bounded as well."""
    most = _most_chars(tool) if tool is not None else MAX_RECORDED_ARGUMENT_CHARS
    shortened = _shortened(arguments, most)
    encoded = orjson.dumps(shortened)
    if len(encoded) <= MAX_RECORDED_COMMAND_CHARS + MAX_RECORDED_ARGUMENT_CHARS:
        return shortened
    return _shortened(encoded.decode(), MAX_RECORDED_ARGUMENT_CHARS)


def _most_chars(tool: BaseTool) -> int:
    runs_commands = tool.effect in _COMMANDS or PolicySwitch.shell in policy_switches(tool)
    return MAX_RECORDED_COMMAND_CHARS if runs_commands else MAX_RECORDED_ARGUMENT_CHARS


def _shortened(value: Any, most: int) -> Any:
    """Cut long texts, with their length and a hash of the whole."""
    if isinstance(value, str) and len(value) > most:
        digest = sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{value[:most]}… ({len(value)} characters, sha256 {digest})"
    if isinstance(value, dict):
        return {key: _shortened(item, most) for key, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item, most) for item in value]
    return value
