"""Replaces text in a file: literally and counted, never by a pattern."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import Field

from interlock.core.errors import ErrorCode, ToolError
from interlock.redaction.redactor import MARK
from interlock.sandbox.file_io import OpenFile
from interlock.sandbox.paths import PathAccess, PathResolver, ResolvedPath
from interlock.tools.arguments import ToolArguments
from interlock.tools.files.base import WRITING_MODES, FilePath, FileTool
from interlock.tools.files.read_history import Span, require_read
from interlock.tools.files.text_format import TextFormat
from interlock.tools.files.write_checks import (
    Replacement,
    WriteServices,
    apply_replacement,
    count_redaction_marks,
    encode_text,
    existing_file,
    existing_text_format,
    make_content,
    masked,
    refuse_oversized,
    refuse_redaction_marks,
    replacement_touches,
    write_result,
)
from interlock.tools.result import ToolResult
from interlock.tools.tool import Effect, ToolContext, ToolLimits

_TOO_LARGE = "It is too large to edit here; tell the user."
_CHOOSE = (
    "Choose one with occurrence (the first is 1), replace every one with all, or give a longer "
    "find that occurs once."
)

# The number of occurrences whose lines a refusal lists.
_MAX_LISTED = 20


@dataclass(frozen=True, slots=True)
class _Plan:
    replacement: Replacement
    replaced: int
    occurrences: int

    @property
    def place(self) -> ResolvedPath:
        return self.replacement.place


class EditFileArguments(ToolArguments):
    path: FilePath
    find: str = Field(min_length=1, description="The text to replace.")
    replace: str = Field(description="The replacement; can be empty.")
    all: bool = Field(default=False, description="Replace every occurrence. Default: false.")
    occurrence: int | None = Field(
        default=None, ge=1, le=2**53, description="Replace only this occurrence (the first is 1)."
    )


class EditFileTool(FileTool[_Plan]):
    name = "edit_file"
    aliases = ("edit",)
    description = (
        "Replace text in a file that you have read. find is literal, can span lines, and "
        "must match the file exactly. If it occurs more than once, give occurrence or all."
    )
    arguments = EditFileArguments
    allowed_modes = WRITING_MODES
    effect = Effect.write

    def __init__(self, write_services: WriteServices) -> None:
        self._write_services = write_services

    def limits_text(self, limits: ToolLimits) -> str:
        return (
            f"The file can have at most {min(limits.max_read_bytes, limits.max_write_bytes)} "
            f"bytes, and {limits.max_write_bytes} after the change."
        )

    def judge(self, arguments: EditFileArguments, resolver: PathResolver, context: ToolContext) -> _Plan:
        place = resolver.find(arguments.path, PathAccess.write)
        shown = resolver.shown(place)
        if arguments.find == arguments.replace:
            raise ToolError(
                ErrorCode.INVALID_ARGS,
                "find and replace are the same: nothing would change",
                "Correct them.",
            )
        if arguments.all and arguments.occurrence is not None:
            raise ToolError(
                ErrorCode.INVALID_ARGS, "all and occurrence exclude each other", "Give only one of them."
            )
        with existing_file(resolver, place) as (_, file):
            refuse_oversized(file.size, context.limits, shown, _TOO_LARGE)
            if file.size > context.limits.max_read_bytes:
                raise ToolError(
                    ErrorCode.LIMIT_EXCEEDED,
                    f"{shown}: {file.size} bytes exceed the read limit of {context.limits.max_read_bytes}",
                    _TOO_LARGE,
                )
            form = existing_text_format(file, shown, context.limits)
            known = self._known(str(place.path), file, shown, context)
            data = file.read(0, file.size)
            edit = _Edit(data, form, arguments.find, arguments.replace, shown)
            places = edit.chosen(every=arguments.all, occurrence=arguments.occurrence)
            require_read(known, [(at, at + len(edit.find)) for at in places], shown)
            changed = edit.applied(places)
            refuse_oversized(len(changed), context.limits, shown, _TOO_LARGE)
            refuse_redaction_marks(
                count_redaction_marks((changed,), form), count_redaction_marks((data,), form), shown
            )
            replacement = Replacement(
                *(place, file.version, make_content(data).sha256),
                *(make_content(changed), edit.moved(known, places)),
            )
        return _Plan(replacement, len(places), len(edit.places))

    def _known(self, path: str, file: OpenFile, shown: str, context: ToolContext) -> list[Span]:
        if not context.session_id:
            return [(0, file.size)]
        return self._write_services.seen.current(
            context.session_id, path, file, shown, context.cancel.check
        )

    def work(self, plan: _Plan, resolver: PathResolver, context: ToolContext) -> ToolResult:
        kept = apply_replacement(plan.replacement, self._write_services, resolver, context)
        shown = resolver.shown(plan.place)
        plural = "" if plan.occurrences == 1 else "s"
        return write_result(
            f"replaced {plan.replaced} of {plan.occurrences} occurrence{plural} in {shown}",
            kept=kept,
            touched=replacement_touches(plan.replacement),
            path=shown,
            replacements=plan.replaced,
            occurrences=plan.occurrences,
        )


class _Edit:
    """A literal replacement in the bytes of a file. All other bytes stay unchanged."""

    def __init__(self, data: bytes, form: TextFormat, find: str, replace: str, shown: str) -> None:
        self._data, self._form, self._shown = data, form, shown
        for exact, new in _spellings(form, find, replace):
            self.find, self.replace = encode_text(exact, form, "find"), encode_text(new, form, "replace")
            self.places = _occurrences(data, self.find, form)
            if self.places:
                return
        if MARK in find:
            raise masked(f"find contains {MARK}, which stands for a redacted secret")
        raise ToolError(
            ErrorCode.EXECUTION_ERROR,
            f"the text to replace is not in {shown}; nothing was changed",
            "Read the lines again and copy the text exactly, with spaces and line ends.",
            is_an_answer=True,
        )

    def chosen(self, *, every: bool, occurrence: int | None) -> list[int]:
        """The occurrences to replace. Refuses if it is unclear which one is meant."""
        count = len(self.places)
        if every or (occurrence is None and count == 1):
            return self.places
        if occurrence is None:
            raise ToolError(
                ErrorCode.INVALID_ARGS,
                f"find occurs {count} times in {self._shown}, on lines {self._lines()}; "
                "nothing was changed",
                _CHOOSE,
            )
        if occurrence > count:
            raise ToolError(
                ErrorCode.INVALID_ARGS,
                f"occurrence: {occurrence} exceeds the {count} occurrences in {self._shown}",
                _CHOOSE,
            )
        return [self.places[occurrence - 1]]

    def _lines(self) -> str:
        """The lines of the occurrences, at most the first ones."""
        numbers, line, position = [], 1, 0
        for at in self.places[:_MAX_LISTED]:
            line += self._form.count_lines(self._data[position:at])
            position = at
            numbers.append(str(line))
        return ", ".join([*numbers, *(["…"] if len(self.places) > _MAX_LISTED else [])])

    def applied(self, places: list[int]) -> bytes:
        pieces, position = [], 0
        for at in places:
            pieces += [self._data[position:at], self.replace]
            position = at + len(self.find)
        return b"".join([*pieces, self._data[position:]])

    def moved(self, known: list[Span], places: list[int]) -> tuple[Span, ...]:
        """The known spans of the file, at their offsets after the change."""
        growth = len(self.replace) - len(self.find)

        def after(position: int) -> int:
            return position + growth * bisect_left(places, position)

        return tuple((after(begin), after(end)) for begin, end in known)


def _spellings(form: TextFormat, find: str, replace: str) -> Iterator[tuple[str, str]]:
    """Models often write \\n where the file has \\r\\n; then the file's own line ends are meant."""
    if form.line_ending == "\r\n":
        # First, since \n alone would match inside every line end of the file.
        yield form.with_own_endings(find), form.with_own_endings(replace)
    yield find, replace
    if "\n" in find and "\r\n" not in find:
        yield find.replace("\n", "\r\n"), replace.replace("\r\n", "\n").replace("\n", "\r\n")


def _occurrences(data: bytes, find: bytes, form: TextFormat) -> list[int]:
    """The offsets of the text, from the front, without overlap, at whole characters only."""
    places, at = [], data.find(find)
    while at != -1:
        if form.boundary(data, at) == at:
            places.append(at)
            at = data.find(find, at + len(find))
        else:
            at = data.find(find, at + 1)
    return places
