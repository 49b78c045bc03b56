"""Brace expansion of a parsed word: `{a,b}` and `{1..3}`, as bash does it before anything else."""

import re
from itertools import pairwise

from interlock.commands.syntax_tree import LiteralText, Part, Word

MAX_ALTERNATIVES = 256
MAX_WORK = 20_000
MAX_NESTED = 16

_BRACE = re.compile(r"[{},]|[^{},]+")
_RANGE = re.compile(r"(-?\d{1,9}|[A-Za-z])\.\.(-?\d{1,9}|[A-Za-z])(?:\.\.(-?\d{1,9}))?", re.ASCII)


class _TooMany(Exception):
    """The word expands to more words than a person would write."""


def expand_braces(word: Word) -> list[Word]:
    """Every word it expands to; the word itself without braces, or with far too many."""
    if not any(isinstance(part, LiteralText) and not part.quoted and "{" in part.text for part in word):
        return [word]
    parts = _split(word)
    partners, commas = _pairs(parts)
    try:
        return [tuple(found) for found in _Expansion(parts, partners, commas).between(0, len(parts), 0)]
    except _TooMany:
        return [word]


def _split(word: Word) -> list[Part]:
    parts: list[Part] = []
    for part in word:
        if isinstance(part, LiteralText) and not part.quoted:
            parts.extend(LiteralText(piece, quoted=False) for piece in _BRACE.findall(part.text))
        else:
            parts.append(part)
    return parts


def _is(part: Part, sign: str) -> bool:
    return isinstance(part, LiteralText) and not part.quoted and part.text == sign


def _pairs(parts: list[Part]) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Where each opening brace is closed, and the commas that are its own."""
    partners: dict[int, int] = {}
    commas: dict[int, list[int]] = {}
    opened: list[int] = []
    for index, part in enumerate(parts):
        if _is(part, "{"):
            opened.append(index)
            commas[index] = []
        elif _is(part, ",") and opened:
            commas[opened[-1]].append(index)
        elif _is(part, "}") and opened:
            partners[opened.pop()] = index
    return partners, commas


class _Expansion:
    def __init__(self, parts: list[Part], partners: dict[int, int], commas: dict[int, list[int]]) -> None:
        self._parts, self._partners, self._commas = parts, partners, commas
        self._work = 0

    def between(self, start: int, end: int, depth: int) -> list[list[Part]]:
        if depth > MAX_NESTED:
            raise _TooMany
        found: list[list[Part]] = [[]]
        index = start
        while index < end:
            choices = self._choices(index, depth)
            self._work += len(found) * len(choices or (1,))
            if self._work > MAX_WORK or len(found) * len(choices) > MAX_ALTERNATIVES:
                raise _TooMany
            if choices:
                found = [[*left, *right] for left in found for right in choices]
                self._work += sum(map(len, found))
                index = self._partners[index] + 1
            else:
                for each in found:
                    each.append(self._parts[index])
                index += 1
        return found

    def _choices(self, index: int, depth: int) -> list[list[Part]]:
        """The expansions of the braces that open here; none if they are literal."""
        closed = self._partners.get(index)
        if closed is None:
            return []
        if self._commas[index]:
            edges = [index, *self._commas[index], closed]
            return [
                found
                for left, right in pairwise(edges)
                for found in self.between(left + 1, right, depth + 1)
            ]
        inside = self._parts[index + 1]
        if closed == index + 2 and isinstance(inside, LiteralText) and not inside.quoted:
            return [[LiteralText(text, quoted=False)] for text in _range(inside.text)]
        return []


def _range(text: str) -> list[str]:
    found = _RANGE.fullmatch(text)
    if found is None or found[1].isalpha() != found[2].isalpha():
        return []
    is_letters = found[1].isalpha()
    first, last = (ord(each) if is_letters else int(each) for each in found.group(1, 2))
    step = abs(int(found[3] or 1)) or 1
    if abs(last - first) // step >= MAX_ALTERNATIVES:
        raise _TooMany
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    width = max(map(len, found.group(1, 2))) if re.search(r"(?:^|\.)-?0\d", text) else 0
    return [chr(number) if is_letters else f"{number:0{width}d}" for number in numbers]
