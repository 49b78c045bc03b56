"""What a call is answered with when it was refused, or when its tool gave no result."""

import difflib

from interlock.core.errors import ErrorClass, ErrorCode, ToolError
from interlock.policy.authority import Authority
from interlock.tools.result import ToolFailure

_BROKEN = "Try a different approach, or tell the user that the tool is broken."


def call_failure(
    tool_name: str,
    authority: Authority,
    code: ErrorCode,
    message: str,
    next_action: str,
    *,
    error_class: ErrorClass | None = None,
    is_an_answer: bool = False,
) -> ToolFailure:
    return ToolFailure(
        error_code=code,
        error_class=error_class or code.error_class,
        tool_name=tool_name,
        mode=authority.mode.value,
        message=message,
        next_action=next_action,
        is_an_answer=is_an_answer,
    )


def tool_error_failure(tool_name: str, authority: Authority, error: ToolError) -> ToolFailure:
    """In the tool's own words."""
    said = (error.error_code, str(error.message), str(error.next_action))
    return call_failure(tool_name, authority, *said, is_an_answer=error.is_an_answer)


def not_found(name: str, authority: Authority) -> ToolFailure:
    near = difflib.get_close_matches(name, authority.exposed, n=1)
    offered = ", ".join(authority.exposed) or "none"
    return call_failure(
        name[:64],
        authority,
        ErrorCode.TOOL_NOT_FOUND,
        f"there is no tool named '{name[:64]}'",
        f"Did you mean {near[0]}?" if near else f"The tools of this conversation are: {offered}.",
    )


def tool_changed(tool_name: str, authority: Authority) -> ToolFailure:
    """The tool is not the one that this Authority allowed: tools of MCP servers come and go."""
    return call_failure(
        tool_name,
        authority,
        ErrorCode.TOOL_NOT_AVAILABLE,
        f"{tool_name} is not available: it has changed since this turn started",
        "Continue without it; the next turn lists the current tools.",
    )


def mode_closed(tool_name: str, authority: Authority) -> ToolFailure:
    """The registry no longer offers it in this mode."""
    return call_failure(
        tool_name,
        authority,
        ErrorCode.MODE_DENIED,
        f"{tool_name} is not allowed in {authority.mode} mode",
        "This has changed since the turn started. Continue without it.",
    )


def task_cancelled(tool_name: str, authority: Authority) -> ToolFailure:
    """The task is being cancelled: no more calls are started."""
    return call_failure(
        tool_name,
        authority,
        ErrorCode.CANCELLED,
        f"{tool_name} was not run: the task was cancelled",
        "Nothing: the task is being cancelled.",
    )


def judgement_timed_out() -> ToolError:
    return ToolError(
        ErrorCode.TIMEOUT,
        "the request could not be checked in time; nothing was done",
        "Request something else, or tell the user that the disk does not respond.",
    )


def judgement_failed(error: BaseException) -> ToolError:
    return ToolError(
        ErrorCode.EXECUTION_ERROR,
        f"it could not check these arguments ({type(error).__name__})",
        "Try other arguments, or tell the user that the tool is broken.",
    )


def internal_error(tool_name: str, authority: Authority, reason: str) -> ToolFailure:
    message, unknown = f"{tool_name}: {reason}", ErrorClass.unknown
    return call_failure(
        tool_name, authority, ErrorCode.EXECUTION_ERROR, message, _BROKEN, error_class=unknown
    )


def timed_out(tool_name: str, authority: Authority, seconds: float, *, is_unknown: bool) -> ToolFailure:
    """`is_unknown`: it may have taken effect."""
    reason = f"{tool_name}: it did not finish within {seconds:g} seconds and was stopped"
    if is_unknown:
        reason += "; it is not known whether it took effect"
        step = "Check whether it took effect before you call it again."
    else:
        step = "Request less at a time, or a longer timeout if the tool has one."
    return call_failure(tool_name, authority, ErrorCode.TIMEOUT, reason, step)


def cancelled(tool_name: str, authority: Authority, *, took_effect: bool) -> ToolFailure:
    if took_effect:
        reason, step = "it was cancelled; its earlier effects remain", "Check what it changed first."
    else:
        reason, step = "it was cancelled", "Nothing: the task was cancelled."
    return call_failure(tool_name, authority, ErrorCode.CANCELLED, f"{tool_name}: {reason}", step)


def stopped_itself(tool_name: str, authority: Authority) -> ToolFailure:
    message, step = f"{tool_name}: it was stopped", "Call it again if you still need it."
    return call_failure(tool_name, authority, ErrorCode.CANCELLED, message, step)
