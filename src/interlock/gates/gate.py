"""The execution gate: a call is cleared, or refused with a code, a class, a reason and the next step."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from interlock.gates.authority import Authority
from interlock.gates.verdict import Allowed, Denied, Layer
from interlock.infra.errors import ErrorCode, ToolError
from interlock.infra.text import storable
from interlock.tools.arguments import decode_arguments
from interlock.tools.base import BaseTool
from interlock.tools.result import ToolFailure, ToolResult


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One execution request, as the model (or a person at the command line) made it."""

    call_id: str
    name: str
    arguments: str | bytes | Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "call_id", storable(self.call_id))
        object.__setattr__(self, "name", storable(self.name))


@dataclass(frozen=True, slots=True)
class Refusal:
    """The call will not run; `layer` is who said so."""

    failure: ToolFailure
    requested_name: str
    layer: Layer

    def result(self) -> ToolResult:
        return ToolResult(exit_code=1, failure=self.failure)


_log = structlog.get_logger(__name__)

_GATE_SEAL: Final = object()


@dataclass(frozen=True, slots=True)
class ClearedCall:
    """A call that passed every judgement. Only this module can make one, and only it can be executed."""

    call_id: str
    requested_name: str
    tool: BaseTool
    arguments: Mapping[str, Any]
    authority: Authority
    seal: object

    def __post_init__(self) -> None:
        if self.seal is not _GATE_SEAL:
            raise TypeError("a call is cleared by the gate, not made by hand")


def judge(call: ToolCall, authority: Authority) -> ClearedCall | Refusal:
    """Resolve the name, judge the tool, validate the arguments, judge the arguments: in that order."""
    match authority.verdict(call.name):
        case None:
            return _not_found(call, authority)
        case Denied() as denied:
            return Refusal(
                _failure(
                    denied.error_code, denied.tool_name, authority, denied.message, denied.next_action
                ),
                call.name,
                denied.layer,
            )
        case Allowed(tool_name):
            return _judge_arguments(call, tool_name, authority)


def _judge_arguments(call: ToolCall, tool_name: str, authority: Authority) -> ClearedCall | Refusal:
    entry = authority.tools[tool_name]
    try:
        arguments = decode_arguments(call.arguments)
        entry.validator.check(arguments)
        objection = entry.tool.refusal_of(arguments, authority.limits)
    except ToolError as error:
        objection = error
    except Exception as error:  # noqa: BLE001 - a tool that cannot judge its arguments must not run
        _log.error("tool_could_not_judge", tool_name=tool_name, call_id=call.call_id, exc_info=error)
        objection = ToolError(
            ErrorCode.EXECUTION_ERROR,
            f"it could not judge these arguments ({type(error).__name__})",
            "Try other arguments, or tell the person that the tool has a fault.",
        )
    if objection is None:
        return ClearedCall(call.call_id, call.name, entry.tool, arguments, authority, _GATE_SEAL)
    failure = _failure(objection.error_code, tool_name, authority, objection.message, objection.next_action)
    return Refusal(failure, call.name, Layer.arguments)


def _not_found(call: ToolCall, authority: Authority) -> Refusal:
    near = difflib.get_close_matches(call.name, authority.exposed, n=1)
    offered = ", ".join(authority.exposed) or "none"
    step = f"Did you mean {near[0]}?" if near else f"The tools of this conversation are: {offered}."
    message = f"there is no tool named '{call.name[:64]}'"
    failure = _failure(ErrorCode.TOOL_NOT_FOUND, call.name[:64], authority, message, step)
    return Refusal(failure, call.name, Layer.declaration)


def _failure(
    code: ErrorCode, tool_name: str, authority: Authority, message: str, next_action: str
) -> ToolFailure:
    return ToolFailure(code, code.error_class, tool_name, authority.mode.value, message, next_action)
