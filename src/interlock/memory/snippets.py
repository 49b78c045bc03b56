"""Cuts the part of a passage that shows why it matched: plain text on one line, cut between words."""

from collections.abc import Container

from interlock.memory.tokenizer import split_chunks

_ELLIPSIS = "…"
_LEAD_CHARS = 40
# How far a cut looks for a space; some scripts have none.
_REACH_CHARS = 24


def snippet(text: str, wanted: Container[str], max_chars: int) -> str:
    """The part of a text with the most of the wanted words in it."""
    if len(text) <= max_chars:
        return " ".join(text.split())
    start = max(0, _densest(_places(text, wanted), max_chars - _LEAD_CHARS) - _LEAD_CHARS)
    start = min(start, len(text) - max_chars)
    end = start + max_chars
    first, last = _next_space(text, start), _space_before(text, end)
    cut = " ".join(text[first:last].split())
    return f"{_ELLIPSIS if first > 0 else ''}{cut}{_ELLIPSIS if last < len(text) else ''}"


def _places(text: str, wanted: Container[str]) -> list[tuple[int, str]]:
    """The position of each wanted word; in a long chunk, where it occurs literally."""
    places: list[tuple[int, str]] = []
    for chunk in split_chunks(text):
        for word in chunk.words:
            if word in wanted:
                seen = text.find(word, chunk.start, chunk.end)
                places.append((chunk.start if seen < 0 else seen, word))
    return sorted(places)


def _densest(places: list[tuple[int, str]], width: int) -> int:
    """Where to begin, so that as many different words as possible follow within `width`."""
    best, best_start = 0, 0
    for number, (start, _) in enumerate(places):
        found = {word for place, word in places[number : number + 50] if place <= start + width}
        if len(found) > best:
            best, best_start = len(found), start
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
