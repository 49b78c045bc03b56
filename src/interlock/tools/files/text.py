"""How a file holds its text: encoding, byte order mark and line endings. A change keeps all three."""

import codecs
from dataclasses import dataclass
from typing import Any

from interlock.infra.errors import ErrorCode, ToolError

# Whether a file is text is decided by its beginning.
HEAD_BYTES = 64 * 1024

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True)
class TextForm:
    encoding: str = "utf-8"
    mark: bytes = b""
    line_ending: str = "\n"

    def decode(self, data: bytes) -> str:
        return data.decode(self.encoding, "replace")

    def encode(self, text: str, what: str) -> bytes:
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = text[error.start]
            raise ToolError(
                ErrorCode.INVALID_ARGS,
                f"{what}: the file is {self.encoding} text, which has no character {character!r}",
                "Use only characters of that encoding, or tell the person that the file needs another one.",
            ) from None

    def with_own_endings(self, text: str) -> str:
        """The text with the file's line endings, where the file has but one kind and it is not `\\n`."""
        if self.line_ending == "\n" or "\n" not in text:
            return text
        return text.replace("\r\n", "\n").replace("\n", self.line_ending)

    def boundary(self, data: bytes, at: int) -> int:
        """The first place at or after `at` where a character can begin."""
        if self.encoding == "utf-8":
            end = min(len(data), at + 3)
            while at < end and data[at] & 0xC0 == 0x80:
                at += 1
        elif self._is_wide:
            at += at % 2
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
        return at if isinstance(text, bytes) else len(text[:at].encode(self.encoding, "replace"))

    @property
    def _is_wide(self) -> bool:
        """A line end is more than one byte, and its bytes can be found inside other characters."""
        return self.encoding.startswith("utf-16")

    def whole_characters(self, data: bytes) -> bytes:
        """Without the first bytes of a character whose rest is missing."""
        if self.encoding == "utf-8":
            return data[: len(data) - _unfinished(data)]
        return data[: len(data) - len(data) % 2] if self._is_wide else data


def text_form(head: bytes, *, is_whole: bool) -> TextForm | None:
    """The form of a text that begins so; None where it is no text at all."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            form = TextForm(encoding, mark)
            return TextForm(encoding, mark, _line_ending(form.decode(form.whole_characters(head))))
    if b"\0" in head:
        return None
    try:
        checked = head if is_whole else TextForm().whole_characters(head)
        text, encoding = checked.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        text, encoding = head.decode("latin-1"), "latin-1"
    return TextForm(encoding, line_ending=_line_ending(text))


def _line_ending(text: str) -> str:
    windows = text.count("\r\n")
    return "\r\n" if windows and windows == text.count("\n") else "\n"


def _unfinished(data: bytes) -> int:
    """How many bytes at the end begin a UTF-8 character that is not complete."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            needed = (
                2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 1
            )
            return back if needed > back else 0
    return 0


def binary_refusal(shown: str, size: int, head: bytes) -> ToolError:
    return ToolError(
        ErrorCode.EXECUTION_ERROR,
        f"{shown} is not a text file ({_kind(head)}, {size} bytes)",
        "Choose a text file.",
    )


_SIGNATURES = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive or office document"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\0", "a SQLite database"),
)


def _kind(head: bytes) -> str:
    return next((name for signature, name in _SIGNATURES if head.startswith(signature)), "binary data")
