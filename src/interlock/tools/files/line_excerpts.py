"""Lines of a file by their number, and the text of a line around a match."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from interlock.core.errors import ToolError
from interlock.redaction.redactor import MARK, Redactor
from interlock.sandbox.file_io import OpenFile, open_file_in
from interlock.sandbox.hard_link_check import HardLinkCheck
from interlock.tools.files.text_format import TextFormat, detect_text_format
from interlock.tools.paging import MARGIN_BYTES, bound_text, find_open_key_block, mark_around

MAX_LINE_CHARS = 500
_BEFORE_MATCH = 120

# A character has at most four bytes.
_BYTES_BEFORE = _BEFORE_MATCH * 4
_BYTES_BEHIND = MAX_LINE_CHARS * 4

# Enough to see which encoding it is.
_HEAD_BYTES = 4096

# How far into one line of a UTF-16 file a match is looked for.
_MAX_WIDE_LINE_BYTES = 4 * 1024 * 1024

Check = Callable[[], None]


@dataclass(frozen=True, slots=True)
class LineStart:
    """A line of that number begins at that byte."""

    number: int = 1
    offset: int = 0


def find_line(
    file: OpenFile, form: TextFormat, number: int, check: Check, known: LineStart | None = None
) -> LineStart:
    """Where a line begins, or where the last one does if there are not as many.

    The file is passed over a piece at a time and not kept, from a line that is known already.
    """
    known = known or LineStart()
    seen, offset, last = known.number, known.offset, known
    for piece in file.chunks(check, start=known.offset):
        if number <= seen:
            break
        ends = form.count_lines(piece)
        if ends:
            wanted = min(ends, number - seen)
            last = LineStart(seen + wanted, offset + form.end_of_line(piece, wanted))
        if seen + ends >= number:
            return last
        seen += ends
        offset += len(piece)
    return last


@dataclass(frozen=True, slots=True)
class LineMatch:
    """`offset` is where its line begins, `column` where in the line the match does, from 1, in bytes.

    Both are counted as rg does: in UTF-8, and without a byte order mark.
    """

    file: str
    line: int
    column: int
    offset: int


class LineExcerptReader:
    """Reads the text of matches from an open directory, redacted. Keeps one file open: close it.

    Of one line it returns at most `MAX_LINE_CHARS` characters and `max_bytes` bytes.
    """

    def __init__(
        self, folder: int, names: HardLinkCheck, redactor: Redactor, check: Check, *, max_bytes: int
    ) -> None:
        self._max_bytes = max_bytes
        self._folder, self._names, self._redactor, self._check = folder, names, redactor, check
        self._open = ExitStack()
        self._name: str | None = None
        self._file: OpenFile | None = None
        self._form = TextFormat()
        self._known = LineStart()
        self._looked = (0, "")
        # Whether the last text contained a secret.
        self.redacted = False

    def close(self) -> None:
        self._open.close()

    def text_of(self, match: LineMatch) -> str | None:
        """The text of a match; None if the file is missing, changed, or also linked outside."""
        self._check()
        self.redacted = False
        try:
            file = self._opened(match.file)
            return None if file is None else self._around(file, *self._place_of(file, match))
        except OSError:
            return None

    def _opened(self, name: str) -> OpenFile | None:
        if name != self._name:
            self._open.close()
            self._name, self._file, self._known, self._looked = name, None, LineStart(), (0, "")
            try:
                file = self._open.enter_context(open_file_in(self._folder, name, name))
            except (OSError, ToolError):
                return None
            if self._names.all_inside(file):
                self._file = file
                self._form = detect_text_format(file.read(0, _HEAD_BYTES), is_whole=False) or TextFormat()
        return self._file

    def _place_of(self, file: OpenFile, match: LineMatch) -> tuple[int, int]:
        """The offsets of the line and of the match, in bytes of the file."""
        mark = len(self._form.mark)
        if not self._form.encoding.startswith("utf-16"):
            start = match.offset + mark
            return start, start + match.column - 1
        self._known = find_line(file, self._form, match.line, self._check, self._known)
        start = max(self._known.offset, mark)
        line = file.read(start, min((match.column + 1) * 2, _MAX_WIDE_LINE_BYTES))
        before = self._form.decode(line).encode("utf-8", "replace")[: match.column - 1]
        return start, start + self._form.width(before.decode("utf-8", "ignore"))

    def _around(self, file: OpenFile, start: int, at: int) -> str:
        """The whole line, or as much around the match as is readable."""
        form = self._form
        first = max(start, at - _BYTES_BEFORE)
        left = max(len(form.mark), first - MARGIN_BYTES)
        data = file.read(left, at - left + _BYTES_BEHIND + MARGIN_BYTES)
        first = left + form.boundary(data, first - left)
        at = max(first, at)
        before, within, behind = (
            form.decode(data[begin - left : end - left])
            for begin, end in ((left, first), (first, at), (at, left + len(data)))
        )
        before = self._opening(file, left, before or within + behind) + before
        length = len(within) + len(behind.split("\n", 1)[0])
        shown, column = self._masked(before, within + behind, length, len(within))
        return _cut(shown.rstrip("\r"), column, self._max_bytes, was_cut=first > start)

    def _opening(self, file: OpenFile, left: int, behind: str) -> str:
        """The header of a private key that began earlier. Matches come in order, so all is read once."""
        known = self._looked if self._looked[0] <= left else (0, "")
        opening = find_open_key_block(file.read, left, self._form, behind, known)
        if not opening or opening.endswith("\n"):
            self._looked = (left, opening)
        return opening

    def _masked(self, before: str, text: str, length: int, column: int) -> tuple[str, int]:
        """The first `length` characters of a text without secrets, and where its column is by then."""
        pieces: list[str] = []
        position, first, moved = 0, len(before), column
        for span in self._redactor.spans(before + text):
            begin, end = max(span[0] - first, position), min(span[1] - first, length)
            if begin >= end:
                continue
            pieces += [text[position:begin], MARK]
            if column >= end:
                moved += len(MARK) - (end - begin)
            elif column >= begin:
                moved -= column - begin
            position = end
        self.redacted = bool(pieces)
        pieces.append(text[position:length])
        return "".join(pieces), moved


def _cut(text: str, column: int, max_bytes: int, *, was_cut: bool) -> str:
    most = min(MAX_LINE_CHARS, max_bytes)
    if len(text) <= most and len(text.encode("utf-8", "replace")) <= max_bytes:
        return f"{'…' if was_cut else ''}{text}"
    start = max(0, min(column - min(_BEFORE_MATCH, most // 4), len(text) - most))
    start, end = mark_around(text, start)[0], mark_around(text, start + most)[1]
    shown = bound_text(text[start:end], max_lines=1, max_bytes=max_bytes)
    is_cut = end < len(text) or shown.truncated_bytes
    return f"{'…' if start or was_cut else ''}{shown.text}{'…' if is_cut else ''}"
