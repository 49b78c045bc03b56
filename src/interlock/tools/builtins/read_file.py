"""Reads a text file, a page at a time. The span shown and its hash go into the call's event."""

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from interlock.core.errors import ErrorCode, ToolError
from interlock.redaction.redactor import Redactor
from interlock.sandbox.file_io import OpenFile, open_file
from interlock.sandbox.hard_link_check import HardLinkCheck
from interlock.sandbox.page_cache_reader import find_cached
from interlock.sandbox.paths import PathResolver, ResolvedPath
from interlock.tools.arguments import ToolArguments
from interlock.tools.files.base import READING_MODES, Cursor, FilePath, FileTool
from interlock.tools.files.cursor import (
    cursor_subject,
    invalid_cursor,
    make_cursor,
    number_in,
    optional_number_in,
    read_cursor,
    stale_cursor,
)
from interlock.tools.files.directory_listing import list_page
from interlock.tools.files.line_excerpts import find_line
from interlock.tools.files.suggestions import not_found_error
from interlock.tools.files.text_format import HEAD_BYTES, TextFormat, binary_file_error, detect_text_format
from interlock.tools.paging import PageRequest, TextPage, page_limits, read_text_page
from interlock.tools.result import FileTouch, ToolResult
from interlock.tools.tool import Effect, ToolContext, ToolLimits

MAX_OFFSET = 2**53


@dataclass(frozen=True, slots=True)
class _Plan:
    place: ResolvedPath
    offset: int | None
    limit_bytes: int | None
    start_line: int | None
    line_count: int | None
    cursor: str | None

    @property
    def subject(self) -> str:
        return cursor_subject("read", self.place.path)


class ReadFileArguments(ToolArguments):
    path: FilePath
    offset: int | None = Field(
        default=None, ge=0, le=MAX_OFFSET, description="Start at this byte (the first is 0)."
    )
    limit_bytes: int | None = Field(
        default=None,
        ge=1,
        le=MAX_OFFSET,
        description="Read at most this many bytes, up to the read limit. Default: one page.",
    )
    start_line: int | None = Field(
        default=None, ge=1, le=MAX_OFFSET, description="Start at this line (the first is 1)."
    )
    line_count: int | None = Field(
        default=None, ge=1, le=MAX_OFFSET, description="Read at most this many lines."
    )
    cursor: Cursor | None = None


class ReadFileTool(FileTool[_Plan]):
    name = "read_file"
    aliases = ("read", "fs.read")
    description = (
        "Read a text file, whole or from a given line or byte. Long files are returned in "
        "pages: pass next_page_cursor as cursor to continue. For a folder, its content is "
        "listed."
    )
    arguments = ReadFileArguments
    allowed_modes = READING_MODES
    effect = Effect.read

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def limits_text(self, limits: ToolLimits) -> str:
        return f"{page_limits(limits)} limit_bytes allows more at once, up to {limits.max_read_bytes}."

    async def prepare(self, arguments: ReadFileArguments, context: ToolContext) -> _Plan | ToolResult:
        """A small cached file is read at once, without a thread and with a single commit."""
        resolver = PathResolver(context.profile)
        found = find_cached(resolver, arguments.path)
        if found is None:
            return await super().prepare(arguments, context)
        place, file = found
        plan = _plan(place, arguments, context)
        if file is not None:
            # `execute` reports the error.
            with suppress(ToolError):
                return self._read(file, plan, resolver.shown(place), context)
        return plan

    def judge(self, arguments: ReadFileArguments, resolver: PathResolver, context: ToolContext) -> _Plan:
        return _plan(resolver.find(arguments.path), arguments, context)

    def work(self, plan: _Plan, resolver: PathResolver, context: ToolContext) -> ToolResult:
        try:
            with open_file(resolver, plan.place) as file:
                HardLinkCheck(resolver).refuse_outside(file, resolver.shown(plan.place))
                return self._read(file, plan, resolver.shown(plan.place), context)
        except FileNotFoundError:
            raise not_found_error(resolver, plan.place) from None
        except IsADirectoryError:
            return list_page(resolver, plan.place, context, self._redactor, cursor=plan.cursor)

    def _read(self, file: OpenFile, plan: _Plan, shown: str, context: ToolContext) -> ToolResult:
        limits = context.limits
        source = _Source(file, limits)
        form = detect_text_format(source.head, is_whole=len(source.head) == file.size)
        if form is None:
            raise binary_file_error(shown, file.size, source.head)
        begin = _begin(plan, file, form, context)
        request = PageRequest(
            start=begin.offset,
            max_bytes=plan.limit_bytes or min(limits.max_output_bytes, limits.max_read_bytes),
            max_lines=_most_lines(plan, limits),
            whole_lines=plan.limit_bytes is None,
        )
        page = read_text_page(source.read, file.size, form, request, self._redactor)
        cursor = None if page.is_last else make_cursor(plan.subject, file.version, begin.behind(page))
        return ToolResult(
            stdout=page.text,
            truncated_lines=not page.is_last and page.cut_by_lines,
            truncated_bytes=not page.is_last and not page.cut_by_lines,
            next_page_cursor=cursor,
            meta=_meta(shown, file, form, page, begin.line),
            touched=(source.touch(plan.place.spelled, page, form),),
            redacted=page.redacted,
        )


def _most_lines(plan: _Plan, limits: ToolLimits) -> int:
    """A request for bytes gets as many lines as they have."""
    page = plan.limit_bytes or limits.max_output_lines
    return min(plan.line_count or page, page)


class _Source:
    """A small file is read once and whole, so that a page and the hash of the file belong together."""

    def __init__(self, file: OpenFile, limits: ToolLimits) -> None:
        self._file = file
        self._whole = file.read(0, file.size) if file.size <= limits.max_read_bytes else None
        self.head = (self._whole if self._whole is not None else file.read(0, HEAD_BYTES))[:HEAD_BYTES]
        self._window: tuple[int, bytes] | None = None

    def read(self, offset: int, count: int) -> bytes:
        if self._whole is not None:
            return self._whole[offset : offset + count]
        found = self._file.read(offset, count)
        if self._window is None:
            # Keep it, so that the hash is of the bytes shown. Later reads are only for looking ahead.
            self._window = (offset, found)
        return found

    def touch(self, path: str, page: TextPage, form: TextFormat) -> FileTouch:
        seen_from = 0 if page.start <= len(form.mark) else page.start
        data, hashed = self._whole, (0, len(self._whole or b""))
        if data is None:
            left, window = self._window or (0, b"")
            mark = b"" if seen_from else form.mark
            data, hashed = mark + window[page.start - left : page.end - left], (seen_from, page.end)
        return FileTouch(
            path=path,
            action="read",
            sha256=hashlib.sha256(data).hexdigest(),
            hashed_from=hashed[0],
            hashed_to=hashed[1],
            seen_from=seen_from,
            seen_to=page.end,
        )


@dataclass(frozen=True, slots=True)
class _Begin:
    """The byte to start at, its line if known, and the start that the first page requested."""

    offset: int
    line: int | None
    asked_offset: int | None
    asked_line: int | None

    def behind(self, page: TextPage) -> dict[str, int | None]:
        line = None if self.line is None else self.line + page.line_ends
        asked = {"asked_offset": self.asked_offset, "asked_line": self.asked_line}
        return {"offset": page.end, "line": line, **asked}


def _plan(place: ResolvedPath, arguments: ReadFileArguments, context: ToolContext) -> _Plan:
    plan = _Plan(
        place=place,
        offset=arguments.offset,
        limit_bytes=arguments.limit_bytes,
        start_line=arguments.start_line,
        line_count=arguments.line_count,
        cursor=arguments.cursor,
    )
    if plan.offset is not None and plan.start_line is not None:
        raise ToolError(
            ErrorCode.INVALID_ARGS, "offset and start_line both set the start", "Give only one of them."
        )
    if plan.limit_bytes is not None and plan.limit_bytes > context.limits.max_read_bytes:
        raise ToolError(
            ErrorCode.LIMIT_EXCEEDED,
            f"limit_bytes: {plan.limit_bytes} exceeds the read limit of "
            f"{context.limits.max_read_bytes} bytes",
            "Read it in smaller parts.",
        )
    return plan


def _begin(plan: _Plan, file: OpenFile, form: TextFormat, context: ToolContext) -> _Begin:
    if plan.cursor is not None:
        return _continued(plan, plan.cursor, file)
    offset, line = plan.offset or 0, None if plan.offset else 1
    if plan.start_line is not None:
        offset, line = _offset_of_line(file, form, plan.start_line, context), plan.start_line
    elif offset > file.size:
        raise ToolError(
            ErrorCode.INVALID_ARGS,
            f"offset: {offset} is past the end of the file ({file.size} bytes)",
            "Start earlier in the file.",
        )
    return _Begin(offset, line, plan.offset, plan.start_line)


def _continued(plan: _Plan, cursor: str, file: OpenFile) -> _Begin:
    """The start from a cursor; the arguments of its first page may be repeated."""
    version, position = read_cursor(cursor, plan.subject)
    begin = _Begin(
        number_in(position, "offset"),
        *(optional_number_in(position, name) for name in ("line", "asked_offset", "asked_line")),
    )
    if plan.offset not in {None, begin.asked_offset} or plan.start_line not in {None, begin.asked_line}:
        raise invalid_cursor("it sets the start, and so does another argument")
    if version != file.version:
        raise stale_cursor(
            "the file", "Start again without a cursor, or continue with offset or start_line."
        )
    return begin


def _offset_of_line(file: OpenFile, form: TextFormat, number: int, context: ToolContext) -> int:
    found = find_line(file, form, number, context.cancel.check)
    # There is no line after the last line end, unless the file is empty.
    if found.number == number and (number == 1 or found.offset < file.size):
        return found.offset
    lines = found.number - (found.offset >= file.size)
    raise ToolError(
        ErrorCode.INVALID_ARGS,
        f"start_line: {number} is past the end of the file ({lines} lines)",
        "Start earlier in the file.",
    )


def _meta(shown: str, file: OpenFile, form: TextFormat, page: TextPage, line: int | None) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "path": shown,
        "size_bytes": file.size,
        "offset": page.start,
        "next_offset": page.end,
        "lines": page.lines,
    }
    if line is not None:
        meta["start_line"] = line
    if form.encoding != "utf-8" or form.mark:
        meta["encoding"] = form.encoding + (" with byte order mark" if form.mark else "")
    if form.line_ending == "\r\n":
        meta["line_ending"] = "CRLF"
    return meta
