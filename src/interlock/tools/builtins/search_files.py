"""Searches the content of files, with ripgrep.

rg reports the positions of matches. The lines are read here, through the root's descriptor: whatever
another process does to the tree meanwhile, no text from outside the roots is shown.
"""

import os
import stat
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pydantic import Field

from interlock.core.errors import ErrorCode, ToolError
from interlock.redaction.redactor import Redactor
from interlock.sandbox.hard_link_check import HardLinkCheck
from interlock.sandbox.helper_program import confined, running
from interlock.sandbox.jobs import SandboxBackend, SandboxUnavailable
from interlock.sandbox.paths import PathResolver, ResolvedPath
from interlock.tools.arguments import ToolArguments
from interlock.tools.files.base import (
    MAX_PAGE,
    READING_MODES,
    Cursor,
    PathText,
    judge_paths,
    tool_error_from_oserror,
)
from interlock.tools.files.cursor import cursor_subject, make_cursor, number_in, read_cursor
from interlock.tools.files.glob_arguments import judged_pattern
from interlock.tools.files.line_excerpts import LineExcerptReader
from interlock.tools.files.ripgrep import (
    EarlierMatches,
    SearchMatches,
    SearchQuery,
    StartProgram,
    find_matches,
)
from interlock.tools.files.suggestions import not_found_error
from interlock.tools.paging import LinePage, page_limits
from interlock.tools.result import ToolResult
from interlock.tools.threads import run_in_thread
from interlock.tools.tool import Effect, PolicySwitch, ToolContext, ToolGroup, ToolLimits, TypedTool

DEFAULT_LIMIT = 500

# How many files without lines are listed by name.
_NAMED = 10


@dataclass(frozen=True, slots=True)
class _Plan:
    place: ResolvedPath
    query: SearchQuery
    limit: int
    passed: EarlierMatches
    subject: str


class SearchFilesArguments(ToolArguments):
    path: PathText = Field(default=".", description="A folder or a file. Default: the first opened folder.")
    pattern: str = Field(
        min_length=1,
        max_length=10_000,
        description="A regular expression (Rust syntax), case-sensitive; (?i) ignores case.",
    )
    glob: str | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="Search only files with matching names: *.py, *.{js,ts}, src/**/*.ts.",
    )
    limit: int = Field(
        default=DEFAULT_LIMIT,
        ge=1,
        le=MAX_PAGE,
        description=f"The maximum number of lines. Default: {DEFAULT_LIMIT}.",
    )
    cursor: Cursor | None = None


class SearchFilesTool(TypedTool):
    name = "search_files"
    aliases = ("grep", "fs.search")
    description = (
        "Search the content of files for a regular expression and return each matching line "
        "as file:line:text, including hidden files. Files that .gitignore excludes are "
        "searched only if path names them; .git is never searched."
    )
    arguments = SearchFilesArguments
    group = ToolGroup.code
    allowed_modes = READING_MODES
    effect = Effect.read
    switches = frozenset({PolicySwitch.fs})
    needs = frozenset({"roots", "program:rg"})

    def __init__(self, redactor: Redactor, program: Path | None, backend: SandboxBackend | None) -> None:
        self._backend = backend
        self._redactor = redactor
        self._program = program

    def limits_text(self, limits: ToolLimits) -> str:
        return f"{page_limits(limits)[:-1]}, for files of at most {limits.max_read_bytes} bytes."

    async def prepare(self, arguments: SearchFilesArguments, context: ToolContext) -> _Plan:
        return await judge_paths(arguments, context, self._judge)

    def _judge(
        self, arguments: SearchFilesArguments, resolver: PathResolver, context: ToolContext
    ) -> _Plan:
        place = resolver.find(arguments.path)
        pattern, glob = arguments.pattern, arguments.glob
        if "\0" in pattern:
            raise ToolError(
                ErrorCode.INVALID_ARGS,
                "pattern: it must not contain a null character",
                "Correct the pattern.",
            )
        chosen = None if glob is None else judged_pattern(glob, "glob", place, resolver)
        _require_searchable(resolver, place)
        subject = cursor_subject("search", place.path, pattern, glob)
        passed = EarlierMatches()
        if cursor := arguments.cursor:
            digest, position = read_cursor(cursor, subject)
            passed = EarlierMatches(number_in(position, "count"), digest)
        return _Plan(
            *(place, SearchQuery(pattern, chosen)),
            limit=min(arguments.limit, context.limits.max_output_lines),
            passed=passed,
            subject=subject,
        )

    def _start(self, context: ToolContext) -> StartProgram:
        if self._backend is None:
            return running
        return partial(confined, self._backend, context.profile)

    async def execute(self, prepared: _Plan, context: ToolContext) -> ToolResult:
        resolver, plan = PathResolver(context.profile), prepared
        try:
            folder, target = await run_in_thread(
                context.cancel, lambda: _opened(resolver, plan.place), lambda opened: os.close(opened[0])
            )
        except OSError as error:
            raise tool_error_from_oserror(error, resolver.shown(plan.place)) from error
        try:
            found = await find_matches(
                *(self._start(context), self._program, folder, target, plan.query),
                limit=plan.limit,
                passed=plan.passed,
            )
            return await run_in_thread(
                context.cancel, lambda: self._page(folder, target, found, plan, resolver, context)
            )
        except SandboxUnavailable as error:
            raise ToolError(
                ErrorCode.TOOL_NOT_AVAILABLE,
                f"the search could not be confined: {error}",
                "Tell the user.",
            ) from error
        finally:
            os.close(folder)

    def _page(
        self,
        folder: int,
        target: str,
        found: SearchMatches,
        plan: _Plan,
        resolver: PathResolver,
        context: ToolContext,
    ) -> ToolResult:
        def shown(file: str) -> str:
            return resolver.shown(plan.place, () if target else tuple(file.split("/")))

        page = LinePage(context.limits, self._redactor, max_lines=plan.limit)
        passed = plan.passed
        names = HardLinkCheck(resolver)
        reader = LineExcerptReader(
            *(folder, names, self._redactor, context.cancel.check),
            max_bytes=context.limits.max_read_bytes,
        )
        with closing(reader) as lines:
            for match in found.matches:
                text = lines.text_of(match)
                if text is not None and not page.add(
                    f"{shown(match.file)}:{match.line}:{text}",
                    file_bytes=len(text.encode("utf-8", "replace")),
                    redacted=lines.redacted,
                ):
                    break
                passed = passed.and_then(match)
        has_more = found.has_more or page.is_full
        return ToolResult(
            stdout=page.text,
            stderr=_notes(found, [shown(file) for file in found.binary]),
            truncated_lines=page.truncated_lines or (found.has_more and not page.is_full),
            truncated_bytes=page.truncated_bytes,
            next_page_cursor=make_cursor(plan.subject, passed.digest, {"count": passed.count})
            if has_more
            else None,
            meta={"path": resolver.shown(plan.place), "matches": len(page)},
            redacted=page.redacted,
        )


def _notes(found: SearchMatches, binary: list[str]) -> str:
    notes = [
        f"{file} is a binary file; it matches, but not everything can be shown\n"
        for file in binary[:_NAMED]
    ]
    if len(binary) > _NAMED:
        notes.append(f"{len(binary) - _NAMED} other binary files match too\n")
    if not found.could_read_all:
        notes.append("some files or folders could not be read and were not searched\n")
    return "".join(notes)


def _require_searchable(resolver: PathResolver, place: ResolvedPath) -> None:
    """Refuse, before any intent is recorded, if the path is missing or has no lines."""
    try:
        descriptor = resolver.open(place, os.O_PATH)
    except FileNotFoundError:
        raise not_found_error(resolver, place) from None
    try:
        kind = os.fstat(descriptor).st_mode
    finally:
        os.close(descriptor)
    if not (stat.S_ISDIR(kind) or stat.S_ISREG(kind)):
        raise ToolError(
            ErrorCode.EXECUTION_ERROR,
            f"{resolver.shown(place)} is not a regular file (a pipe, a socket or a device)",
            "Choose a regular file or a folder.",
            is_an_answer=True,
        )


def _opened(resolver: PathResolver, place: ResolvedPath) -> tuple[int, str]:
    """The directory to search, or the directory and name of a single file."""
    try:
        return resolver.open(place, os.O_RDONLY | os.O_DIRECTORY), ""
    except NotADirectoryError:
        with resolver.parent(place) as parent:
            return os.dup(parent.descriptor), parent.name
