"""Cuts what a tool says to what may be shown, by lines and by bytes, and tells that it did."""

from dataclasses import dataclass


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
    end = 0
    for _ in range(number):
        end = text.find("\n", end) + 1
        if end == 0:
            return len(text)
    return end
