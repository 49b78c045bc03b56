"""The base of shell tools: judges a command, runs it in the sandbox, and pages its output."""

import os
import re
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from interlock.core.errors import ErrorClass, ErrorCode, ToolError
from interlock.log.kinds import ProtectedRestoredInCall
from interlock.log.writer import EventLog
from interlock.redaction.redactor import Redactor
from interlock.sandbox.jobs import ExitReason, JobLimits, SandboxBackend, SandboxUnavailable
from interlock.sandbox.paths import PathResolver, ResolvedPath
from interlock.sandbox.protected_snapshot import NOT_PUT_BACK, ProtectedSnapshot
from interlock.tools.arguments import ToolArguments
from interlock.tools.files.base import PathText, tool_error_from_oserror
from interlock.tools.files.cursor import (
    cursor_subject,
    invalid_cursor,
    make_cursor,
    number_in,
    read_cursor,
    stale_cursor,
)
from interlock.tools.files.directory_listing import require_directory
from interlock.tools.files.text_format import TextFormat
from interlock.tools.paging import PageRequest, TextPage, page_limits, read_text_page
from interlock.tools.result import ToolFailure, ToolResult
from interlock.tools.shell.command_runner import (
    ProgressReporter,
    ShellCommandExit,
    private_directory,
    run_command,
)
from interlock.tools.shell.output_spool import OutputSpool, SpooledOutput, SpooledStream
from interlock.tools.threads import CancelSignal, run_in_thread, run_in_thread_abandonable
from interlock.tools.tool import (
    ExternalCode,
    PolicySwitch,
    TimeLimit,
    ToolContext,
    ToolGroup,
    ToolLimits,
    TypedTool,
)

if TYPE_CHECKING:
    from interlock.commands.judge import CommandJudge


# Of restored paths.
MAX_TOLD = 50

# Other processes keep files there, so a command has its own directory instead.
_SHARED_TEMPORARY = re.compile(
    r"(?<![\w/])/(?:var/)?tmp\b[^\n]{0,300}: Permission denied|Permission denied: ['\"]/(?:var/)?tmp\b"
)


@dataclass(frozen=True, slots=True)
class ShellServices:
    """The services of the shell tools. `backend` is None if no sandbox is available."""

    backend: SandboxBackend | None
    bash: Path | None
    redactor: Redactor
    outputs: OutputSpool
    limits: JobLimits
    log: EventLog | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    place: ResolvedPath
    command: str
    cursor: str | None

    @property
    def subject(self) -> str:
        return cursor_subject("shell", self.place.path, self.command)


class ShellArguments(ToolArguments):
    cmd: str = Field(min_length=1, max_length=100_000, description="The bash command line.")
    workdir: PathText = Field(
        default=".", description="The working folder. Default: the first opened folder."
    )
    timeout_seconds: float | None = Field(
        default=None,
        gt=0,
        le=86_400,
        description="The time limit. The operator sets the default and the maximum.",
    )
    cursor: PathText | None = Field(
        default=None, description="Continues the output of an earlier command; runs nothing."
    )


class ShellTool(TypedTool):
    """`bash` and `bash_readonly` differ only in what the kernel allows them."""

    arguments = ShellArguments
    group = ToolGroup.code
    switches = frozenset({PolicySwitch.shell})
    needs = frozenset({"roots", "program:bash", "sandbox"})
    external = ExternalCode()
    may_write = False

    def __init__(self, services: ShellServices) -> None:
        self._services = services

    def limits_text(self, limits: ToolLimits) -> str:
        return page_limits(limits)

    def time_limit(self, arguments: ShellArguments, limits: ToolLimits) -> TimeLimit:
        return TimeLimit(arguments.timeout_seconds or limits.timeout_seconds, enforced_by_tool=True)

    async def prepare(self, arguments: ShellArguments, context: ToolContext) -> _Plan:
        resolver, command = PathResolver(context.profile), arguments.cmd
        if "\0" in command:
            raise ToolError(ErrorCode.INVALID_ARGS, "cmd: must not contain a null character", "Correct it.")

        def judge() -> _Plan:
            asked = arguments.workdir
            try:
                place = resolver.find(asked)
                require_directory(resolver, place)
            except OSError as error:
                raise tool_error_from_oserror(error, asked) from error
            _check_command(command, place, context)
            return _Plan(place, command, arguments.cursor)

        return await run_in_thread_abandonable(context.cancel, judge)

    async def execute(self, prepared: _Plan, context: ToolContext) -> ToolResult:
        if prepared.cursor is not None:
            return await run_in_thread(context.cancel, lambda: self._continued(prepared, context))
        outputs = self._services.outputs
        session_id = context.session_id
        output = await run_in_thread(
            *(context.cancel, lambda: outputs.begin(session_id), partial(outputs.let_go, session_id))
        )
        is_wanted = False
        try:
            ran, restored = await self._run(prepared, output, context)
            result, is_whole = self._result(prepared, output, ran, _with_room(context, restored))
            is_wanted = not is_whole
        finally:
            if is_wanted:
                outputs.keep(session_id, output)
            else:
                # Shown whole, or never: no cursor refers to it.
                outputs.let_go(session_id, output)
        return _with_restored(result, restored)

    async def _run(
        self, plan: _Plan, output: SpooledOutput, context: ToolContext
    ) -> tuple[ShellCommandExit, list[str]]:
        backend, bash = self._services.backend, self._services.bash
        if backend is None or bash is None:
            raise ToolError(ErrorCode.TOOL_NOT_AVAILABLE, "there is no sandbox here", "Tell the user.")
        profile = context.profile
        if not self.may_write:
            profile = replace(profile, writable_roots=(), network_ports=frozenset())
        # A read-only command needs no snapshot.
        guard = ProtectedSnapshot(profile, plan.place)
        try:
            await run_in_thread(context.cancel, guard.remember)
            ran = await self._run_confined(plan, (backend, bash), output, replace(context, profile=profile))
        except SandboxUnavailable as error:
            raise ToolError(
                ErrorCode.TOOL_NOT_AVAILABLE,
                f"the command could not be confined: {error}",
                "Tell the user.",
            ) from error
        finally:
            # Also after a cancellation: the command's changes to protected names must not stay.
            restored = await run_in_thread(CancelSignal(), guard.restore)
            self._record_restored(restored, context)
        return ran, restored

    def _record_restored(self, restored: list[str], context: ToolContext) -> None:
        """Under the call, before its outcome, which follows."""
        log = self._services.log
        if not restored or log is None:
            return
        event = ProtectedRestoredInCall(
            call_id=context.call_id,
            tool_name=self.name,
            mode=context.mode.value,
            authority_digest=context.authority_digest,
            paths=restored[:MAX_TOLD],
        )
        writing = log.append(context.session_id, event, scope=context.scope, token=context.lease_token)
        # Where the store cannot be written, the outcome cannot be recorded either, and that is reported.
        writing.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    async def _run_confined(
        self,
        plan: _Plan,
        programs: tuple[SandboxBackend, Path],
        output: SpooledOutput,
        context: ToolContext,
    ) -> ShellCommandExit:
        resolver = PathResolver(context.profile)
        folder = await run_in_thread(
            context.cancel, lambda: resolver.open(plan.place, os.O_RDONLY | os.O_DIRECTORY), os.close
        )
        try:
            async with private_directory(
                context.profile.readable_roots, is_wanted=self.may_write
            ) as private:
                context.cancel.begin_effect()
                told = ProgressReporter(context.report_progress, self._services.redactor)
                return await run_command(
                    *(*programs, plan.command, folder, output, context, private, self._services.limits),
                    told,
                )
        finally:
            os.close(folder)

    # -- results --

    def _result(
        self, plan: _Plan, output: SpooledOutput, ran: ShellCommandExit, context: ToolContext
    ) -> tuple[ToolResult, bool]:
        result, is_whole = self._page(plan, output, (0, 0), context)
        ended = ran.ended
        exit_code = ended.exit_code if ended.exit_code is not None else 128 + (ended.signal or 0)
        failure = self._failure(ran, context, result.stderr)
        return replace(result, exit_code=exit_code, failure=failure), is_whole

    def _failure(self, ran: ShellCommandExit, context: ToolContext, shown: str) -> ToolFailure | None:
        ended = ran.ended
        if not ran.in_time:
            code, reason = (
                ErrorCode.TIMEOUT,
                f"the command did not finish within {context.timeout_seconds:g} seconds",
            )
            reason += "; it and all its child processes were stopped"
            step = "Give it less to do, or a longer timeout_seconds. Its output so far is shown."
        elif ended.reason is ExitReason.exited and ended.exit_code == 0:
            return None
        else:
            code, reason = ErrorCode.EXECUTION_ERROR, f"the command failed: {ended.text}"
            step = "Check its output, and try a different approach."
            if self.may_write and _SHARED_TEMPORARY.search(shown):
                step = "Use a file in the working folder, or in $TMPDIR, which is deleted afterwards."
        error_class: ErrorClass = code.error_class
        has_exited = ran.in_time and ended.reason is ExitReason.exited
        return ToolFailure(
            *(code, error_class, self.name, context.mode.value, reason, step), is_an_answer=has_exited
        )

    def _continued(self, plan: _Plan, context: ToolContext) -> ToolResult:
        name, position = read_cursor(str(plan.cursor), plan.subject)
        output = self._services.outputs.find(context.session_id, name)
        if output is None:
            raise stale_cursor("the output is no longer stored; the stored part")
        try:
            where = (number_in(position, "out"), number_in(position, "err"))
            if where[0] > output.out.size or where[1] > output.err.size:
                raise invalid_cursor("it points past the end of the output")
            return self._page(plan, output, where, context)[0]
        finally:
            output.close()

    def _page(
        self, plan: _Plan, output: SpooledOutput, start: tuple[int, int], context: ToolContext
    ) -> tuple[ToolResult, bool]:
        """A page of both streams from there on, and whether it is the last."""
        pages = [
            self._page_of(stream, offset, context.limits)
            for stream, offset in zip((output.out, output.err), start, strict=True)
        ]
        is_whole = all(page.is_last for page in pages)
        cursor = None
        if not is_whole:
            position = {"out": pages[0].end, "err": pages[1].end}
            cursor = make_cursor(plan.subject, output.name, position)
        lost = [stream.total - stream.size for stream in (output.out, output.err)]
        return (
            ToolResult(
                stdout=pages[0].text,
                stderr=pages[1].text,
                truncated_lines=any(page.cut_by_lines and not page.is_last for page in pages),
                truncated_bytes=any(not page.cut_by_lines and not page.is_last for page in pages),
                next_page_cursor=cursor,
                meta={"not_kept_bytes": sum(lost)} if any(lost) else {},
                redacted=any(page.redacted for page in pages),
            ),
            is_whole,
        )

    def _page_of(self, stream: SpooledStream, offset: int, limits: ToolLimits) -> TextPage:
        request = PageRequest(offset, limits.max_output_bytes, limits.max_output_lines, whole_lines=True)
        return read_text_page(stream.read, stream.size, TextFormat(), request, self._services.redactor)


def _check_command(command: str, place: ResolvedPath, context: ToolContext) -> None:
    # The grammar and the rules: only commands need them.
    from interlock.commands.rules import Decision

    profile = context.profile
    verdict = _judge_for(profile.denied_commands, profile.protected_names, profile.command_rules).judge(
        *(command, place.path),
        mode=context.mode.value,
        agent=context.agent,
        unknown=Decision(context.policy.shell.unknown or Decision.allow),
    )
    if verdict is not None:
        raise ToolError(ErrorCode.COMMAND_DENIED, verdict.message, verdict.next_action)


@lru_cache(maxsize=16)
def _judge_for(
    denied: tuple[str, ...], protected: tuple[str, ...], rule_files: tuple[tuple[str, str], ...]
) -> "CommandJudge":
    from interlock.commands.judge import CommandJudge

    return CommandJudge(denied, protected, Path.home(), rule_files)


def _with_room(context: ToolContext, restored: list[str]) -> ToolContext:
    """Reserve room for the note before the page: what did not fit would be on no page."""
    note, limits = _note(restored), context.limits
    room = replace(
        limits,
        max_output_lines=max(1, limits.max_output_lines - note.count("\n")),
        max_output_bytes=max(1, limits.max_output_bytes - len(note.encode("utf-8", "replace"))),
    )
    return replace(context, limits=room)


def _note(restored: list[str]) -> str:
    told = [
        f"changed: {path} is protected; tell the user\n"
        if path.endswith(NOT_PUT_BACK)
        else f"restored: {path} is protected; the change was undone\n"
        for path in restored[:MAX_TOLD]
    ]
    more = len(restored) - len(told)
    return "".join(told) + (f"restored: {more} more\n" if more else "")


def _with_restored(result: ToolResult, restored: list[str]) -> ToolResult:
    """Add a note for the model about protected files that were restored."""
    if not restored:
        return result
    meta = {**result.meta, "restored": restored[:MAX_TOLD]}
    return replace(result, stderr=_note(restored) + result.stderr, meta=meta)
