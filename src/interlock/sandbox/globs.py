"""Shell patterns, matched part by part: `*`, `?`, `[…]`, `{a,b}`, and `**` for any number of folders."""

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache

MAX_ALTERNATIVES = 64
ANY_DEPTH = "**"


class BadPattern(ValueError):
    """The sentence says what is wrong with it."""


class Glob:
    """One pattern. Without a slash it is matched against a path's last part, else against all of it."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        flags = re.IGNORECASE if ignore_case else 0
        self.alternatives = [_parts(text) for text in expand_braces(pattern)]
        self._compiled = [[_compiled(part, flags) for part in parts] for parts in self.alternatives]

    def matches(self, path: Sequence[str]) -> bool:
        return any(
            _match(parts, path) if len(parts) > 1 else bool(path) and _match(parts, path[-1:])
            for parts in self._compiled
        )

    def matches_whole(self, path: Sequence[str]) -> bool:
        """Whether it matches the path from its first part to its last."""
        return any(_match(parts, path) for parts in self._compiled)


def expand_braces(pattern: str) -> list[str]:
    """`{a,b}c` as `ac` and `bc`. Braces without a comma, or without their partner, mean themselves."""
    found = [""]
    rest = pattern
    while rest:
        opened, choices, after = _first_choice(rest)
        if choices is None:
            return [f"{text}{rest}" for text in found]
        found = [f"{text}{opened}{choice}" for text in found for choice in choices]
        if len(found) > MAX_ALTERNATIVES:
            raise BadPattern(f"it stands for more than {MAX_ALTERNATIVES} patterns")
        rest = after
    return found


def _first_choice(text: str) -> tuple[str, list[str] | None, str]:
    start = text.find("{")
    while start != -1:
        end = _partner(text, start)
        if end == -1:
            break
        choices = _split_choices(text[start + 1 : end])
        if len(choices) > 1:
            expanded = [inner for choice in choices for inner in expand_braces(choice)]
            return text[:start], expanded, text[end + 1 :]
        start = text.find("{", start + 1)
    return text, None, ""


def _partner(text: str, start: int) -> int:
    depth = 0
    for index in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return -1


def _split_choices(text: str) -> list[str]:
    choices, depth, begun = [], 0, 0
    for index, character in enumerate(text):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            choices.append(text[begun:index])
            begun = index + 1
    return [*choices, text[begun:]]


def _parts(pattern: str) -> list[str]:
    parts = [part for part in pattern.split("/") if part not in {"", "."}]
    if not parts:
        raise BadPattern("it matches nothing")
    return parts


@lru_cache(maxsize=512)
def _compiled(part: str, flags: int) -> re.Pattern[str] | None:
    return None if part == ANY_DEPTH else re.compile(translate(part), flags)


def _match(parts: Sequence[re.Pattern[str] | None], path: Sequence[str]) -> bool:
    """Which prefixes of the pattern fit the path so far, advanced part by part: never exponential."""
    reached = {0}
    for name in path:
        reached = _with_empty_depths(parts, reached)
        reached = {
            position if pattern is None else position + 1
            for position in reached
            if position < len(parts)
            and ((pattern := parts[position]) is None or pattern.match(name) is not None)
        }
        if not reached:
            return False
    return len(parts) in _with_empty_depths(parts, reached)


def _with_empty_depths(parts: Sequence[re.Pattern[str] | None], reached: set[int]) -> set[int]:
    """`**` may stand for no folder at all."""
    widened = set(reached)
    for position in sorted(reached):
        following = position
        while following < len(parts) and parts[following] is None:
            following += 1
            widened.add(following)
    return widened
