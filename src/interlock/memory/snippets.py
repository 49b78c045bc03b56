"""The piece of a passage that shows why it was found: plain text on one line, cut between words."""

from collections.abc import Container

from interlock.memory.words import Chunk, chunks

_ELLIPSIS = "…"
_LEAD_CHARS = 40
# How far a cut looks for a space before it gives up, as in scripts that have none.
_REACH_CHARS = 24


def snippet(text: str, wanted: Container[str], max_chars: int) -> str:
    """The stretch of a text with the most of the wanted words in it."""
    if len(text) <= max_chars:
        return " ".join(text.split())
    hits = [chunk for chunk in chunks(text) if any(word in wanted for word in chunk.words)]
    start = max(0, _densest(hits, wanted, max_chars - _LEAD_CHARS) - _LEAD_CHARS)
    start = min(start, len(text) - max_chars)
    end = start + max_chars
    first, last = _next_space(text, start), _space_before(text, end)
    cut = " ".join(text[first:last].split())
    return f"{_ELLIPSIS if first > 0 else ''}{cut}{_ELLIPSIS if last < len(text) else ''}"


def _densest(hits: list[Chunk], wanted: Container[str], width: int) -> int:
    """Where to begin, so that as many different hits as possible follow within `width`."""
    best, best_start = 0, 0
    for number, hit in enumerate(hits):
        found = {
            word
            for other in hits[number : number + 50]
            if other.end <= hit.start + width
            for word in other.words
            if word in wanted
        }
        if len(found) > best:
            best, best_start = len(found), hit.start
    return best_start


def _next_space(text: str, start: int) -> int:
    if start == 0 or text[start - 1].isspace():
        return start
    for place in range(start, min(len(text), start + _REACH_CHARS)):
        if text[place].isspace():
            return place + 1
    return start


def _space_before(text: str, end: int) -> int:
    if end >= len(text) or text[end].isspace():
        return min(end, len(text))
    for place in range(end - 1, max(0, end - _REACH_CHARS), -1):
        if text[place].isspace():
            return place
    return end
