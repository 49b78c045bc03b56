"""Reads the patterns of rules: a plain subset of regular expressions, so that a stream can be cut anywhere.

What a pattern may consist of: characters, escapes, classes, groups, alternatives, repetitions and the
assertions `^ $ \\b \\B`. Nothing that looks ahead or back, so it is matched in linear time; and of every
such pattern it can be told which texts are the beginning of a match (`beginnings_of`).
"""

from collections.abc import Iterator

from interlock.infra.records import dataclass

_ASSERTIONS = frozenset({"^", "$", r"\b", r"\B"})
_SPECIAL = frozenset("|()*+?{}[]")


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
            raise self._bad("unexpected closing bracket")
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
            raise self._bad(f"unexpected {character!r}; a character is expected")
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
                raise self._bad("a group must be (…), (?:…) or have flags (?i:…)")
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
            raise self._bad("a class can contain only ASCII characters; use alternatives for others")
        return source

    def _escape(self, start: int) -> Node:
        kind = self._pattern[self._at : self._at + 1]
        if kind == "x" and self._pattern[self._at + 1 : self._at + 2] != "{":
            self._at += 3
            return One(self._pattern[start : self._at])
        if kind == "" or (kind.isalnum() and kind not in "dDsSwWbBntrfv"):
            raise self._bad(f"unknown escape \\{kind}")
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
            raise self._bad("a count must be {n}, {n,} or {n,m}")
        self._at = end + 1
        return int(first), int(last) if last else None if comma else int(first)

    def _take(self, sign: str) -> bool:
        if self._pattern.startswith(sign, self._at):
            self._at += len(sign)
            return True
        return False

    def _bad(self, reason: str) -> BadPattern:
        return BadPattern(f"{reason}, at offset {self._at}")
