"""Replaces a piece of text in a file: literally, counted, never by a pattern."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any

from interlock.infra.errors import ErrorCode, ToolError
from interlock.infra.records import dataclass
from interlock.redaction.redactor import MARK
from interlock.sandbox.files import OpenFile
from interlock.sandbox.paths import Access, Territory
from interlock.tools.base import ToolContext, ToolLimits
from interlock.tools.files.base import FILE_PATH, WritingTool, whole_number
from interlock.tools.files.seen import Span, require_seen
from interlock.tools.files.text import TextForm
from interlock.tools.files.writing import (
    Replacement,
    WritingDesk,
    carry_out,
    count_marks,
    encoded,
    existing_file,
    form_of,
    masked,
    new_content,
    refuse_masks,
    refuse_too_much,
    told_as,
    written,
)
from interlock.tools.result import ToolResult

_TOO_LARGE = "It is too large to edit here; tell the user."
_CHOOSE = (
    "Choose one with occurrence (the first is 1), replace every one with all, or give a longer "
    "find that occurs once."
)

# Of how many occurrences a refusal gives the line.
_MAX_LISTED = 20


@dataclass(frozen=True, slots=True)
class _Plan:
    replacement: Replacement
    replaced: int
    occurrences: int


class EditFileTool(WritingTool[_Plan]):
    def __init__(self, desk: WritingDesk) -> None:
        self._desk = desk

    @property
    def name(self) -> str:
        return "edit_file"

    @property
    def aliases(self) -> tuple[str, ...]:
        return ("edit",)

    @property
    def description(self) -> str:
        return (
            "Replace text in a file that you have read. find is literal, can span lines, and "
            "must match the file exactly. If it occurs more than once, give occurrence or all."
        )

    def limits_text(self, limits: ToolLimits) -> str:
        return (
            f"The file can have at most {min(limits.max_read_bytes, limits.max_write_bytes)} "
            f"bytes, and {limits.max_write_bytes} after the change."
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {
            "type": "object",
            "properties": {
                "path": FILE_PATH,
                "find": {"type": "string", "minLength": 1, "description": "The text to replace."},
                "replace": {"type": "string", "description": "The replacement; can be empty."},
                "all": {"type": "boolean", "description": "Replace every occurrence. Default: false."},
                "occurrence": whole_number("Replace only this occurrence (the first is 1).", 1, 2**53),
            },
            "required": ["path", "find", "replace"],
        }

    def judge(self, arguments: Mapping[str, Any], territory: Territory, context: ToolContext) -> _Plan:
        place = territory.find(arguments["path"], Access.write)
        shown = territory.shown(place)
        if arguments["find"] == arguments["replace"]:
            raise ToolError(
                ErrorCode.INVALID_ARGS,
                "find and replace are the same: nothing would change",
                "Correct them.",
            )
        if arguments.get("all", False) and "occurrence" in arguments:
            raise ToolError(
                ErrorCode.INVALID_ARGS, "all and occurrence exclude each other", "Give only one of them."
            )
        with existing_file(territory, place) as (_, file):
            refuse_too_much(file.size, context.limits, shown, _TOO_LARGE)
            if file.size > context.limits.max_read_bytes:
                raise ToolError(
                    ErrorCode.LIMIT_EXCEEDED,
                    f"{shown}: {file.size} bytes exceed the read limit of {context.limits.max_read_bytes}",
                    _TOO_LARGE,
                )
            form = form_of(file, shown, context.limits)
            known = self._known(str(place.path), file, shown, context)
            data = file.read(0, file.size)
            edit = _Edit(data, form, arguments["find"], arguments["replace"], shown)
            places = edit.chosen(every=arguments.get("all", False), occurrence=arguments.get("occurrence"))
            require_seen(known, [(at, at + len(edit.find)) for at in places], shown)
            changed = edit.applied(places)
            refuse_too_much(len(changed), context.limits, shown, _TOO_LARGE)
            refuse_masks(count_marks((changed,), form), count_marks((data,), form), shown)
            replacement = Replacement(
                *(place, file.version, new_content(data).sha256),
                *(new_content(changed), edit.moved(known, places)),
            )
        return _Plan(replacement, len(places), len(edit.places))

    def _known(self, path: str, file: OpenFile, shown: str, context: ToolContext) -> list[Span]:
        if not context.session_id:
            return [(0, file.size)]
        return self._desk.seen.current(context.session_id, path, file, shown, context.cancel.check)

    def subject(self, plan: _Plan, territory: Territory) -> str:
        return territory.shown(plan.replacement.place)

    def work(self, plan: _Plan, territory: Territory, context: ToolContext) -> ToolResult:
        kept = carry_out(plan.replacement, self._desk, territory, context)
        shown = territory.shown(plan.replacement.place)
        plural = "" if plan.occurrences == 1 else "s"
        return told_as(
            f"replaced {plan.replaced} of {plan.occurrences} occurrence{plural} in {shown}",
            kept=kept,
            touched=written(plan.replacement),
            path=shown,
            replacements=plan.replaced,
            occurrences=plan.occurrences,
        )


class _Edit:
    """A literal replacement in the bytes of a file. All that is not replaced stays as it is."""

    def __init__(self, data: bytes, form: TextForm, find: str, replace: str, shown: str) -> None:
        self._data, self._form, self._shown = data, form, shown
        for exact, new in _spellings(form, find, replace):
            self.find, self.replace = encoded(exact, form, "find"), encoded(new, form, "replace")
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
        """The places to replace. Refused where it is not clear which one is meant."""
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
        """The line of each occurrence, of many the first ones."""
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
        """What was known of the file, at the places where it is after the change."""
        growth = len(self.replace) - len(self.find)

        def after(position: int) -> int:
            return position + growth * bisect_left(places, position)

        return tuple((after(begin), after(end)) for begin, end in known)


def _spellings(form: TextForm, find: str, replace: str) -> Iterator[tuple[str, str]]:
    """A model often writes \\n where the file has \\r\\n; then the file's own line ends are meant."""
    if form.line_ending == "\r\n":
        # First, since a \n alone would be found inside every line end of the file.
        yield form.with_own_endings(find), form.with_own_endings(replace)
    yield find, replace
    if "\n" in find and "\r\n" not in find:
        yield find.replace("\n", "\r\n"), replace.replace("\r\n", "\n").replace("\n", "\r\n")


def _occurrences(data: bytes, find: bytes, form: TextForm) -> list[int]:
    """Where the text begins, from the front and without overlap, at whole characters only."""
    places, at = [], data.find(find)
    while at != -1:
        if form.boundary(data, at) == at:
            places.append(at)
            at = data.find(find, at + len(find))
        else:
            at = data.find(find, at + 1)
    return places
