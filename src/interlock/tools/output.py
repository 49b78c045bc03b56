"""Cuts what a tool says to what may be shown, by lines and by bytes, and tells that it did."""

from interlock.infra.records import dataclass
from interlock.infra.text import storable
from interlock.redaction.redactor import MARK, Redactor
from interlock.tools.base import ToolLimits


@dataclass(frozen=True, slots=True)
class Bounded:
    text: str
    truncated_lines: bool
    truncated_bytes: bool


def bound_text(text: str, *, max_lines: int, max_bytes: int, whole: str = "") -> Bounded:
    """At most that many lines and bytes, never cut inside a character or inside the word `whole`."""
    truncated_lines = False
    end = _end_of_line(text, max_lines)
    if end < len(text):
        text, truncated_lines = text[:end], True
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= max_bytes:
        return Bounded(text, truncated_lines, truncated_bytes=False)
    kept = encoded[:max_bytes].decode("utf-8", "ignore")
    if whole:
        begun = text.rfind(whole, 0, len(kept) + len(whole) - 1)
        if begun != -1 and begun < len(kept) < begun + len(whole):
            kept = kept[:begun]
    return Bounded(kept, truncated_lines, truncated_bytes=True)


def _end_of_line(text: str, number: int) -> int:
    """The offset behind the last of `number` lines."""
    if text.count("\n") < number:
        return len(text)
    end = 0
    for _ in range(number):
        end = text.index("\n", end) + 1
    return end


class LinePage:
    """Lines of output, as many as may be shown. Secrets are taken out before anything is counted."""

    def __init__(self, limits: ToolLimits, redactor: Redactor, *, max_lines: int | None = None) -> None:
        self._redactor = redactor
        self._max_lines = min(max_lines or limits.max_output_lines, limits.max_output_lines)
        self._room = limits.max_output_bytes
        self._lines: list[str] = []
        self.truncated_lines = False
        self.truncated_bytes = False
        self.is_full = False

    def add(self, line: str) -> bool:
        """False when the page is full: the line belongs to the next one."""
        if len(self._lines) >= self._max_lines:
            self.truncated_lines = self.is_full = True
            return False
        safe = self._redactor.text(storable(line))
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
        return True

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)
