"""Limits a tool's output by lines and bytes, and marks that it did."""

from dataclasses import dataclass

from interlock.core.text import sanitize_text
from interlock.redaction.redactor import MARK, Redactor
from interlock.tools.tool import ToolLimits


def page_limits(limits: ToolLimits) -> str:
    return f"A page has at most {limits.max_output_lines} lines and {limits.max_output_bytes} bytes."


@dataclass(frozen=True, slots=True)
class BoundedText:
    text: str
    truncated_lines: bool
    truncated_bytes: bool


def bound_text(text: str, *, max_lines: int, max_bytes: int, whole: str = "") -> BoundedText:
    """At most that many lines and bytes, never cut inside a character or inside the word `whole`."""
    truncated_lines = False
    end = _end_of_line(text, max_lines)
    if end < len(text):
        text, truncated_lines = text[:end], True
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= max_bytes:
        return BoundedText(text, truncated_lines, truncated_bytes=False)
    kept = encoded[:max_bytes].decode("utf-8", "ignore")
    if whole:
        begun = text.rfind(whole, 0, len(kept) + len(whole) - 1)
        if begun != -1 and begun < len(kept) < begun + len(whole):
            kept = kept[:begun]
    return BoundedText(kept, truncated_lines, truncated_bytes=True)


def _end_of_line(text: str, number: int) -> int:
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
            safe = bound_text(safe, max_lines=1, max_bytes=max(0, self._room - 1), whole=MARK).text
            size = self._room
        self._room -= size
        self._lines.append(safe)
        self.redacted = self.redacted or redacted
        return True

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)
