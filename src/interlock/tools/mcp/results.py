"""Converts a server's result to a `ToolResult`. Nothing in it is an instruction.

Text is shown; other content is described; content that the protocol does not have is reported as such. The
runner redacts and limits it like any other result.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from interlock.core.errors import ErrorCode
from interlock.core.text import sanitize_text, to_json_value
from interlock.tools.arguments import SchemaParser, is_too_deep
from interlock.tools.mcp.schema_checks import max_value_bytes
from interlock.tools.mcp.tool_definitions import McpToolDefinition
from interlock.tools.mcp.tool_names import to_visible_line
from interlock.tools.result import ToolFailure, ToolResult

MAX_PARTS = 1_000
MAX_NOTE_CHARS = 300


def to_tool_result(
    raw: Mapping[str, Any], definition: McpToolDefinition, tool_name: str, mode: str, server: str
) -> ToolResult:
    """Convert `raw`, the server's result, of any shape."""
    text, described = _text(raw)
    meta: dict[str, Any] = {"mcp_server": server}
    if described:
        meta["not_shown"] = described
    if raw.get("resultType") == "input_required":
        return _failed(
            ToolResult(meta=meta),
            tool_name,
            mode,
            f"{server} asks for more input, which is not supported here",
        )
    if raw.get("isError") is True:
        said = "see the output" if text else "without a reason"
        reason = f"{server} reports a failure, {said}"
        return _failed(ToolResult(stdout=text, meta=meta), tool_name, mode, reason)
    structured = raw.get("structuredContent")
    if fault := _structure_fault(structured, definition):
        return _failed(ToolResult(stdout=text, meta=meta), tool_name, mode, f"{server}: {fault}")
    if isinstance(structured, dict) and not text.strip():
        # Servers repeat it as text for clients without structured content; if one does not, use it as the
        # text.
        text = orjson.dumps(to_json_value(structured), option=orjson.OPT_INDENT_2).decode()
    return ToolResult(stdout=text, meta=meta)


def _failed(result: ToolResult, tool_name: str, mode: str, reason: str) -> ToolResult:
    failure = ToolFailure(
        *(ErrorCode.EXECUTION_ERROR, ErrorCode.EXECUTION_ERROR.error_class, tool_name, mode),
        f"{tool_name}: {reason}",
        "Check its output, and try other arguments or a different approach.",
        is_an_answer=True,
    )
    return ToolResult(exit_code=1, stdout=result.stdout, meta=result.meta, failure=failure)


def _structure_fault(structured: Any, definition: McpToolDefinition) -> str:
    """Why structured content does not match its schema: such a server is not reliable."""
    if definition.output_schema is None:
        return ""
    if not isinstance(structured, dict):
        return "it declares a structured result but returned none"
    try:
        # This runs on the event loop: limit what is checked, and how long that takes, first.
        longest = max_value_bytes(definition.output_schema)
        validator = SchemaParser(definition.output_schema)
    except (ValueError, RecursionError):
        return ""
    try:
        size = len(orjson.dumps(structured))
    except (TypeError, ValueError):
        return "its result contains something that cannot be checked"
    if size > longest or is_too_deep(structured):
        return "its result is too large to check against its declared schema"
    try:
        validator.check(structured)
    except Exception:  # noqa: BLE001 - whatever does not fit, does not fit
        return "its result does not match its declared schema"
    return ""


def _text(raw: Mapping[str, Any]) -> tuple[str, list[str]]:
    """All text, and descriptions of the other content."""
    parts = raw.get("content")
    texts: list[str] = []
    described: list[str] = []
    for part in parts[:MAX_PARTS] if isinstance(parts, list) else []:
        text, note = _part(part) if isinstance(part, dict) else ("", "content of an unknown kind")
        if text:
            texts.append(text)
        if note:
            described.append(note)
            texts.append(f"[{note}]")
    if isinstance(parts, list) and len(parts) > MAX_PARTS:
        described.append(f"{len(parts) - MAX_PARTS} more parts")
    return "\n".join(sanitize_text(text) for text in texts), described[:50]


def _part(part: Mapping[str, Any]) -> tuple[str, str]:
    match part:
        case {"type": "text", "text": str() as text}:
            return text, ""
        case {"type": "image" | "audio" as kind, "data": str() as data}:
            return "", _blob(str(kind), part.get("mimeType"), data)
        case {"type": "resource", "resource": {"text": str() as text} as resource}:
            return f"{_named(resource)}\n{text}", ""
        case {"type": "resource", "resource": {"blob": str() as data} as resource}:
            return "", f"{_blob('file', resource.get('mimeType'), data)} {_named(resource)}"
        case {"type": "resource_link"}:
            about = to_visible_line(str(part.get("description") or part.get("title") or ""), MAX_NOTE_CHARS)
            return f"link: {_named(part)}{f' ({about})' if about else ''}", ""
        case _:
            return "", f"a part of kind {to_visible_line(str(part.get('type')), 40)}"


def _blob(kind: str, mime: Any, data: str) -> str:
    shown = to_visible_line(str(mime or "unknown"), 60)
    return f"{kind} of type {shown}, {len(data) * 3 // 4} bytes, not shown"


def _named(resource: Mapping[str, Any]) -> str:
    return to_visible_line(str(resource.get("uri") or resource.get("name") or ""), MAX_NOTE_CHARS)
