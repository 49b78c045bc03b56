"""Canonical paths, resolved symlink by symlink as the kernel does."""

import os
from pathlib import Path

# The kernel's own limit: it treats longer chains as a loop, too.
MAX_LINKS = 40


def canonicalize(path: str) -> str | None:
    """Resolve every symlink and `..` as the kernel does; missing parts are kept. None for a loop.

    Not `realpath`: that has no limit for a long chain of symlinks.
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
    """Resolve every symlink except the last part."""
    whole = Path(joined)
    if whole.name in {"", ".."}:
        return canonicalize(joined)
    above = canonicalize(str(whole.parent))
    return above and str(Path(above) / whole.name)
