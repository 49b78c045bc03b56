"""Makes a tool's result fit to be stored, shown and sent: redacted, bounded, always encodable."""

from dataclasses import replace
from typing import Any

import orjson

from interlock.core.text import sanitize_text, to_json_value
from interlock.redaction.redactor import MARK, Redactor
from interlock.tools.output_bounds import bound_text
from interlock.tools.result import ToolFailure, ToolResult
from interlock.tools.tool import ToolLimits

MAX_CURSOR_CHARS = 4096
MAX_EXIT_CODE = 2**31


def sanitize_result(result: ToolResult, limits: ToolLimits, redactor: Redactor) -> ToolResult:
    """The result redacted and bounded; `redacted` says whether anything was masked, here or by the tool.

    Redaction comes first and bounds second, so that a cut can never hide half a secret.
    """
    cursor = None if result.next_page_cursor is None else sanitize_text(str(result.next_page_cursor))
    found = redactor.checked(
        {
            "stdout": sanitize_text(str(result.stdout)),
            "stderr": sanitize_text(str(result.stderr)),
            "next_page_cursor": cursor,
            "meta": to_json_value(result.meta),
            # As the call's event has them.
            "files": [touch.as_dict() for touch in result.touched],
        }
    )
    safe, redacted, failure = found.value, bool(result.redacted) or found.changed, result.failure
    if failure is not None:
        failure, has_masks = redact_failure(failure, redactor)
        redacted = redacted or has_masks
    safe_cursor = safe["next_page_cursor"]
    caps = {"max_lines": limits.max_output_lines, "max_bytes": limits.max_output_bytes}
    # No line is shorter than a byte: a request for bytes is not limited by the lines of a page.
    asked = min(result.asked_bytes, limits.max_read_bytes)
    out = bound_text(safe["stdout"], **{name: max(cap, asked) for name, cap in caps.items()}, whole=MARK)
    err = bound_text(safe["stderr"], **caps, whole=MARK)
    return replace(
        result,
        exit_code=_exit_code(result.exit_code),
        stdout=out.text,
        stderr=err.text,
        truncated_lines=bool(result.truncated_lines) or out.truncated_lines or err.truncated_lines,
        truncated_bytes=bool(result.truncated_bytes) or out.truncated_bytes or err.truncated_bytes,
        next_page_cursor=safe_cursor if len(safe_cursor or "") <= MAX_CURSOR_CHARS else None,
        meta=_bounded_meta(safe["meta"], limits.max_output_bytes),
        failure=failure,
        redacted=redacted,
    )


def redact_failure(failure: ToolFailure, redactor: Redactor) -> tuple[ToolFailure, bool]:
    """The failure, and whether a secret was masked in it."""
    given = [sanitize_text(text) for text in (failure.tool_name, failure.message, failure.next_action)]
    safe = tool_name, message, next_action = [redactor.text(text) for text in given]
    return replace(failure, tool_name=tool_name, message=message, next_action=next_action), safe != given


def _exit_code(value: Any) -> int:
    return int(value) if isinstance(value, int) and abs(value) < MAX_EXIT_CODE else 1


def _bounded_meta(meta: Any, max_bytes: int) -> dict[str, Any]:
    if not meta or not isinstance(meta, dict):
        return {}
    size = len(orjson.dumps(meta))
    return meta if size <= max_bytes else {"omitted": f"{size} bytes of details"}
