"""The execution gate: a call is cleared, or refused with a code, a class, a reason and the next step."""

import asyncio
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, Final

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.logging import StructuredLogger
from interlock.core.text import sanitize_text
from interlock.gates import failures
from interlock.policy.authority import Authority
from interlock.policy.verdict import AllowedTool, DeniedTool, PolicyLayer
from interlock.tools.arguments import decode_arguments
from interlock.tools.registry import RegisteredTool, ToolRegistry
from interlock.tools.result import ToolFailure, ToolResult
from interlock.tools.threads import CancelSignal
from interlock.tools.tool import BaseTool, Effect, TimeLimit, ToolContext


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One execution request, as the model (or a person at the command line) made it."""

    call_id: str
    name: str
    arguments: str | bytes | Mapping[str, Any]
    timeout_seconds: float | None = None
    _decoded: dict[str, Any] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "call_id", sanitize_text(self.call_id))
        object.__setattr__(self, "name", sanitize_text(self.name))

    def decoded(self) -> dict[str, Any]:
        """The arguments, decoded once and never changed; raises `ToolError` if they are no JSON object."""
        decoded = self._decoded
        if decoded is None:
            decoded = decode_arguments(self.arguments)
            object.__setattr__(self, "_decoded", decoded)
        return decoded


@dataclass(frozen=True, slots=True)
class Refusal:
    """The call will not run; `layer` denied it. `redacted`: the failure's text has masks already."""

    failure: ToolFailure
    requested_name: str
    layer: PolicyLayer
    redacted: bool = False

    def result(self) -> ToolResult:
        return ToolResult.failed(self.failure, redacted=self.redacted)


_log = StructuredLogger(__name__)

_GATE_SEAL: Final = object()


@dataclass(frozen=True)
class ClearedCall:
    """A call that passed every judgement. Only this module can make one, and only it can be executed."""

    requested_name: str
    tool: BaseTool
    arguments: Mapping[str, Any]
    prepared: Any
    time_limit: TimeLimit
    authority: Authority
    context: ToolContext
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not _GATE_SEAL:
            raise TypeError("only the gate can create a cleared call")

    @property
    def read_at_once(self) -> ToolResult | None:
        """The result, if the tool only reads and had it at once: nothing is left to execute."""
        is_result = isinstance(self.prepared, ToolResult)
        return self.prepared if is_result and self.tool.effect is Effect.read else None


def judge_tool(call: ToolCall, authority: Authority) -> AllowedTool | Refusal:
    """Resolve the name and judge the tool, whatever its arguments."""
    match authority.verdict(call.name):
        case None:
            return Refusal(failures.not_found(call.name, authority), call.name, PolicyLayer.declaration)
        case DeniedTool(tool_name=tool_name, layer=layer):
            return Refusal(authority.failures[tool_name], call.name, layer)
        case AllowedTool() as allowed:
            return allowed


async def judge(
    call: ToolCall, authority: Authority, registry: ToolRegistry, caller: ToolContext
) -> ClearedCall | Refusal:
    """Judge the tool, validate the arguments, let the tool judge and prepare them: in that order."""
    judged = judge_tool(call, authority)
    if isinstance(judged, Refusal):
        return judged
    entry = authority.entries[judged.tool_name]
    if registry.get(judged.tool_name) is not entry:
        failure = failures.tool_changed(judged.tool_name, authority)
        return Refusal(failure, call.name, PolicyLayer.capability)
    if not registry.check_mode(judged.tool_name, authority.mode):
        failure = failures.mode_closed(judged.tool_name, authority)
        return Refusal(failure, call.name, PolicyLayer.override)
    return await _judge_arguments(call, authority, entry, caller)


async def _judge_arguments(
    call: ToolCall, authority: Authority, entry: RegisteredTool, caller: ToolContext
) -> ClearedCall | Refusal:
    tool = entry.tool
    try:
        given = call.decoded()
        arguments = entry.parser.parse(given)
        limit = _time_limit(call, tool, arguments, authority)
        context = replace(
            caller,
            call_id=call.call_id,
            mode=authority.mode,
            limits=authority.limits,
            profile=authority.profile,
            policy=authority.policy,
            authority_digest=authority.digest,
            timeout_seconds=limit.seconds,
            cancel=CancelSignal(caller.is_held),
        )
        async with asyncio.timeout(min(limit.seconds, authority.limits.timeout_seconds)):
            prepared = await tool.prepare(arguments, context)
    except ToolError as error:
        objection = error
    except TimeoutError:
        objection = failures.judgement_timed_out()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool that cannot judge its arguments must not run
        _log.error("tool_could_not_judge", tool_name=tool.name, call_id=call.call_id, exc_info=error)
        objection = failures.judgement_failed(error)
    else:
        return ClearedCall(call.name, tool, given, prepared, limit, authority, context, _GATE_SEAL)
    failure = failures.tool_error_failure(tool.name, authority, objection)
    return Refusal(failure, call.name, PolicyLayer.arguments, redacted=objection.redacted)


def _time_limit(call: ToolCall, tool: BaseTool, arguments: Any, authority: Authority) -> TimeLimit:
    """The time limit of the call: as requested, within the policy's limit."""
    limit = tool.time_limit(arguments, authority.limits)
    if call.timeout_seconds is not None:
        if not call.timeout_seconds > 0:
            raise ToolError(
                ErrorCode.INVALID_ARGS,
                "timeout_seconds: must be more than 0",
                "Use a longer timeout, or omit it.",
            )
        limit = replace(limit, seconds=call.timeout_seconds)
    return replace(limit, seconds=min(limit.seconds, authority.limits.max_timeout_seconds))
