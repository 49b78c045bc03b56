"""Shell patterns, matched part by part: `*`, `?`, `[…]`, `{a,b}`, and `**` for any depth."""

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache
from itertools import pairwise

MAX_ALTERNATIVES = 64
MAX_LENGTH = 4096
MAX_NESTED_BRACES = 16
ANY_DEPTH = "**"


class InvalidGlob(ValueError):
    """The message says what is wrong with it."""


class Glob:
    """One pattern. Without a slash it is matched against a path's last part, else against all of it."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        flags = re.IGNORECASE if ignore_case else 0
        texts = expand_braces(pattern)
        self.alternatives = [_parts(text) for text in texts]
        self._compiled = [[_compiled(part, flags) for part in parts] for parts in self.alternatives]
        self._is_name = ["/" not in text.rstrip("/") for text in texts]

    def matches(self, path: Sequence[str]) -> bool:
        return any(
            bool(path) and _match(parts, path[-1:]) if is_name else _match(parts, path)
            for parts, is_name in zip(self._compiled, self._is_name, strict=True)
        )

    def matches_whole(self, path: Sequence[str]) -> bool:
        """Whether it matches the path from its first part to its last."""
        return any(_match(parts, path) for parts in self._compiled)


def expand_braces(pattern: str) -> list[str]:
    """`{a,b}c` as `ac` and `bc`. Braces without a comma, or without their partner, mean themselves."""
    if len(pattern) > MAX_LENGTH:
        raise InvalidGlob(f"it is longer than {MAX_LENGTH} characters")
    return _expand(pattern, MAX_NESTED_BRACES)


def _expand(pattern: str, depth: int) -> list[str]:
    found, done = [""], 0
    for start, commas, end in _choices(pattern):
        if depth == 0:
            raise InvalidGlob(f"its braces are nested more than {MAX_NESTED_BRACES} deep")
        edges = [start, *commas, end]
        choices = [
            text
            for left, right in pairwise(edges)
            for text in _expand(pattern[left + 1 : right], depth - 1)
        ]
        if len(found) * len(choices) > MAX_ALTERNATIVES:
            raise InvalidGlob(f"it expands to more than {MAX_ALTERNATIVES} patterns")
        found = [f"{text}{pattern[done:start]}{choice}" for text in found for choice in choices]
        done = end + 1
    return [f"{text}{pattern[done:]}" for text in found]


def _choices(pattern: str) -> list[tuple[int, list[int], int]]:
    """The outermost braces with a comma of their own: where they open, their commas, where they close."""
    open_braces: list[tuple[int, list[int]]] = []
    found: list[tuple[int, list[int], int]] = []
    for index, character in enumerate(pattern):
        if character == "{":
            open_braces.append((index, []))
        elif character == "," and open_braces:
            open_braces[-1][1].append(index)
        elif character == "}" and open_braces:
            start, commas = open_braces.pop()
            if commas:
                while found and found[-1][0] > start:
                    found.pop()
                found.append((start, commas, index))
    return found


def _parts(pattern: str) -> list[str]:
    parts: list[str] = []
    for part in pattern.split("/"):
        # Any depth twice is any depth, and only makes matching slower.
        if part not in {"", "."} and not (part == ANY_DEPTH and parts[-1:] == [ANY_DEPTH]):
            parts.append(part)
    if not parts:
        raise InvalidGlob("it matches nothing")
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
    """`**` may match no directory at all."""
    # Never two of them in a row: one step further is far enough.
    return reached | {
        position + 1 for position in reached if position < len(parts) and parts[position] is None
    }
