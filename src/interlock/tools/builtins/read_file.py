"""Reads a text file, a page at a time. What it showed, and the hash of it, goes into the call's event."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.infra.errors import ErrorCode, ToolError
from interlock.redaction.redactor import Redactor
from interlock.sandbox.files import OpenFile, opened_file
from interlock.sandbox.paths import Place, Territory
from interlock.tools.base import ToolContext, ToolLimits
from interlock.tools.files.base import CURSOR, PATH, ReadingTool, whole_number
from interlock.tools.files.cursor import make_cursor, number_in, read_cursor, stale_cursor, subject_of
from interlock.tools.files.listing import list_page
from interlock.tools.files.page import Page, PageRequest, read_page
from interlock.tools.files.text import HEAD_BYTES, TextForm, binary_refusal, text_form
from interlock.tools.result import FileTouch, ToolResult

MAX_OFFSET = 2**53


@dataclass(frozen=True, slots=True)
class _Plan:
    place: Place
    offset: int | None
    limit_bytes: int | None
    start_line: int | None
    line_count: int | None
    cursor: str | None

    @property
    def subject(self) -> str:
        return subject_of(self.place.path, self.limit_bytes, self.line_count)


class ReadFileTool(ReadingTool[_Plan]):
    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    @property
    def name(self) -> str:
        return "read_file"

    @property
    def aliases(self) -> tuple[str, ...]:
        return ("read", "fs.read")

    @property
    def description(self) -> str:
        return (
            "Read a text file, whole or from a line or a byte on. Long files come in pages: pass "
            "next_page_cursor as cursor to read on. A folder is listed."
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {
            "type": "object",
            "properties": {
                "path": {
                    **PATH,
                    "description": "The file, relative to the first opened folder or absolute.",
                },
                "offset": whole_number("Begin at this byte (the first is 0).", 0, MAX_OFFSET),
                "limit_bytes": whole_number("Read at most this many bytes.", 1, MAX_OFFSET),
                "start_line": whole_number("Begin at this line (the first is 1).", 1, MAX_OFFSET),
                "line_count": whole_number("Read at most this many lines.", 1, MAX_OFFSET),
                "cursor": CURSOR,
            },
            "required": ["path"],
        }

    def judge(self, arguments: Mapping[str, Any], territory: Territory, context: ToolContext) -> _Plan:
        plan = _Plan(
            place=territory.find(arguments["path"]),
            **{name: arguments.get(name) for name in _Plan.__slots__ if name != "place"},
        )
        _refuse_contradictions(plan)
        if plan.limit_bytes is not None and plan.limit_bytes > context.limits.max_read_bytes:
            raise ToolError(
                ErrorCode.LIMIT_EXCEEDED,
                f"limit_bytes: {plan.limit_bytes} is more than the {context.limits.max_read_bytes} "
                "bytes that may be read at once",
                "Read it in smaller pieces.",
            )
        return plan

    def subject(self, plan: _Plan, territory: Territory) -> str:
        return territory.shown(plan.place)

    def work(self, plan: _Plan, territory: Territory, context: ToolContext) -> ToolResult:
        try:
            with opened_file(territory, plan.place) as file:
                return self._read(file, plan, territory.shown(plan.place), context)
        except IsADirectoryError:
            return list_page(territory, plan.place, context, self._redactor)

    def _read(self, file: OpenFile, plan: _Plan, shown: str, context: ToolContext) -> ToolResult:
        source = _Source(file, context.limits)
        form = source.form()
        if form is None:
            raise binary_refusal(shown, file.size, source.head)
        start, line = _begin(plan, file, form, context)
        limits = context.limits
        request = PageRequest(
            start=start,
            max_bytes=min(
                plan.limit_bytes or limits.max_output_bytes, limits.max_output_bytes, limits.max_read_bytes
            ),
            max_lines=min(plan.line_count or limits.max_output_lines, limits.max_output_lines),
            whole_lines=plan.limit_bytes is None,
        )
        page = read_page(source.read, file.size, form, request, self._redactor)
        has_more = page.end < file.size
        position = {"offset": page.end, "line": None if line is None else line + page.text.count("\n")}
        return ToolResult(
            stdout=page.text,
            truncated_lines=has_more and page.cut_by_lines,
            truncated_bytes=has_more and not page.cut_by_lines,
            next_page_cursor=make_cursor(plan.subject, file.version, position) if has_more else None,
            meta=_meta(shown, file, form, page, line),
            touched=(source.touch(str(plan.place.path), page, form),),
        )


class _Source:
    """A small file is read once and whole, so that a page and the hash of it all belong together."""

    def __init__(self, file: OpenFile, limits: ToolLimits) -> None:
        self._file = file
        self._whole = file.read(0, file.size) if file.size <= limits.max_read_bytes else None
        self.head = (self._whole if self._whole is not None else file.read(0, HEAD_BYTES))[:HEAD_BYTES]

    def form(self) -> TextForm | None:
        if self._whole is not None:
            return text_form(self._whole, is_whole=True)
        return text_form(self.head, is_whole=False)

    def read(self, offset: int, count: int) -> bytes:
        return (
            self._file.read(offset, count) if self._whole is None else self._whole[offset : offset + count]
        )

    def touch(self, path: str, page: Page, form: TextForm) -> FileTouch:
        seen_from = 0 if page.start <= len(form.mark) else page.start
        hashed = (0, len(self._whole)) if self._whole is not None else (seen_from, page.end)
        data = self._whole if self._whole is not None else self._file.read(seen_from, page.end - seen_from)
        return FileTouch(
            path=path,
            action="read",
            sha256=hashlib.sha256(data).hexdigest(),
            hashed_from=hashed[0],
            hashed_to=hashed[1],
            seen_from=seen_from,
            seen_to=page.end,
        )


def _refuse_contradictions(plan: _Plan) -> None:
    given = {name for name in ("offset", "start_line", "cursor") if getattr(plan, name) is not None}
    if len(given) > 1:
        raise ToolError(
            ErrorCode.INVALID_ARGS,
            f"{' and '.join(sorted(given))} each say where to begin",
            "Give one of them.",
        )


def _begin(plan: _Plan, file: OpenFile, form: TextForm, context: ToolContext) -> tuple[int, int | None]:
    """The byte to begin at, and its line where that is known."""
    if plan.cursor is not None:
        version, position = read_cursor(plan.cursor, plan.subject)
        if version != file.version:
            raise stale_cursor("the file")
        line = None if position.get("line") is None else number_in(position, "line")
        return number_in(position, "offset"), line
    if plan.start_line is not None:
        return _offset_of_line(file, form, plan.start_line, context), plan.start_line
    if plan.offset:
        if plan.offset > file.size:
            raise ToolError(
                ErrorCode.INVALID_ARGS,
                f"offset: the file has {file.size} bytes, there is nothing at {plan.offset}",
                "Begin earlier in the file.",
            )
        return plan.offset, None
    return 0, 1


def _offset_of_line(file: OpenFile, form: TextForm, number: int, context: ToolContext) -> int:
    """Found by counting line ends; the file is passed over a piece at a time and not kept."""
    seen, offset = 1, 0
    for piece in file.chunks(context.cancel.check):
        if number <= seen:
            break
        ends = form.count_lines(piece)
        if seen + ends >= number:
            return offset + form.end_of_line(piece, number - seen)
        seen += ends
        offset += len(piece)
    if number > seen:
        raise ToolError(
            ErrorCode.INVALID_ARGS,
            f"start_line: the file has {seen} lines, there is no line {number}",
            "Begin earlier in the file.",
        )
    return offset


def _meta(shown: str, file: OpenFile, form: TextForm, page: Page, line: int | None) -> dict[str, Any]:
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
