"""Makes what a tool gave back fit to be stored, shown and sent: no secrets, bounded, always encodable."""

from dataclasses import replace
from typing import Any

import orjson

from interlock.infra.text import json_value, storable
from interlock.redaction.redactor import MARK, Redactor
from interlock.tools.base import ToolLimits
from interlock.tools.output import bound_text
from interlock.tools.result import ToolFailure, ToolResult

MAX_CURSOR_CHARS = 4096
MAX_EXIT_CODE = 2**31


def presentable(result: ToolResult, limits: ToolLimits, redactor: Redactor) -> tuple[ToolResult, bool]:
    """The result, and whether anything secret had to be taken out of it.

    Secrets go first and bounds come second, so that a cut can never hide half a secret.
    """
    texts = [storable(str(text)) for text in (result.stdout, result.stderr)]
    cursor = None if result.next_page_cursor is None else storable(str(result.next_page_cursor))
    safe = redactor.checked([*texts, cursor, json_value(result.meta)])
    stdout, stderr, safe_cursor, meta = safe.value
    failure = redacted_failure(result.failure, redactor) if result.failure else None
    caps = {"max_lines": limits.max_output_lines, "max_bytes": limits.max_output_bytes}
    out, err = bound_text(stdout, **caps, whole=MARK), bound_text(stderr, **caps, whole=MARK)
    shown = replace(
        result,
        exit_code=_exit_code(result.exit_code),
        stdout=out.text,
        stderr=err.text,
        truncated_lines=bool(result.truncated_lines) or out.truncated_lines or err.truncated_lines,
        truncated_bytes=bool(result.truncated_bytes) or out.truncated_bytes or err.truncated_bytes,
        next_page_cursor=safe_cursor if len(safe_cursor or "") <= MAX_CURSOR_CHARS else None,
        meta=_bounded_meta(meta, limits.max_output_bytes),
        failure=failure,
    )
    return shown, safe.changed or failure != result.failure


def redacted_failure(failure: ToolFailure, redactor: Redactor) -> ToolFailure:
    return replace(
        failure,
        tool_name=redactor.text(failure.tool_name),
        message=redactor.text(storable(failure.message)),
        next_action=redactor.text(storable(failure.next_action)),
    )


def _exit_code(value: Any) -> int:
    return int(value) if isinstance(value, int) and abs(value) < MAX_EXIT_CODE else 1


def _bounded_meta(meta: Any, max_bytes: int) -> dict[str, Any]:
    if not isinstance(meta, dict):
        return {}
    size = len(orjson.dumps(meta))
    return meta if size <= max_bytes else {"omitted": f"{size} bytes of details"}
