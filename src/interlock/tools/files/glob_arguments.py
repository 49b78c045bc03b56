"""Patterns given by a model. They only select among visible files."""

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.text import safe_excerpt
from interlock.sandbox.globs import Glob, InvalidGlob, expand_braces
from interlock.sandbox.paths import PathResolver, ResolvedPath

__all__ = ["Glob", "judged_pattern"]

_SPECIAL = set("*?[")


def judged_pattern(pattern: str, argument: str, place: ResolvedPath, resolver: PathResolver) -> Glob:
    """The compiled pattern, after every literal directory in it was found to be inside."""
    if "\0" in pattern:
        raise _invalid(argument, "it must not contain a null character")
    try:
        glob, texts = Glob(pattern), expand_braces(pattern)
    except InvalidGlob as error:
        raise _invalid(argument, str(error)) from None
    if any(text.startswith("/") for text in texts):
        raise _leads_out(argument, pattern)
    for parts in glob.alternatives:
        if ".." in parts:
            raise _leads_out(argument, pattern)
        named = []
        for part in parts[:-1]:
            if set(part) & _SPECIAL:
                break
            named.append(part)
        if named:
            resolver.find(str(place.path.joinpath(*named)))
    return glob


def _invalid(argument: str, reason: str) -> ToolError:
    return ToolError(ErrorCode.INVALID_ARGS, f"{argument}: {reason}", "Correct the pattern.")


def _leads_out(argument: str, pattern: str) -> ToolError:
    return ToolError(
        ErrorCode.PATH_DENIED,
        f"{argument}: {safe_excerpt(pattern, 200)} leads out of the searched folder",
        "Use a pattern below the folder, and choose the folder with path.",
    )
