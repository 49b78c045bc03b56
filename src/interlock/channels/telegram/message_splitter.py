"""Splits a long answer into messages: at a paragraph, line, sentence or word, never within a character.

A code block that is cut is closed and reopened. Telegram counts UTF-16 code units, of which some characters
take two.
"""

import re
import unicodedata
from dataclasses import dataclass

MAX_UNITS = 4096

# A cut that leaves less than this share of a message is avoided.
_LEAST_FILLED = 0.3
_MAX_FENCE = 100
_LONGEST_CHARACTER = 16
_JOINING = "\u200d\ufe0e\ufe0f"

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`\n]*)")
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_LINE = re.compile(r"\n")
_SENTENCE = re.compile(r"[.!?…]['\")\]]*\s+|[\u3002\uff01\uff1f]")
_WORD = re.compile(r"\s+")


def utf16_length(text: str) -> int:
    """The length as Telegram counts it."""
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


@dataclass(frozen=True, slots=True)
class MessagePart:
    """One message: a slice of the text, and the fences that close and reopen a cut code block."""

    source: str
    before: str = ""
    after: str = ""

    @property
    def text(self) -> str:
        return f"{self.before}{self.source}{self.after}"


@dataclass(frozen=True, slots=True)
class OpenCodeFence:
    """An open code block and the line that opened it."""

    line: str
    mark: str


def split_message(text: str, limit: int = MAX_UNITS) -> list[MessagePart]:
    """Split into parts, in order; their sources concatenated are the text.

    The beginning of a growing text is cut the same way each time, once it is longer than a message.
    """
    parts: list[MessagePart] = []
    fence: OpenCodeFence | None = None
    at_line_start = True
    while text:
        before = f"{fence.line}\n" if fence else ""
        end, closing = _end(text, fence, limit, limit - utf16_length(before), at_line_start=at_line_start)
        source, text = text[:end], text[end:]
        fence = fence_after(source, fence, at_line_start=at_line_start, limit=limit)
        after = (
            f"{'' if source.endswith(chr(10)) else chr(10)}{fence.mark}"
            if fence and (text or closing)
            else ""
        )
        parts.append(MessagePart(source, before, after))
        at_line_start = source.endswith("\n")
    return parts


def _end(
    text: str, fence: OpenCodeFence | None, limit: int, room: int, *, at_line_start: bool
) -> tuple[int, bool]:
    """The end of the next message, and whether the code block open there must be closed."""
    if utf16_length(text) <= room:
        left = fence_after(text, fence, at_line_start=at_line_start, limit=limit)
        if left is None:
            return len(text), False
        if utf16_length(text) + utf16_length(left.mark) + 1 <= room:
            return len(text), True
    # A block open at the cut is closed by a fence and a newline.
    longest = max((len(mark[1]) for mark in _FENCE.finditer(text[:room])), default=0)
    # A longer run is not a fence, and must not use up a message.
    reserved = max(min(longest, _longest_fence(limit)), len(fence.mark) if fence else 0)
    window = _fitting(text, max(1, room - reserved - 1))
    return _cut(text, window, fence, at_line_start=at_line_start, limit=limit), True


def _fitting(text: str, room: int) -> int:
    """The number of characters that fit."""
    if text.isascii():
        return min(len(text), room)
    used = 0
    for number, character in enumerate(text):
        used += 2 if character > "\uffff" else 1
        if used > room:
            return max(1, number)
    return len(text)


def _cut(text: str, window: int, fence: OpenCodeFence | None, *, at_line_start: bool, limit: int) -> int:
    least = int(window * _LEAST_FILLED)
    head = text[:window]
    for pattern in (_PARAGRAPH, _LINE, _SENTENCE, _WORD):
        found = _last(pattern, head, least)
        if found is None:
            continue
        if pattern is not _PARAGRAPH or fence is not None:
            return found
        # Prefer a cut before a code block to one inside it.
        left = fence_after(text[:found], None, at_line_start=at_line_start, limit=limit)
        if left is None:
            return found
        begin = head[:found].rfind(f"{left.line}\n")
        return begin if begin > least else found
    return _whole_character(text, _outside_fence_line(text, window))


def _last(pattern: re.Pattern[str], head: str, least: int) -> int | None:
    ends = [found.end() for found in pattern.finditer(head)]
    return ends[-1] if ends and ends[-1] > least else None


def _outside_fence_line(text: str, end: int) -> int:
    """Keep the line that opens or closes a code block whole."""
    begin = text.rfind("\n", 0, end) + 1
    is_short = end - begin <= _MAX_FENCE
    return begin if 0 < begin < end and is_short and text[begin:end].lstrip()[:1] in ("`", "~") else end


def _whole_character(text: str, end: int) -> int:
    """Do not cut between a letter and its accent, or within an emoji of several code points."""
    back = end
    while 1 < back < len(text) and end - back < _LONGEST_CHARACTER and _is_inside(text, back):
        back -= 1
    return back if end - back < _LONGEST_CHARACTER else end


def _is_inside(text: str, place: int) -> bool:
    sign = text[place]
    is_joined = unicodedata.combining(sign) != 0 or sign in _JOINING or "\U0001f3fb" <= sign <= "\U0001f3ff"
    return is_joined or text[place - 1] == "\u200d" or text[place - 1 : place + 1] == "\r\n"


def _longest_fence(limit: int) -> int:
    return min(_MAX_FENCE, limit // 4)


def fence_after(
    source: str, fence: OpenCodeFence | None, *, at_line_start: bool, limit: int
) -> OpenCodeFence | None:
    """The code block that is open at the end of a text."""
    for number, line in enumerate(source.split("\n")):
        if number == 0 and not at_line_start:
            continue
        found = _FENCE.fullmatch(line.rstrip("\r"))
        if found is None or len(line) > _longest_fence(limit):
            continue
        mark, words = found[1], found[2].strip()
        if fence is None:
            fence = OpenCodeFence(line.strip(), mark)
        elif mark[0] == fence.mark[0] and len(mark) >= len(fence.mark) and not words:
            fence = None
    return fence
