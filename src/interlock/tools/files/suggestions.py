"""Suggests what a wrong name was probably meant to be."""

import os
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice

from interlock.core.errors import ErrorCode, ToolError
from interlock.sandbox.paths import PathResolver, ResolvedPath

MAX_NAMES = 2000
_SUGGESTIONS = 3


def not_found_error(resolver: PathResolver, place: ResolvedPath) -> ToolError:
    """The error for a missing file or directory, with the most similar names next to it."""
    sentence = f"there is no {resolver.shown(place)}"
    # From the longest to the shortest: the first existing directory lacks the name. Quote a missing path as
    # a whole, never in part: a secret given as a path is masked as a whole.
    for count in range(len(place.parts) - 1, -1, -1):
        folder = _above(place, count)
        names = _names_in(resolver, folder)
        if names is None:
            continue
        if count < len(place.parts) - 1:
            sentence += f" ({resolver.shown(folder)} has no such folder)"
        near = [resolver.shown(folder, (name,)) for name in _most_like(place.parts[count], names)]
        if near:
            sentence += f"; did you mean {_either(near)}?"
        break
    next_action = "Search for it with find_files or list_files."
    return ToolError(ErrorCode.EXECUTION_ERROR, sentence, next_action, is_an_answer=True)


def _above(place: ResolvedPath, count: int) -> ResolvedPath:
    parts = place.parts[:count]
    return replace(place, parts=parts, asked=str(place.root.joinpath(*parts)))


def _names_in(resolver: PathResolver, folder: ResolvedPath) -> list[str] | None:
    try:
        with resolver.folder(folder) as descriptor, os.scandir(descriptor) as found:
            return [entry.name for entry in islice(found, MAX_NAMES)]
    except (OSError, ToolError):
        return None


def _most_like(name: str, names: list[str]) -> list[str]:
    but_for_case = [other for other in names if other.casefold() == name.casefold()]
    return but_for_case or get_close_matches(name, names, _SUGGESTIONS)


def _either(names: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
