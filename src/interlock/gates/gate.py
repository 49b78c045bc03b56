"""The execution gate: a call is cleared, or refused with a code, a class, a reason and the next step."""

import asyncio
import difflib
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, Final

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.logging import StructuredLogger
from interlock.core.text import sanitize_text
from interlock.log.stream_appender import NO_SCOPE, EventDraft, EventScope
from interlock.log.writer import TaskAppender
from interlock.policy.authority import Authority
from interlock.policy.verdict import AllowedTool, DeniedTool, PolicyLayer
from interlock.tools.arguments import decode_arguments
from interlock.tools.registry import RegisteredTool, ToolRegistry
from interlock.tools.result import ToolFailure, ToolResult
from interlock.tools.threads import CancelSignal
from interlock.tools.tool import BaseTool, TimeLimit, ToolContext


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
class CallContext:
    """The caller's session, and the position of the call in the log."""

    session_id: str
    scope: EventScope = NO_SCOPE
    lease_token: int | None = None
    # The name of the agent that calls, if it is one.
    agent: str = ""
    report_progress: Callable[[str], None] = lambda _text: None
    # Checked right before an irreversible effect: whether the session's lease is still held.
    is_held: Callable[[], bool] = lambda: True
    # False: a person at the command line chose the mode of this call, whatever the session's is.
    follows_session: bool = True
    # The appends of the caller's task. Without it, a call belongs to no turn.
    appender: TaskAppender | None = None
    # Called with the outcome's event when it is on disk.
    outcome_recorded: Callable[[EventDraft], None] = lambda _draft: None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The call will not run; `layer` denied it. `redacted`: the failure's text has masks already."""

    failure: ToolFailure
    requested_name: str
    layer: PolicyLayer
    redacted: bool = False

    def result(self) -> ToolResult:
        return ToolResult(exit_code=1, failure=self.failure, redacted=self.redacted)


_log = StructuredLogger(__name__)

_GATE_SEAL: Final = object()


@dataclass(frozen=True)
class ClearedCall:
    """A call that passed every judgement. Only this module can make one, and only it can be executed."""

    call_id: str
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
    def timeout_seconds(self) -> float:
        return self.time_limit.seconds


def judge_tool(call: ToolCall, authority: Authority) -> AllowedTool | Refusal:
    """Resolve the name and judge the tool, whatever its arguments."""
    match authority.verdict(call.name):
        case None:
            return _not_found(call, authority)
        case DeniedTool(tool_name=tool_name, layer=layer):
            return Refusal(authority.failures[tool_name], call.name, layer)
        case AllowedTool() as allowed:
            return allowed


async def judge(
    call: ToolCall, authority: Authority, registry: ToolRegistry, caller: CallContext
) -> ClearedCall | Refusal:
    """Judge the tool, validate the arguments, let the tool judge and prepare them: in that order."""
    judged = judge_tool(call, authority)
    if isinstance(judged, Refusal):
        return judged
    entry = authority.entries[judged.tool_name]
    if registry.get(judged.tool_name) is not entry:
        return tool_changed_refusal(call, judged.tool_name, authority)
    if not registry.check_mode(judged.tool_name, authority.mode):
        return _mode_closed_refusal(call, judged.tool_name, authority)
    return await _judge_arguments(call, authority, entry, caller)


async def _judge_arguments(
    call: ToolCall, authority: Authority, entry: RegisteredTool, caller: CallContext
) -> ClearedCall | Refusal:
    tool = entry.tool
    context = ToolContext(
        session_id=caller.session_id,
        call_id=call.call_id,
        mode=authority.mode,
        limits=authority.limits,
        profile=authority.profile,
        policy=authority.policy,
        authority_digest=authority.digest,
        report_progress=caller.report_progress,
        scope=caller.scope,
        lease_token=caller.lease_token,
        agent=caller.agent,
        cancel=CancelSignal(caller.is_held),
    )
    try:
        given = call.decoded()
        arguments = entry.parser.parse(given)
        limit = _time_limit(call, tool, arguments, authority)
        prepared = tool.prepare_at_once(arguments, context)
        if prepared is None:
            async with asyncio.timeout(min(limit.seconds, authority.limits.timeout_seconds)):
                prepared = await tool.prepare(arguments, context)
    except ToolError as error:
        objection = error
    except TimeoutError:
        objection = ToolError(
            ErrorCode.TIMEOUT,
            "the request could not be checked in time; nothing was done",
            "Request something else, or tell the user that the disk does not respond.",
        )
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool that cannot judge its arguments must not run
        _log.error("tool_could_not_judge", tool_name=tool.name, call_id=call.call_id, exc_info=error)
        objection = ToolError(
            ErrorCode.EXECUTION_ERROR,
            f"it could not check these arguments ({type(error).__name__})",
            "Try other arguments, or tell the user that the tool is broken.",
        )
    else:
        return ClearedCall(
            *(call.call_id, call.name, tool, given, prepared, limit, authority, context),
            _GATE_SEAL,
        )
    failure = _failure(objection.error_code, tool.name, authority, objection.message, objection.next_action)
    failure = replace(failure, is_an_answer=objection.is_an_answer)
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


def _not_found(call: ToolCall, authority: Authority) -> Refusal:
    near = difflib.get_close_matches(call.name, authority.exposed, n=1)
    offered = ", ".join(authority.exposed) or "none"
    step = f"Did you mean {near[0]}?" if near else f"The tools of this conversation are: {offered}."
    message = f"there is no tool named '{call.name[:64]}'"
    failure = _failure(ErrorCode.TOOL_NOT_FOUND, call.name[:64], authority, message, step)
    return Refusal(failure, call.name, PolicyLayer.declaration)


def tool_changed_refusal(call: ToolCall, tool_name: str, authority: Authority) -> Refusal:
    """The tool is not the one that this Authority allowed: tools of MCP servers come and go."""
    message = f"{tool_name} is not available: it has changed since this turn started"
    step = "Continue without it; the next turn lists the current tools."
    failure = _failure(ErrorCode.TOOL_NOT_AVAILABLE, tool_name, authority, message, step)
    return Refusal(failure, call.name, PolicyLayer.capability)


def task_cancelled_refusal(call: ToolCall, tool_name: str, authority: Authority) -> Refusal:
    """The task is being cancelled: no more calls are started."""
    message = f"{tool_name} was not run: the task was cancelled"
    step = "Nothing: the task is being cancelled."
    failure = _failure(ErrorCode.CANCELLED, tool_name, authority, message, step)
    return Refusal(failure, call.name, PolicyLayer.task)


def _mode_closed_refusal(call: ToolCall, tool_name: str, authority: Authority) -> Refusal:
    """The registry no longer offers it in this mode."""
    message = f"{tool_name} is not allowed in {authority.mode} mode"
    step = "This has changed since the turn started. Continue without it."
    failure = _failure(ErrorCode.MODE_DENIED, tool_name, authority, message, step)
    return Refusal(failure, call.name, PolicyLayer.override)


def _failure(
    code: ErrorCode, tool_name: str, authority: Authority, message: str, next_action: str
) -> ToolFailure:
    return ToolFailure(code, code.error_class, tool_name, authority.mode.value, message, next_action)
