"""How a file holds its text: encoding, byte order mark and line endings. A change keeps all three."""

import codecs
import re
from dataclasses import dataclass, replace
from typing import Any

from interlock.core.errors import ErrorCode, ToolError

# Whether a file is text is decided by its beginning.
HEAD_BYTES = 64 * 1024

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True)
class TextFormat:
    encoding: str = "utf-8"
    mark: bytes = b""
    line_ending: str = "\n"

    def decode(self, data: bytes) -> str:
        """Without loss: bytes that are no character become lone surrogates, `width` knows their length."""
        whole = data[: len(data) - len(data) % 2] if self._is_wide else data
        return whole.decode(self.encoding, self._lossless)

    def width(self, text: str) -> int:
        """The number of bytes that a decoded text has in the file."""
        return len(text.encode(self.encoding, self._lossless))

    @property
    def _lossless(self) -> str:
        return "surrogatepass" if self._is_wide else "surrogateescape"

    def encode(self, text: str, what: str) -> bytes:
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = text[error.start]
            raise ToolError(
                ErrorCode.INVALID_ARGS,
                f"{what}: the file is {self.encoding} text, which cannot contain {character!r}",
                (
                    "Use only characters of that encoding, or tell the user that the file needs "
                    "another encoding."
                ),
            ) from None

    def with_own_endings(self, text: str) -> str:
        """The text with the file's line endings, where the file has but one kind and it is not `\\n`."""
        if self.line_ending == "\n" or "\n" not in text:
            return text
        return text.replace("\r\n", "\n").replace("\n", self.line_ending)

    def boundary(self, data: bytes, at: int) -> int:
        """The position itself or, inside a character, the position after it."""
        if self.encoding == "utf-8":
            return _behind_character(data, at)
        if self._is_wide:
            at += at % 2
            pair = data[max(0, at - 2) : at + 2]
            at += 2 if len(pair) == 4 and len(self.decode(pair)) == 1 else 0
        return at

    def count_lines(self, piece: bytes) -> int:
        return piece.count(b"\n") if not self._is_wide else self.decode(piece).count("\n")

    def end_of_line(self, piece: bytes, number: int) -> int:
        """The offset behind the line end of that number in a piece that has as many."""
        text = piece if not self._is_wide else self.decode(piece)
        newline: Any = b"\n" if isinstance(text, bytes) else "\n"
        at = 0
        for _ in range(number):
            at = text.index(newline, at) + 1
        return at if isinstance(text, bytes) else self.width(text[:at])

    @property
    def _is_wide(self) -> bool:
        """A line end is more than one byte, and its bytes can be found inside other characters."""
        return self.encoding.startswith("utf-16")


def detect_text_format(head: bytes, *, is_whole: bool) -> TextFormat | None:
    """The format of a text that begins so; None if it is not text."""
    if head.startswith(codecs.BOM_UTF32_LE):
        return None
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            form = TextFormat(encoding, mark)
            return replace(form, line_ending=_line_ending(form.decode(head)))
    if b"\0" in head or _signature(head) is not None:
        return None
    if head.isascii():
        return TextFormat(line_ending=_line_ending(head.decode("ascii")))
    text = TextFormat().decode(head if is_whole else head[: len(head) - _unfinished(head)])
    # A few broken bytes in a UTF-8 text do not make it another encoding.
    broken = len(_BROKEN.findall(text))
    if broken and len(_BEYOND_ASCII.findall(text)) < broken:
        return TextFormat("latin-1", line_ending=_line_ending(text))
    return TextFormat(line_ending=_line_ending(text))


_BROKEN = re.compile("[\udc80-\udcff]")
_BEYOND_ASCII = re.compile("[\x80-\ud7ff\ue000-\U0010ffff]")


def _line_ending(text: str) -> str:
    windows = text.count("\r\n")
    return "\r\n" if windows and windows == text.count("\n") else "\n"


def _behind_character(data: bytes, at: int) -> int:
    for begin in range(max(0, at - 3), at):
        end = begin + _length_after(data[begin])
        if end > at and not _BROKEN.search(TextFormat().decode(data[begin:end])):
            return end
    return at


def _unfinished(data: bytes) -> int:
    """How many bytes at the end begin a UTF-8 character that is not complete."""
    for back in range(1, min(4, len(data) + 1)):
        if data[-back] & 0xC0 != 0x80:
            return back if _length_after(data[-back]) > back else 0
    return 0


def _length_after(first: int) -> int:
    """How many bytes a UTF-8 character has that begins with this one."""
    return 4 if first >= 0xF0 else 3 if first >= 0xE0 else 2 if first >= 0xC0 else 1


def binary_file_error(shown: str, size: int, head: bytes) -> ToolError:
    return ToolError(
        ErrorCode.EXECUTION_ERROR,
        f"{shown} is not a text file ({_kind(head)}, {size} bytes)",
        "Choose a text file.",
        is_an_answer=True,
    )


_SIGNATURES = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive or office document"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\0", "a SQLite database"),
)


def _kind(head: bytes) -> str:
    return _signature(head) or "binary data"


def _signature(head: bytes) -> str | None:
    return next((name for signature, name in _SIGNATURES if head.startswith(signature)), None)
