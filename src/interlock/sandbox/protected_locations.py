"""Where protected names are, and whether they exist."""

import os
from pathlib import Path

from interlock.sandbox.paths import PathAccess, ResolvedPath


def resolved_path_of(root: Path, parts: tuple[str, ...]) -> ResolvedPath:
    return ResolvedPath(root, parts, str(root.joinpath(*parts)), PathAccess.write, follow=False)


def path_below(place: ResolvedPath, parts: tuple[str, ...]) -> ResolvedPath:
    path = "/".join((place.asked.rstrip("/"), *parts))
    return ResolvedPath(place.root, (*place.parts, *parts), path, PathAccess.write, follow=False)


def is_path_missing(place: ResolvedPath) -> bool:
    """The common case, with one system call."""
    try:
        os.stat(place.asked, follow_symlinks=False)  # noqa: PTH116 - much faster, and there are many
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def was_removed_since(place: ResolvedPath, until_ns: int) -> bool:
    """Whether its directory was removed or moved later than that."""
    above = folder = os.path.dirname(place.asked)  # noqa: PTH120 - as text, as above
    while not os.path.lexists(above):
        above = os.path.dirname(above)  # noqa: PTH120
    return above != folder and os.lstat(above).st_ctime_ns > until_ns
