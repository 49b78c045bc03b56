"""Parses rule patterns: a plain subset of regular expressions, so that a stream can be cut anywhere.

A pattern may have characters, escapes, classes, groups, alternatives, repetitions and the assertions `^ $
\\b \\B`. Without lookaround it matches in linear time; and a pattern for all beginnings of its matches can
be derived from it (`prefix_pattern`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

_ASSERTIONS = frozenset({"^", "$", r"\b", r"\B"})
_SPECIAL = frozenset("|()*+?{}[]")


class InvalidPattern(ValueError):
    """Why a text is not a valid pattern for a rule."""


@dataclass(frozen=True, slots=True)
class CharacterNode:
    """One character: as itself, escaped, or any of a class."""

    source: str


@dataclass(frozen=True, slots=True)
class AssertionNode:
    source: str


@dataclass(frozen=True, slots=True)
class SequenceNode:
    parts: "tuple[PatternNode, ...]"


@dataclass(frozen=True, slots=True)
class ChoiceNode:
    options: "tuple[PatternNode, ...]"


@dataclass(frozen=True, slots=True)
class RepeatNode:
    """`most` is None if it is unlimited."""

    node: "PatternNode"
    least: int
    most: int | None
    is_lazy: bool


@dataclass(frozen=True, slots=True)
class GroupNode:
    """`opening` is its first characters: `(`, `(?:` or with flags `(?i:`."""

    opening: str
    node: "PatternNode"


PatternNode = CharacterNode | AssertionNode | SequenceNode | ChoiceNode | RepeatNode | GroupNode


def parse(pattern: str) -> PatternNode:
    """The pattern as a tree. Raises `InvalidPattern` with the offset of the fault."""
    return _Reader(pattern).whole()


def to_source(node: PatternNode, *, catching: bool = False) -> str:
    """The pattern as text; only when `catching`, with the groups that capture the secret."""

    def source(node: PatternNode) -> str:
        match node:
            case CharacterNode(text) | AssertionNode(text):
                return text
            case SequenceNode(parts):
                return "".join(map(source, parts))
            case ChoiceNode(options):
                return f"(?:{'|'.join(map(source, options))})"
            case RepeatNode(inner, least, most, is_lazy):
                return f"(?:{source(inner)}){_count(least, most)}{'?' * is_lazy}"
            case GroupNode(opening, inner):
                return f"{'(?:' if opening == '(' and not catching else opening}{source(inner)})"

    return source(node)


def prefix_pattern(node: PatternNode) -> str:
    """A pattern for every prefix of a match, the empty text and a whole match included."""
    match node:
        case CharacterNode(source):
            return f"(?:{source})?"
        case AssertionNode():
            # Undecided until the next character arrives.
            return ""
        case SequenceNode(parts):
            return _beginnings_of_all(parts)
        case ChoiceNode(options):
            return f"(?:{'|'.join(map(prefix_pattern, options))})"
        case RepeatNode(CharacterNode(source), _, most, _):
            return f"(?:{source}){_count(0, most)}"
        case RepeatNode(inner, _, most, _):
            before = _count(0, None if most is None else max(most - 1, 0))
            return f"(?:{to_source(inner)}){before}{prefix_pattern(inner)}"
        case GroupNode(opening, inner):
            return f"{'(?:' if opening == '(' else opening}{prefix_pattern(inner)})"


def _beginnings_of_all(parts: tuple[PatternNode, ...]) -> str:
    text = ""
    for part in reversed(parts):
        whole = to_source(part)
        match part:
            case CharacterNode() | AssertionNode():
                text = f"(?:{whole}{text})?"
            case _:
                text = f"(?:{prefix_pattern(part)}|{whole}{text})"
    return text


def count_groups(node: PatternNode) -> int:
    """The number of capturing groups."""
    match node:
        case CharacterNode() | AssertionNode():
            return 0
        case SequenceNode(parts):
            return sum(map(count_groups, parts))
        case ChoiceNode(options):
            return sum(map(count_groups, options))
        case RepeatNode(inner, _, _, _):
            return count_groups(inner)
        case GroupNode(opening, inner):
            return (opening == "(") + count_groups(inner)


def min_match_length(node: PatternNode) -> int:
    """The smallest number of characters in a match."""
    match node:
        case CharacterNode():
            return 1
        case AssertionNode():
            return 0
        case SequenceNode(parts):
            return sum(map(min_match_length, parts))
        case ChoiceNode(options):
            return min(map(min_match_length, options))
        case RepeatNode(inner, least, _, _):
            return least * min_match_length(inner)
        case GroupNode(_, inner):
            return min_match_length(inner)


def _count(least: int, most: int | None) -> str:
    match least, most:
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case 0, 1:
            return "?"
        case _:
            return f"{{{least},{'' if most is None else most}}}"


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def whole(self) -> PatternNode:
        node = self._choice()
        if self._at < len(self._pattern):
            raise self._bad("unexpected closing bracket")
        return node

    def _choice(self) -> PatternNode:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else ChoiceNode(tuple(options))

    def _sequence(self) -> PatternNode:
        parts = tuple(self._parts())
        return parts[0] if len(parts) == 1 else SequenceNode(parts)

    def _parts(self) -> Iterator[PatternNode]:
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            yield self._repeated(self._atom())

    def _atom(self) -> PatternNode:
        start = self._at
        if self._take("("):
            return self._group()
        if self._take("["):
            return CharacterNode(self._class(start))
        if self._take("\\"):
            return self._escape(start)
        character = self._pattern[self._at]
        if character in _SPECIAL:
            raise self._bad(f"unexpected {character!r}; a character is expected")
        self._at += 1
        return AssertionNode(character) if character in _ASSERTIONS else CharacterNode(character)

    def _group(self) -> PatternNode:
        opening = "("
        if self._take("?"):
            start = self._at
            while self._at < len(self._pattern) and self._pattern[self._at] in "imsU-":
                self._at += 1
            opening = f"(?{self._pattern[start : self._at]}:"
            if not self._take(":"):
                raise self._bad("a group must be (…), (?:…) or have flags (?i:…)")
        node = self._choice()
        if not self._take(")"):
            raise self._bad("a bracket is not closed")
        return GroupNode(opening, node)

    def _class(self, start: int) -> str:
        self._take("^")
        self._take("]")
        while not self._take("]"):
            self._at += 2 if self._pattern[self._at : self._at + 1] == "\\" else 1
            if self._at >= len(self._pattern):
                raise self._bad("a class is not closed")
        source = self._pattern[start : self._at]
        if not source.isascii():
            raise self._bad("a class can contain only ASCII characters; use alternatives for others")
        return source

    def _escape(self, start: int) -> PatternNode:
        kind = self._pattern[self._at : self._at + 1]
        if kind == "x" and self._pattern[self._at + 1 : self._at + 2] != "{":
            self._at += 3
            return CharacterNode(self._pattern[start : self._at])
        if kind == "" or (kind.isalnum() and kind not in "dDsSwWbBntrfv"):
            raise self._bad(f"unknown escape \\{kind}")
        self._at += 1
        source = self._pattern[start : self._at]
        return AssertionNode(source) if source in _ASSERTIONS else CharacterNode(source)

    def _repeated(self, node: PatternNode) -> PatternNode:
        least, most = self._counts()
        if (least, most) == (1, 1):
            return node
        if isinstance(node, AssertionNode):
            raise self._bad("an assertion cannot be repeated")
        return RepeatNode(node, least, most, is_lazy=self._take("?"))

    def _counts(self) -> tuple[int, int | None]:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return counts
        if not self._take("{"):
            return 1, 1
        end = self._pattern.find("}", self._at)
        first, comma, last = self._pattern[self._at : max(end, self._at)].partition(",")
        if end == -1 or not first.isdecimal() or (last and not last.isdecimal()):
            raise self._bad("a count must be {n}, {n,} or {n,m}")
        self._at = end + 1
        return int(first), int(last) if last else None if comma else int(first)

    def _take(self, sign: str) -> bool:
        if self._pattern.startswith(sign, self._at):
            self._at += len(sign)
            return True
        return False

    def _bad(self, reason: str) -> InvalidPattern:
        return InvalidPattern(f"{reason}, at offset {self._at}")
