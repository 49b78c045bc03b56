"""Pages of output: a file's text, lines of results, and the bounds of everything else.

A page is cut after it was redacted, so that no secret straddles a cut, and what it shows is counted after
that. Its text is a `PageText`: the runner neither redacts nor bounds it again.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from interlock.core.text import sanitize_text
from interlock.redaction.open_key_block import LONGEST_OPENING, may_be_inside_block, open_block_header
from interlock.redaction.redactor import MARK, Redactor
from interlock.tools.files.text_format import TextFormat
from interlock.tools.tool import ToolLimits


class PageText(str):
    """The text of a page: redacted, bounded and encodable. Only this module makes it.

    Text that is made from it is a `str`, and untrusted like any other.
    """

    __slots__ = ()


def page_limits(limits: ToolLimits) -> str:
    return f"A page has at most {limits.max_output_lines} lines and {limits.max_output_bytes} bytes."


@dataclass(frozen=True, slots=True)
class BoundedText:
    text: str
    truncated_lines: bool
    truncated_bytes: bool


def bound_text(text: str, *, max_lines: int, max_bytes: int) -> BoundedText:
    """At most that many lines and bytes, never cut inside a character or inside a mark."""
    truncated_lines = False
    end = _end_of_lines(text, max_lines)
    if end < len(text):
        text, truncated_lines = text[:end], True
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= max_bytes:
        return BoundedText(text, truncated_lines, truncated_bytes=False)
    length = len(encoded[:max_bytes].decode("utf-8", "ignore"))
    return BoundedText(text[: mark_around(text, length)[0]], truncated_lines, truncated_bytes=True)


def mark_around(text: str, cut: int) -> tuple[int, int]:
    """Where the mark begins and ends that a cut would split; if there is none, both are the cut."""
    begin = text.rfind(MARK, 0, cut + len(MARK) - 1)
    return (begin, begin + len(MARK)) if -1 < begin < cut < begin + len(MARK) else (cut, cut)


def _end_of_lines(text: str, number: int) -> int:
    """The offset behind the last of `number` lines."""
    if text.count("\n") < number:
        return len(text)
    end = 0
    for _ in range(number):
        end = text.index("\n", end) + 1
    return end


class LinePage:
    """A page of output lines. Each is redacted before it is counted.

    File content on a page is limited to what one call may read.
    """

    def __init__(self, limits: ToolLimits, redactor: Redactor, *, max_lines: int | None = None) -> None:
        self._redactor = redactor
        self._max_lines = min(max_lines or limits.max_output_lines, limits.max_output_lines)
        self._room, self._file_room = limits.max_output_bytes, limits.max_read_bytes
        self._lines: list[str] = []
        self.truncated_lines = False
        self.truncated_bytes = False
        self.is_full = False
        # Something secret was masked in one of the lines.
        self.redacted = False

    def add(self, line: str, *, file_bytes: int = 0, redacted: bool = False) -> bool:
        """False when the page is full: the line belongs to the next one.

        `file_bytes`: how much of it is a file's content. `redacted`: it has masks already.
        """
        if len(self._lines) >= self._max_lines:
            self.truncated_lines = self.is_full = True
            return False
        if file_bytes > self._file_room and self._lines:
            self.truncated_bytes = self.is_full = True
            return False
        self._file_room -= file_bytes
        clean = sanitize_text(line)
        safe = self._redactor.text(clean)
        redacted = redacted or safe != clean
        size = len(safe.encode("utf-8", "replace")) + 1
        if size > self._room:
            self.truncated_bytes = True
            if self._lines:
                self.is_full = True
                return False
            safe = bound_text(safe, max_lines=1, max_bytes=max(0, self._room - 1)).text
            size = self._room
        self._room -= size
        self._lines.append(safe)
        self.redacted = self.redacted or redacted
        return True

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def text(self) -> PageText:
        return PageText("".join(f"{line}\n" for line in self._lines))


# A secret that begins before a page, or ends behind it, is recognised within this many bytes.
MARGIN_BYTES = 16 * 1024
# How far back the start of a private key's block is searched.
MAX_LOOK_BACK_BYTES = 4 * 1024 * 1024
_LOOK_BACK_STEP = 64 * 1024

ReadBytes = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The request for a page: at most so many bytes and lines, ending with a line if `whole_lines`.

    The bytes limit both what is read and what is shown. There is always one character, or one mark.
    """

    start: int
    max_bytes: int
    max_lines: int
    whole_lines: bool


@dataclass(frozen=True, slots=True)
class TextPage:
    """The text to show, and its byte range in the file. `end` is where the next page begins."""

    text: PageText
    start: int
    end: int
    lines: int
    line_ends: int
    cut_by_lines: bool
    is_last: bool
    # Something secret is masked in the text.
    redacted: bool = False


def read_text_page(
    read: ReadBytes, size: int, form: TextFormat, request: PageRequest, redactor: Redactor
) -> TextPage:
    window = _PageBuffer(read, size, form, request)
    secrets = list(window.secrets(redactor))
    if not secrets and window.reaches_end and _has_room(window.text, request):
        return _whole_page(window)
    sheet = _PageBuilder(window.text, form, request)
    for begin, end in secrets:
        if not (sheet.take_plain(begin) and sheet.take_secret(end)):
            break
    else:
        sheet.take_plain(len(window.text))
    is_last = window.reaches_end and sheet.position == len(window.text)
    if request.whole_lines and not is_last and not sheet.cut_by_lines:
        sheet.end_with_a_line()
    taken = window.text[: sheet.position]
    shown = sheet.shown
    return TextPage(
        text=PageText(shown),
        start=window.start,
        end=window.end if is_last else window.start + form.width(taken),
        lines=shown.count("\n") + bool(shown and not shown.endswith("\n")),
        line_ends=taken.count("\n"),
        cut_by_lines=sheet.cut_by_lines,
        is_last=is_last,
        redacted=any(begin < sheet.position for begin, _ in secrets),
    )


def _has_room(text: str, request: PageRequest) -> bool:
    """Certainly: no character is longer than four bytes, in any encoding."""
    return len(text) * 4 <= request.max_bytes and text.count("\n") < request.max_lines


def _whole_page(window: "_PageBuffer") -> TextPage:
    """All there is, without a secret in it: the page most files are."""
    shown, line_ends = sanitize_text(window.text), window.text.count("\n")
    return TextPage(
        text=PageText(shown),
        start=window.start,
        end=window.end,
        lines=line_ends + bool(shown and not shown.endswith("\n")),
        line_ends=line_ends,
        cut_by_lines=False,
        is_last=True,
    )


class _PageBuffer:
    """The text from where the page begins, and a margin on both sides in which secrets are recognised."""

    def __init__(self, read: ReadBytes, size: int, form: TextFormat, request: PageRequest) -> None:
        first = max(request.start, len(form.mark))
        # The mark of a wide text is as wide as its characters, and so is the margin.
        left = max(len(form.mark), first - MARGIN_BYTES - first % 2)
        wanted = first - left + request.max_bytes + MARGIN_BYTES
        data = read(left, wanted)
        at = min(form.boundary(data, first - left), max(len(data), first - left))
        self.start, self.end = left + at, left + max(len(data), at)
        self.reaches_end = len(data) < wanted or self.end >= size
        before, self.text = form.decode(data[:at]), form.decode(data[at:])
        self.before = find_open_key_block(read, left, form, before or self.text) + before

    def secrets(self, redactor: Redactor) -> Iterator[tuple[int, int]]:
        """Where in the text they are; of one that began before it, the rest."""
        first = len(self.before)
        for begin, end in redactor.spans(self.before + self.text):
            if end > first:
                yield max(begin - first, 0), end - first


def find_open_key_block(
    read: ReadBytes, at: int, form: TextFormat, behind: str, known: tuple[int, str] = (0, "")
) -> str:
    """The header of a private key's block that begins before a position and is still open after it.

    `known` is an earlier position and its result.
    """
    farthest, place = max(len(form.mark), at - MAX_LOOK_BACK_BYTES, known[0]), at
    while may_be_inside_block(behind[LONGEST_OPENING:]):
        if at <= farthest:
            return known[1] if at == known[0] else ""
        begin = max(farthest, at - _LOOK_BACK_STEP)
        piece = form.decode(read(begin, at - begin))
        # With a little of what follows, for the line itself may be cut here.
        behind = piece + behind[:LONGEST_OPENING]
        if opening := open_block_header(behind, len(piece) if at == place else None):
            return opening
        at = begin
    return ""


class _PageBuilder:
    """A page that is being filled with plain pieces of a text and with marks, until one has no room."""

    def __init__(self, text: str, form: TextFormat, request: PageRequest) -> None:
        self._text, self._form = text, form
        self._room_in_file = self._room_shown = request.max_bytes
        self._lines_left = request.max_lines
        self._pieces: list[tuple[int, str]] = []
        self.position = 0
        self.cut_by_lines = False

    @property
    def shown(self) -> str:
        return sanitize_text("".join(shown for _, shown in self._pieces))

    def take_plain(self, end: int) -> bool:
        """Whether there was room for all of it."""
        piece = self._text[self.position : end]
        if not piece:
            return True
        by_lines = _end_of_lines(piece, self._lines_left)
        fits = min(
            _fitting(piece, self._room_in_file, self._form.width), _fitting(piece, self._room_shown, _shown)
        )
        if fits == 0 and not self._pieces:
            fits = 1
        self.cut_by_lines = by_lines <= fits and by_lines < len(piece)
        taken = piece[: min(by_lines, fits)]
        self._put(len(taken), taken, self._form.width(taken), _shown(taken))
        self._lines_left -= taken.count("\n")
        return len(taken) == len(piece)

    def take_secret(self, end: int) -> bool:
        """A mark for all of it or, where there is no room, nothing of it."""
        width = self._form.width(self._text[self.position : end])
        self.cut_by_lines = self._lines_left <= 0
        has_room = width <= self._room_in_file and len(MARK) <= self._room_shown
        if self.cut_by_lines or (self._pieces and not has_room):
            return False
        self._put(end - self.position, MARK, width, len(MARK))
        return True

    def end_with_a_line(self) -> None:
        """A line that is longer than a page is cut all the same."""
        for index in range(len(self._pieces) - 1, -1, -1):
            begin, shown = self._pieces[index]
            if length := shown.rfind("\n") + 1:
                self._pieces[index:] = [(begin, shown[:length])]
                self.position = begin + length
                return

    def _put(self, length: int, shown: str, width_in_file: int, width_shown: int) -> None:
        if length:
            self._pieces.append((self.position, shown))
            self.position += length
            self._room_in_file -= width_in_file
            self._room_shown -= width_shown


def _shown(text: str) -> int:
    return len(sanitize_text(text).encode())


def _fitting(piece: str, room: int, width: Callable[[str], int]) -> int:
    """How many characters of a piece have room."""
    room = max(room, 0)
    piece = piece[:room]
    if width(piece) <= room:
        return len(piece)
    return bisect_right(range(len(piece) + 1), room, key=lambda length: width(piece[:length])) - 1
