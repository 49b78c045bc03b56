"""Makes a tool's result fit to be stored, shown and sent: redacted, bounded, always encodable."""

from dataclasses import replace
from typing import Any

import orjson

from interlock.core.text import sanitize_text, to_json_value
from interlock.redaction.redactor import Redactor
from interlock.tools.paging import BoundedText, PageText, bound_text
from interlock.tools.result import ToolFailure, ToolResult
from interlock.tools.tool import ToolLimits

MAX_CURSOR_CHARS = 4096
MAX_EXIT_CODE = 2**31


def sanitize_result(result: ToolResult, limits: ToolLimits, redactor: Redactor) -> ToolResult:
    """The result redacted and bounded; `redacted` says whether anything was masked, here or by the tool.

    Redaction comes first and bounds second, so that a cut can never hide half a secret. The text of a page
    has both behind it, in this order.
    """
    cursor = None if result.next_page_cursor is None else sanitize_text(str(result.next_page_cursor))
    found = redactor.checked(
        {
            "stdout": _unredacted(result.stdout),
            "stderr": _unredacted(result.stderr),
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
    out = _bounded(result.stdout, safe["stdout"], limits)
    err = _bounded(result.stderr, safe["stderr"], limits)
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


def _unredacted(text: str) -> str:
    return "" if isinstance(text, PageText) else sanitize_text(str(text))


def _bounded(text: str, safe: str, limits: ToolLimits) -> BoundedText:
    if isinstance(text, PageText):
        return BoundedText(str(text), truncated_lines=False, truncated_bytes=False)
    return bound_text(safe, max_lines=limits.max_output_lines, max_bytes=limits.max_output_bytes)


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
