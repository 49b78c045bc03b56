"""Writing a file whole, new or over an old one, as tools do it."""

import os
from contextlib import contextmanager
from pathlib import Path

from interlock.sandbox.files import opened_file, put
from interlock.sandbox.paths import Access

IS_ROOT = os.geteuid() == 0


def nothing() -> None:
    """A check that finds nothing wrong."""


@contextmanager
def parent_of(roots, asked: str):
    with roots.territory.parent(roots.territory.find(asked, Access.write), make=True) as parent:
        yield parent


def create(roots, asked: str, *pieces: bytes, before_commit=nothing) -> None:
    with parent_of(roots, asked) as parent:
        put(parent, iter(pieces), like=None, before_commit=before_commit)


def replace(roots, asked: str, *pieces: bytes, before_commit=nothing) -> None:
    place = roots.territory.find(asked, Access.write)
    with opened_file(roots.territory, place) as like, parent_of(roots, asked) as parent:
        put(parent, iter(pieces), like=like, before_commit=before_commit)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
