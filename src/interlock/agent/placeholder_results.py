"""Tool messages for calls that have no result of their own."""

import orjson

from interlock.core.errors import ErrorCode

ENDED_BEFORE = "the task ended first"
REFUSED_OFTEN = "too many calls of this task were denied"


def not_run_result(tool_name: str, mode: str, reason: str) -> str:
    return _failure_envelope(
        ErrorCode.CANCELLED,
        tool_name,
        mode,
        f"{tool_name} was not run: {reason}",
        "Call it again if you still need it.",
    )


def stopped_result(tool_name: str, mode: str) -> str:
    """The call was running when its task was ended."""
    reason = "it was stopped together with its task; its earlier effects remain"
    return _failure_envelope(
        ErrorCode.CANCELLED, tool_name, mode, f"{tool_name}: {reason}", "Check what it changed first."
    )


def unknown_outcome_result(tool_name: str, mode: str) -> str:
    reason = "the process ended during the call, so it is not known whether it took effect"
    return _failure_envelope(
        ErrorCode.INTERRUPTED,
        tool_name,
        mode,
        f"{tool_name}: {reason}",
        "Check whether it took effect before you call it again.",
    )


def _failure_envelope(code: ErrorCode, tool_name: str, mode: str, message: str, next_action: str) -> str:
    return orjson.dumps(
        {
            "ok": False,
            "error_code": code.value,
            "error_class": code.error_class.value,
            "tool_name": tool_name,
            "mode": mode,
            "message": message,
            "next_action": next_action,
        }
    ).decode()
