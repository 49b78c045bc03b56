"""Reads the patterns of rules: a plain subset of regular expressions, so that a stream can be cut anywhere.

What a pattern may consist of: characters, escapes, classes, groups, alternatives, repetitions and the
assertions `^ $ \\b \\B`. Nothing that looks ahead or back, so it is matched in linear time; and of every
such pattern it can be told which texts are the beginning of a match (`beginnings_of`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

_ASSERTIONS = frozenset({"^", "$", r"\b", r"\B"})
_SPECIAL = frozenset("|()*+?{}[]")
_COUNTED = 3
# What ends a word in a stream.
_SPACES = frozenset(b" \n")
_MAX_SPACED = 12
_LAST_ASCII = 0x7F


class BadPattern(ValueError):
    """Why a text is not a pattern that a rule may have."""


@dataclass(frozen=True, slots=True)
class One:
    """One character: as itself, escaped, or any of a class."""

    source: str


@dataclass(frozen=True, slots=True)
class Assertion:
    source: str


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    options: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """`most` is None where there is no end to it."""

    node: "Node"
    least: int
    most: int | None
    is_lazy: bool


@dataclass(frozen=True, slots=True)
class Group:
    """`opening` is how it begins: `(`, `(?:` or with flags `(?i:`."""

    opening: str
    node: "Node"


Node = One | Assertion | Sequence | Choice | Repeat | Group

_NOTHING = Sequence(())


def parse(pattern: str) -> Node:
    """The pattern as a tree, or `BadPattern` with the offset of what cannot be in a rule."""
    return _Reader(pattern).whole()


def source_of(node: Node, *, catching: bool = False) -> str:
    """The pattern again; only when `catching`, with the groups that catch what is secret in a match."""

    def source(node: Node) -> str:
        match node:
            case One(text) | Assertion(text):
                return text
            case Sequence(parts):
                return "".join(map(source, parts))
            case Choice(options):
                return f"(?:{'|'.join(map(source, options))})"
            case Repeat(inner, least, most, is_lazy):
                return f"(?:{source(inner)}){_count(least, most)}{'?' * is_lazy}"
            case Group(opening, inner):
                return f"{'(?:' if opening == '(' and not catching else opening}{source(inner)})"

    return source(node)


def beginnings_of(node: Node) -> str:
    """A pattern for every text that more text could make a match of, nothing and a whole match included."""
    match node:
        case One(source):
            return f"(?:{source})?"
        case Assertion():
            # Undecided until the next character is there.
            return ""
        case Sequence(parts):
            return _beginnings_of_all(parts)
        case Choice(options):
            return f"(?:{'|'.join(map(beginnings_of, options))})"
        case Repeat(One(source), _, most, _):
            return f"(?:{source}){_count(0, most)}"
        case Repeat(inner, _, most, _):
            before = _count(0, None if most is None else max(most - 1, 0))
            return f"(?:{source_of(inner)}){before}{beginnings_of(inner)}"
        case Group(opening, inner):
            return f"{'(?:' if opening == '(' else opening}{beginnings_of(inner)})"


def _beginnings_of_all(parts: tuple[Node, ...]) -> str:
    text = ""
    for part in reversed(parts):
        whole = source_of(part)
        match part:
            case One() | Assertion():
                text = f"(?:{whole}{text})?"
            case _:
                text = f"(?:{beginnings_of(part)}|{whole}{text})"
    return text


def relaxed(node: Node) -> Node:
    """A pattern that matches wherever this one does, with far fewer states: it counts to three at most."""
    match node:
        case One() | Assertion():
            return node
        case Sequence(parts):
            return Sequence(tuple(map(relaxed, parts)))
        case Choice(options):
            return Choice(tuple(map(relaxed, options)))
        case Group(opening, inner):
            return Group(opening, relaxed(inner))
        case Repeat(inner, least, most, is_lazy):
            is_short = most is not None and most <= _COUNTED
            return Repeat(relaxed(inner), min(least, _COUNTED), most if is_short else None, is_lazy)


def head_of(node: Node) -> Node:
    """What every match begins with: all of it up to its first space or line end, or all of it."""
    unspaced, until_space = _apart(node)
    return _any_of(unspaced, until_space) or _NOTHING


def has_spaces(node: Node) -> bool:
    """Whether a match can have a space or a line end in it."""
    return _apart(node)[1] is not None


def _apart(node: Node) -> tuple[Node | None, Node | None]:
    """Matches without a space, and beginnings of matches that end with their first one; None for none."""
    match node:
        case One(source):
            return _one_apart(source)
        case Assertion():
            return node, None
        case Sequence(parts):
            return _sequence_apart(parts)
        case Choice(options):
            sides = zip(*map(_apart, options), strict=True)
            unspaced, until_space = (_any_of(*side) for side in sides)
            return unspaced, until_space
        case Group(opening, inner):
            unspaced, until_space = _apart(inner)
            return (unspaced and Group(opening, unspaced)), (until_space and Group(opening, until_space))
        case Repeat(inner, least, most, is_lazy):
            unspaced, until_space = _apart(inner)
            if unspaced is None:
                return (None if least else _NOTHING), until_space
            if until_space is not None:
                before = Repeat(unspaced, 0, None if most is None else max(most - 1, 0), is_lazy)
                until_space = Sequence((before, until_space))
            return Repeat(unspaced, least, most, is_lazy), until_space


def _sequence_apart(parts: tuple[Node, ...]) -> tuple[Node | None, Node | None]:
    sides = [_apart(part) for part in parts]
    befores = tuple(before for before, _ in sides if before is not None)
    unspaced = Sequence(befores) if len(befores) == len(parts) else None
    until_space: Node | None = None
    spaced = [number for number, (_, with_space) in enumerate(sides) if with_space is not None]
    if len(spaced) > _MAX_SPACED:
        # A head may be shorter than it could be, and must not be nested without end.
        until_space = _NOTHING
        del sides[spaced[_MAX_SPACED] :]
    for before, with_space in reversed(sides):
        until_space = _any_of(with_space, _both(before, until_space))
    return unspaced, until_space


def _both(first: Node | None, second: Node | None) -> Node | None:
    if first is None or second is None:
        return None
    return Sequence((first, *second.parts)) if isinstance(second, Sequence) else Sequence((first, second))


def _any_of(*options: Node | None) -> Node | None:
    possible = tuple(option for option in options if option is not None)
    return possible[0] if len(possible) == 1 else Choice(possible) if possible else None


@cache
def _one_apart(source: str) -> tuple[Node | None, Node | None]:
    members = _bytes_of(source)
    spaces, others = members & _SPACES, members - _SPACES
    if not spaces:
        return One(source), None
    return (One(_class_of(others)) if others else None), One(_class_of(spaces))


def first_characters(node: Node) -> frozenset[str] | None:
    """The characters beyond ASCII that a match can begin with; None where it can be any."""
    match node:
        case One(source):
            if not source.isascii():
                return frozenset(source)
            return None if max(_bytes_of(source), default=0) > _LAST_ASCII else frozenset()
        case Assertion():
            return frozenset()
        case Sequence(parts):
            filled = (number for number, part in enumerate(parts, 1) if least_length(part))
            return _firsts_of(parts[: next(filled, None)])
        case Choice(options):
            return _firsts_of(options)
        case Group(opening, inner):
            found = first_characters(inner)
            # Without regard to case, the bytes of such a character stand for others too.
            return None if found and "i" in opening else found
        case Repeat(inner, _, _, _):
            return first_characters(inner)


def _firsts_of(nodes: tuple[Node, ...]) -> frozenset[str] | None:
    found: frozenset[str] = frozenset()
    for node in nodes:
        more = first_characters(node)
        if more is None:
            return None
        found |= more
    return found


@cache
def _bytes_of(source: str) -> frozenset[int]:
    """Which bytes one character of a pattern stands for; none where it stands for several at once."""
    if not source.isascii():
        return frozenset()
    members = {found[0] for found in re.findall(source.encode(), bytes(range(256)), re.DOTALL)}
    # The two engines do not agree on whether this is a white space.
    return frozenset(members | {0x0B} if "\\s" in source.lower() else members)


def _class_of(members: frozenset[int]) -> str:
    return "[" + "".join(rf"\x{member:02x}" for member in sorted(members)) + "]"


def groups_in(node: Node) -> int:
    """How many groups catch something."""
    match node:
        case One() | Assertion():
            return 0
        case Sequence(parts):
            return sum(map(groups_in, parts))
        case Choice(options):
            return sum(map(groups_in, options))
        case Repeat(inner, _, _, _):
            return groups_in(inner)
        case Group(opening, inner):
            return (opening == "(") + groups_in(inner)


def least_length(node: Node) -> int:
    """How many characters a match has at least."""
    match node:
        case One():
            return 1
        case Assertion():
            return 0
        case Sequence(parts):
            return sum(map(least_length, parts))
        case Choice(options):
            return min(map(least_length, options))
        case Repeat(inner, least, _, _):
            return least * least_length(inner)
        case Group(_, inner):
            return least_length(inner)


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

    def whole(self) -> Node:
        node = self._choice()
        if self._at < len(self._pattern):
            raise self._bad("a bracket is closed that was not opened")
        return node

    def _choice(self) -> Node:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Node:
        parts = tuple(self._parts())
        return parts[0] if len(parts) == 1 else Sequence(parts)

    def _parts(self) -> Iterator[Node]:
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            yield self._repeated(self._atom())

    def _atom(self) -> Node:
        start = self._at
        if self._take("("):
            return self._group()
        if self._take("["):
            return One(self._class(start))
        if self._take("\\"):
            return self._escape(start)
        character = self._pattern[self._at]
        if character in _SPECIAL:
            raise self._bad(f"{character!r} stands where a character is expected")
        self._at += 1
        return Assertion(character) if character in _ASSERTIONS else One(character)

    def _group(self) -> Node:
        opening = "("
        if self._take("?"):
            start = self._at
            while self._at < len(self._pattern) and self._pattern[self._at] in "imsU-":
                self._at += 1
            opening = f"(?{self._pattern[start : self._at]}:"
            if not self._take(":"):
                raise self._bad("a group may be (…), (?:…) or with flags (?i:…), nothing else")
        node = self._choice()
        if not self._take(")"):
            raise self._bad("a bracket is not closed")
        return Group(opening, node)

    def _class(self, start: int) -> str:
        self._take("^")
        self._take("]")
        while not self._take("]"):
            self._at += 2 if self._pattern[self._at : self._at + 1] == "\\" else 1
            if self._at >= len(self._pattern):
                raise self._bad("a class is not closed")
        source = self._pattern[start : self._at]
        if not source.isascii():
            raise self._bad("a class can only name ASCII characters; use alternatives for others")
        return source

    def _escape(self, start: int) -> Node:
        kind = self._pattern[self._at : self._at + 1]
        if kind == "x" and self._pattern[self._at + 1 : self._at + 2] != "{":
            self._at += 3
            return One(self._pattern[start : self._at])
        if kind == "" or (kind.isalnum() and kind not in "dDsSwWbBntrfv"):
            raise self._bad(f"the escape \\{kind} is not known")
        self._at += 1
        source = self._pattern[start : self._at]
        return Assertion(source) if source in _ASSERTIONS else One(source)

    def _repeated(self, node: Node) -> Node:
        least, most = self._counts()
        if (least, most) == (1, 1):
            return node
        if isinstance(node, Assertion):
            raise self._bad("an assertion cannot be repeated")
        return Repeat(node, least, most, is_lazy=self._take("?"))

    def _counts(self) -> tuple[int, int | None]:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return counts
        if not self._take("{"):
            return 1, 1
        end = self._pattern.find("}", self._at)
        first, comma, last = self._pattern[self._at : max(end, self._at)].partition(",")
        if end == -1 or not first.isdecimal() or (last and not last.isdecimal()):
            raise self._bad("a count is {n}, {n,} or {n,m}")
        self._at = end + 1
        return int(first), int(last) if last else None if comma else int(first)

    def _take(self, sign: str) -> bool:
        if self._pattern.startswith(sign, self._at):
            self._at += len(sign)
            return True
        return False

    def _bad(self, reason: str) -> BadPattern:
        return BadPattern(f"{reason}, at offset {self._at}")
