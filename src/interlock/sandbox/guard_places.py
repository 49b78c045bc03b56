"""Where protected names are, and whether anything is there."""

import os
from pathlib import Path

from interlock.sandbox.paths import Access, Place


def place_of(root: Path, parts: tuple[str, ...]) -> Place:
    return Place(root, parts, str(root.joinpath(*parts)), Access.write, follow=False)


def below(place: Place, parts: tuple[str, ...]) -> Place:
    path = "/".join((place.asked.rstrip("/"), *parts))
    return Place(place.root, (*place.parts, *parts), path, Access.write, follow=False)


def is_missing_at(place: Place) -> bool:
    """The common case, found out by one question."""
    try:
        os.stat(place.asked, follow_symlinks=False)  # noqa: PTH116 - much faster, and there are many
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def is_gone_since(place: Place, until_ns: int) -> bool:
    """Whether the folder that it was in was removed later than that, or moved away."""
    above = folder = os.path.dirname(place.asked)  # noqa: PTH120 - as text, as above
    while not os.path.lexists(above):
        above = os.path.dirname(above)  # noqa: PTH120
    return above != folder and os.lstat(above).st_ctime_ns > until_ns
