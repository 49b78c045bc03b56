"""What stands for a pattern where all of it would be too much: a looser one, its head, how it begins.

A scanner asks these first, and the pattern itself only where they say that it may match.
"""

import re
from functools import cache

from interlock.redaction.patterns import (
    Assertion,
    Choice,
    Group,
    Node,
    One,
    Repeat,
    Sequence,
    least_length,
)

_COUNTED = 3
# What ends a word in a stream.
_SPACES = frozenset(b" \n")
_MAX_SPACED = 12
_LAST_ASCII = 0x7F
_NOTHING = Sequence(())


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
