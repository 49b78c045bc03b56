"""Cheaper patterns derived from a rule's pattern: a looser one, its head, its first characters.

A scanner tries these first, and the pattern itself only where it may match.
"""

import re
from functools import cache

from interlock.redaction.pattern_parser import (
    AssertionNode,
    CharacterNode,
    ChoiceNode,
    GroupNode,
    PatternNode,
    RepeatNode,
    SequenceNode,
    min_match_length,
)

_COUNTED = 3
# The end of a word in a stream.
_SPACES = frozenset(b" \n")
_MAX_SPACED = 12
_LAST_ASCII = 0x7F
_NOTHING = SequenceNode(())


def relax_pattern(node: PatternNode) -> PatternNode:
    """A pattern that matches wherever this one does, with far fewer states: it counts to three at most."""
    match node:
        case CharacterNode() | AssertionNode():
            return node
        case SequenceNode(parts):
            return SequenceNode(tuple(map(relax_pattern, parts)))
        case ChoiceNode(options):
            return ChoiceNode(tuple(map(relax_pattern, options)))
        case GroupNode(opening, inner):
            return GroupNode(opening, relax_pattern(inner))
        case RepeatNode(inner, least, most, is_lazy):
            is_short = most is not None and most <= _COUNTED
            return RepeatNode(
                relax_pattern(inner), min(least, _COUNTED), most if is_short else None, is_lazy
            )


def head_pattern(node: PatternNode) -> PatternNode:
    """What every match begins with: all of it up to its first space or line end, or all of it."""
    unspaced, until_space = _apart(node)
    return _any_of(unspaced, until_space) or _NOTHING


def _apart(node: PatternNode) -> tuple[PatternNode | None, PatternNode | None]:
    """Matches without a space, and beginnings of matches up to their first one; None if there are none."""
    match node:
        case CharacterNode(source):
            return _one_apart(source)
        case AssertionNode():
            return node, None
        case SequenceNode(parts):
            return _sequence_apart(parts)
        case ChoiceNode(options):
            sides = zip(*map(_apart, options), strict=True)
            unspaced, until_space = (_any_of(*side) for side in sides)
            return unspaced, until_space
        case GroupNode(opening, inner):
            unspaced, until_space = _apart(inner)
            return (unspaced and GroupNode(opening, unspaced)), (
                until_space and GroupNode(opening, until_space)
            )
        case RepeatNode(inner, least, most, is_lazy):
            unspaced, until_space = _apart(inner)
            if unspaced is None:
                return (None if least else _NOTHING), until_space
            if until_space is not None:
                before = RepeatNode(unspaced, 0, None if most is None else max(most - 1, 0), is_lazy)
                until_space = SequenceNode((before, until_space))
            return RepeatNode(unspaced, least, most, is_lazy), until_space


def _sequence_apart(parts: tuple[PatternNode, ...]) -> tuple[PatternNode | None, PatternNode | None]:
    sides = [_apart(part) for part in parts]
    befores = tuple(before for before, _ in sides if before is not None)
    unspaced = SequenceNode(befores) if len(befores) == len(parts) else None
    until_space: PatternNode | None = None
    spaced = [number for number, (_, with_space) in enumerate(sides) if with_space is not None]
    if len(spaced) > _MAX_SPACED:
        # A head may be shorter than possible, and must not be nested without end.
        until_space = _NOTHING
        del sides[spaced[_MAX_SPACED] :]
    for before, with_space in reversed(sides):
        until_space = _any_of(with_space, _both(before, until_space))
    return unspaced, until_space


def _both(first: PatternNode | None, second: PatternNode | None) -> PatternNode | None:
    if first is None or second is None:
        return None
    return (
        SequenceNode((first, *second.parts))
        if isinstance(second, SequenceNode)
        else SequenceNode((first, second))
    )


def _any_of(*options: PatternNode | None) -> PatternNode | None:
    possible = tuple(option for option in options if option is not None)
    return possible[0] if len(possible) == 1 else ChoiceNode(possible) if possible else None


@cache
def _one_apart(source: str) -> tuple[PatternNode | None, PatternNode | None]:
    members = _bytes_of(source)
    spaces, others = members & _SPACES, members - _SPACES
    if not spaces:
        return CharacterNode(source), None
    return (CharacterNode(_class_of(others)) if others else None), CharacterNode(_class_of(spaces))


def first_characters(node: PatternNode) -> frozenset[str] | None:
    """The characters beyond ASCII that a match can begin with; None if it can be any."""
    match node:
        case CharacterNode(source):
            if not source.isascii():
                return frozenset(source)
            return None if max(_bytes_of(source), default=0) > _LAST_ASCII else frozenset()
        case AssertionNode():
            return frozenset()
        case SequenceNode(parts):
            filled = (number for number, part in enumerate(parts, 1) if min_match_length(part))
            return _firsts_of(parts[: next(filled, None)])
        case ChoiceNode(options):
            return _firsts_of(options)
        case GroupNode(opening, inner):
            found = first_characters(inner)
            # Ignoring case, the bytes of such a character match others too.
            return None if found and "i" in opening else found
        case RepeatNode(inner, _, _, _):
            return first_characters(inner)


def _firsts_of(nodes: tuple[PatternNode, ...]) -> frozenset[str] | None:
    found: frozenset[str] = frozenset()
    for node in nodes:
        more = first_characters(node)
        if more is None:
            return None
        found |= more
    return found


@cache
def _bytes_of(source: str) -> frozenset[int]:
    """The bytes that one character of a pattern matches; empty for a character of several bytes."""
    if not source.isascii():
        return frozenset()
    members = {found[0] for found in re.findall(source.encode(), bytes(range(256)), re.DOTALL)}
    # The two engines disagree on whether this is white space.
    return frozenset(members | {0x0B} if "\\s" in source.lower() else members)


def _class_of(members: frozenset[int]) -> str:
    return "[" + "".join(rf"\x{member:02x}" for member in sorted(members)) + "]"
