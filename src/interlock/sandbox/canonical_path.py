"""The canonical form of a path, found link by link as the kernel finds it."""

import os
from pathlib import Path

# The kernel's own bound: what passes through more links is a loop to it, too.
MAX_LINKS = 40


def canonicalize(path: str) -> str | None:
    """Every link and `..` resolved as the kernel does, and what is missing taken as it is. None for a loop.

    Not `realpath`: that has no bound of its own on a long chain of links.
    """
    current, links = "", 0
    ahead = path.split("/")[::-1]
    while ahead:
        part = ahead.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            current = current.rpartition("/")[0]
            continue
        step = f"{current}/{part}"
        try:
            target = os.readlink(step)  # noqa: PTH115 - a Path would tidy it up
        except OSError:
            current = step
            continue
        links += 1
        if links > MAX_LINKS:
            return None
        current = "" if target.startswith("/") else current
        ahead.extend(reversed(target.split("/")))
    return current or "/"


def canonicalize_parent(joined: str) -> str | None:
    """Every link resolved but the last part, which is the thing itself."""
    whole = Path(joined)
    if whole.name in {"", ".."}:
        return canonicalize(joined)
    above = canonicalize(str(whole.parent))
    return above and str(Path(above) / whole.name)
