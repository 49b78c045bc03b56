"""Tool calls from one process, in one session, through the same gates, runner and log as any other."""

import difflib
import json
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from interlock.cli.output import note, print_json_line
from interlock.cli.runtime import open_cli_runtime
from interlock.config.modes import ToolMode
from interlock.core.errors import ErrorCode
from interlock.core.threads import DaemonThreadPool
from interlock.gates.gate import ToolCall
from interlock.gates.sanitize import redact_failure
from interlock.log.hash_chain import new_event_id
from interlock.policy.authority_inputs import ModeSwitching
from interlock.policy.verdict import ModeSwitchMethod
from interlock.sessions.models import TOOL_CALL
from interlock.tools.result import ToolFailure, ToolResult
from interlock.tools.tool import ToolContext

if TYPE_CHECKING:
    from interlock.wiring import Runtime

MAX_LINE_BYTES = 16 * 1024 * 1024
_KEYS = frozenset({"id", "name", "arguments", "timeout_seconds"})


@dataclass(frozen=True, slots=True)
class CompletedToolCall:
    call_id: str
    tool_name: str
    result: ToolResult


class ToolCallSession:
    def __init__(self, runtime: "Runtime", session_id: str, mode: ToolMode | None, *, ask: bool) -> None:
        self._runtime = runtime
        self._mode = mode
        self._ask = ask
        self.session_id = session_id

    async def call(
        self, name: str, arguments: str | dict[str, Any], seconds: float | None
    ) -> CompletedToolCall:
        mode = await self._current_mode()
        authority = await self._runtime.authority(
            mode, someone_can_answer=self._ask, switching=ModeSwitching(ModeSwitchMethod.command)
        )
        call = ToolCall(f"call_{new_event_id()[-12:]}", name, arguments, seconds)
        context = ToolContext(
            self.session_id,
            report_progress=lambda text: note(f"progress  {text}"),
            follows_session=self._mode is None,
        )
        result = await self._runtime.runner.call(call, authority, context)
        return CompletedToolCall(call.call_id, authority.names.get(name, name), result)

    def without_secrets(self, refused: ToolFailure) -> ToolResult:
        """The redacted result for a line that is not a valid call."""
        failure, redacted = redact_failure(refused, self._runtime.redactor)
        return ToolResult.failed(failure, redacted=redacted)

    def with_read_first_hint(
        self, done: CompletedToolCall, arguments: str, options: list[str]
    ) -> CompletedToolCall:
        """If the file must be read first, add the command that reads it in the same session."""
        failure = done.result.failure
        if failure is None or failure.error_code is not ErrorCode.READ_REQUIRED:
            return done
        session, path = ["--session", self.session_id], json.dumps({"path": json.loads(arguments)["path"]})
        read = shlex.join(["interlock", "tool", "call", "read_file", *session, *options, "--args", path])
        step = f"First: {read}   Then repeat this call with {shlex.join(session)}"
        return replace(done, result=self.without_secrets(replace(failure, next_action=step)))

    async def needs_only_answerer(self, tool_name: str) -> bool:
        """Whether the tool would be exposed if a person could answer."""
        mode = await self._current_mode()
        now = await self._runtime.authority(mode, someone_can_answer=self._ask)
        with_somebody = await self._runtime.authority(mode)
        return tool_name in with_somebody.exposed and tool_name not in now.exposed

    def advice(self, name: str, failure: ToolFailure) -> str:
        """The most similar name among all tools. The refusal names only those of this mode."""
        if failure.error_code is not ErrorCode.TOOL_NOT_FOUND:
            return ""
        near = difflib.get_close_matches(name, [entry.tool.name for entry in self._runtime.registry], n=1)
        is_news = near and near[0] not in failure.next_action
        return f"did you mean {near[0]}? To list the tools: interlock tool list" if is_news else ""

    async def _current_mode(self) -> ToolMode:
        # Do not continue a session that was deleted in the meantime.
        await self._runtime.sessions.get(self.session_id)
        return self._mode or await self._runtime.sessions.get_mode(self.session_id)


@asynccontextmanager
async def open_tool_call_session(
    mode: ToolMode | None, roots: tuple[Path, ...] | None, session: str | None, title: str, *, ask: bool
) -> AsyncIterator[ToolCallSession]:
    """Open a new session or continue one, for tool calls."""
    async with open_cli_runtime(opened=[mode] if mode else [], roots=roots, sandboxed=True) as runtime:
        if session is None:
            first = mode or ToolMode.chat_safe
            session = (await runtime.sessions.create(opened_by=TOOL_CALL, title=title, mode=first)).id
        else:
            await runtime.sessions.get(session)
        yield ToolCallSession(runtime, session, mode, ask=ask)


async def call_json_lines(calls: ToolCallSession, default_seconds: float | None) -> None:
    """Print one result per line, in order, also for lines that are not valid calls."""
    threads = DaemonThreadPool("interlock-input")
    while line := await threads.start(_read_line):
        if not line.strip():
            continue
        identity, request = _parsed(line)
        if isinstance(request, ToolFailure):
            result = calls.without_secrets(request)
        else:
            seconds = request.get("timeout_seconds", default_seconds)
            result = (await calls.call(request["name"], request.get("arguments", {}), seconds)).result
        print_json_line({"id": identity, "result": result.as_dict()})


def _read_line() -> bytes:
    """Read a line; empty at the end of the input. The rest of an overlong line is discarded."""
    stream = sys.stdin.buffer
    line = stream.readline(MAX_LINE_BYTES)
    if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
        while (rest := stream.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
            pass
        return b"\x00"
    return line


def _parsed(line: bytes) -> tuple[Any, dict[str, Any] | ToolFailure]:
    """The line's id, and its call or what is wrong with it."""
    if line == b"\x00":
        return None, _no_call(f"the line is longer than {MAX_LINE_BYTES} bytes")
    try:
        request = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return _identity_of(line), _no_call(f"the line is not valid JSON: {error}")
    if not isinstance(request, dict):
        return None, _no_call("the line is not a JSON object")
    identity = request.get("id")
    if fault := _fault(request):
        return identity, _no_call(fault)
    return identity, request


def _identity_of(line: bytes) -> Any:
    """The id of a line that contains a lone surrogate, so that its result can be matched."""
    try:
        identity = json.loads(line)["id"]
        orjson.dumps(identity)
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return identity


def _fault(request: dict[str, Any]) -> str | None:
    if unknown := sorted(set(request) - _KEYS):
        return f"unknown key '{unknown[0]}'; a call has the keys id, name, arguments and timeout_seconds"
    if not isinstance(request.get("name"), str):
        return "name: must be the name of a tool"
    if not isinstance(request.get("arguments", {}), dict | str):
        return "arguments: must be a JSON object"
    seconds = request.get("timeout_seconds", 1)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return "timeout_seconds: must be a number"
    return None


def _no_call(message: str) -> ToolFailure:
    return ToolFailure(
        error_code=ErrorCode.INVALID_ARGS,
        error_class=ErrorCode.INVALID_ARGS.error_class,
        tool_name="",
        mode="",
        message=message,
        next_action='Write one call per line: {"id": …, "name": …, "arguments": {…}}.',
    )
