"""A foreign tool as a `BaseTool`: called only while its definition is the one that was classified.

Nothing in a result is an instruction. Text is shown; other content is described; content that the protocol
does not have is reported as such. The runner redacts and limits it like any other result.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.text import sanitize_text, to_json_value, to_visible_line
from interlock.sandbox.protected_snapshot import NOT_PUT_BACK
from interlock.tools.arguments import SchemaParser, is_too_deep
from interlock.tools.mcp.definition import (
    McpToolDefinition,
    StoredMcpTool,
    definition_problem,
    exposed_name,
)
from interlock.tools.mcp.schema import checked_schema, max_value_bytes
from interlock.tools.mcp.server import McpServerConfig, McpServerError
from interlock.tools.result import ToolFailure, ToolResult
from interlock.tools.tool import (
    BaseTool,
    Effect,
    ExternalCode,
    PolicySwitch,
    TimeLimit,
    ToolContext,
    ToolGroup,
    ToolLimits,
    ToolMode,
)

if TYPE_CHECKING:
    from interlock.tools.mcp.connection import McpConnection
    from interlock.tools.mcp.service import McpService

# The minimum interval between progress reports of a call.
PROGRESS_SECONDS = 1.0
MAX_TOLD = 50
MAX_PARTS = 1_000
MAX_NOTE_CHARS = 300


class McpTool(BaseTool):
    """A classified tool. `unavailable` is why it cannot be used nevertheless."""

    def __init__(
        self, server: McpServerConfig, known: StoredMcpTool, unavailable: str, service: "McpService"
    ) -> None:
        self._server = server
        self._known = known
        self._service = service
        definition = known.definition
        self._parameters: Mapping[str, Any] = {"type": "object"}
        # It may have been checked by an older version that refused less.
        if definition is not None and (fault := definition_problem(definition)):
            unavailable = unavailable or fault
        elif definition is not None:
            self._parameters = checked_schema(definition.schema)
        self._external = ExternalCode(
            server=server.id,
            unavailable=unavailable,
            # Through the sandbox. A URL is requested by Interlock itself, and listed as a server.
            uses_network=server.network,
            # One process serves all sessions, so it has the ports that the operator opened, not a caller's.
            network_ports=service.pool.ceiling.profile(server).network_ports,
            undeclared_hint=_review_hint(server.id, known.name),
        )

    @property
    def name(self) -> str:
        return exposed_name(self._server.id, self._known.name)

    @property
    def description(self) -> str:
        definition = self._known.definition
        said = definition.shown_description if definition else ""
        return f"(a tool of the MCP server {self._server.id}, in its own words) {said}".strip()

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self._parameters

    @property
    def group(self) -> ToolGroup:
        return self._known.given.group if self._known.given else ToolGroup.mcp

    @property
    def effect(self) -> Effect:
        return self._known.given.effect if self._known.given else Effect.exec

    @property
    def allowed_modes(self) -> frozenset[ToolMode]:
        return self._known.given.modes if self._known.given else frozenset()

    @property
    def switches(self) -> frozenset[PolicySwitch]:
        files = {PolicySwitch.fs} if self._server.reads_folders else set()
        return frozenset({PolicySwitch.mcp, *files})

    @property
    def external(self) -> ExternalCode:
        return self._external

    def parser(self) -> SchemaParser:
        """By its server's schema, which was checked and is shown as the server wrote it."""
        return SchemaParser(self._parameters, max_value_bytes(self._parameters))

    def time_limit(self, arguments: Mapping[str, Any], limits: ToolLimits) -> TimeLimit:  # noqa: ARG002
        return TimeLimit(limits.timeout_seconds, enforced_by_tool=True)

    async def execute(self, prepared: Mapping[str, Any], context: ToolContext) -> ToolResult:
        used: list[McpConnection] = []
        try:
            async with asyncio.timeout(context.timeout_seconds):
                return _with_restored(await self._called(prepared, context, used), used)
        except TimeoutError:
            unknown = "; it is not known whether it took effect" if context.cancel.took_effect else ""
            raise ToolError(
                ErrorCode.TIMEOUT,
                f"{self._server.id} did not respond within {context.timeout_seconds:g} seconds{unknown}"
                + _restored_clause(used),
                "Check whether it took effect before you call it again."
                if unknown
                else "Continue without it, or tell the user that the server does not respond.",
            ) from None
        except McpServerError as error:
            raise self._tool_error(error, context, used) from error

    async def _called(
        self, arguments: Mapping[str, Any], context: ToolContext, used: "list[McpConnection]"
    ) -> ToolResult:
        pool, definition = self._service.pool, self._known.definition
        await self._make_sure_of_the_class()
        async with pool.using(self._server) as (connection, state):
            used.append(connection)
            await self._make_sure_of_the_pin(await connection.tools())
            context.cancel.begin_effect()
            try:
                raw = await connection.call(self._known.name, arguments, _Progress(context).report)
            except asyncio.CancelledError:
                pool.abandon(state, connection)
                raise
            state.failures = 0
        if definition is None:
            raise McpServerError("its definition is unknown")
        return to_tool_result(raw, definition, self.name, context.mode.value, self._server.id)

    async def _make_sure_of_the_class(self) -> None:
        """Check that the class was not removed or changed since this turn began."""
        server = (await self._service.repository.catalog()).servers.get(self._server.id)
        known = server.tools.get(self._known.name) if server is not None else None
        if known is None or server is None or server.server != self._server:
            raise self._gone("its server was removed or changed in the meantime")
        if known.given != self._known.given or known.hash != self._known.hash:
            raise self._gone("it was changed or reclassified in the meantime")

    async def _make_sure_of_the_pin(self, found: Sequence[McpToolDefinition]) -> None:
        """Check that the server's current definition is exactly the one that was reviewed."""
        same = [definition for definition in found if definition.name == self._known.name]
        await self._service.record_listing(self._server.id, found)
        if not same:
            raise self._gone(f"the server {self._server.id} no longer offers it")
        if len(same) > 1 or same[0].hash != self._known.hash:
            raise self._gone("its definition is not the one that was classified")

    def _gone(self, reason: str) -> ToolError:
        return ToolError(
            ErrorCode.TOOL_NOT_AVAILABLE,
            f"{self.name} is not available: {reason}",
            "Tell the user that it must be reviewed and classified again (interlock mcp inspect "
            f"{self._server.id}), and continue without it.",
        )

    def _tool_error(
        self, error: McpServerError, context: ToolContext, used: "list[McpConnection]"
    ) -> ToolError:
        unknown = context.cancel.took_effect and not error.is_answer
        trouble = "" if error.is_answer else f"the MCP server {self._server.id} failed: "
        return ToolError(
            ErrorCode.EXECUTION_ERROR,
            f"{self.name}: {trouble}{error}{_restored_clause(used)}",
            "It is not known whether it took effect: check that first."
            if unknown
            else "Try a different approach, or tell the user that the server is broken.",
            is_an_answer=error.is_answer,
        )


def _review_hint(server: str, name: str) -> str:
    return (
        "Not reviewed yet; the operator can classify it with interlock mcp allow "
        f"{server} {to_visible_line(name, 64)}. Continue without it."
    )


class _Progress:
    """Reports a server's progress, at intervals and shortened."""

    def __init__(self, context: ToolContext) -> None:
        self._report = context.report_progress
        self._loop = asyncio.get_running_loop()
        self._next = 0.0

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        if self._loop.time() < self._next:
            return
        self._next = self._loop.time() + PROGRESS_SECONDS
        done = f"{progress:g} of {total:g}" if total else f"{progress:g}"
        self._report(to_visible_line(f"{message} ({done})" if message else done, 200))


def _with_restored(result: ToolResult, used: "list[McpConnection]") -> ToolResult:
    """Add a note for the model about protected files that were restored."""
    restored = _restored(used)
    if not restored:
        return result
    told = "".join(f"{line}\n" for line in _restored_lines(restored))
    return replace(result, stderr=told + result.stderr, meta={**result.meta, "restored": restored})


def _restored_clause(used: "list[McpConnection]") -> str:
    """The same for a call without a result."""
    return "".join(f"; {line}" for line in _restored_lines(_restored(used)))


def _restored_lines(restored: list[str]) -> list[str]:
    return [
        f"changed: {path} is protected; tell the user"
        if path.endswith(NOT_PUT_BACK)
        else f"restored: {path} is protected; the change was undone"
        for path in restored
    ]


def _restored(used: "list[McpConnection]") -> list[str]:
    return [path for opened in used for path in opened.restored][:MAX_TOLD]


# -- results --


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
