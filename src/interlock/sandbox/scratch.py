"""Where folders for a while are made: never in an opened one, where a command of somebody else could change
what is in them, or put a link in their place."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

from interlock.sandbox.jobs import SandboxUnavailable

_USUAL_PLACES = ("/tmp", "/var/tmp")  # noqa: S108 - a new folder is made there


def place_outside(opened: Iterable[Path]) -> Path:
    """By its real path."""
    roots = tuple(opened)
    for name in (tempfile.gettempdir(), *_USUAL_PLACES):
        place = Path(name).resolve()
        if place.is_dir() and not any(place.is_relative_to(root) for root in roots):
            return place
    raise SandboxUnavailable("all places for temporary files are opened folders; set TMPDIR to another one")
