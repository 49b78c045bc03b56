"""Writing a file whole, new or over an old one, as tools do it."""

import os
from contextlib import contextmanager
from pathlib import Path

from interlock.sandbox.file_io import open_file, staged_file
from interlock.sandbox.paths import PathAccess

IS_ROOT = os.geteuid() == 0


def nothing() -> None:
    """A check that finds nothing wrong."""


@contextmanager
def parent_of(roots, asked: str):
    with roots.resolver.parent(roots.resolver.find(asked, PathAccess.write), make=True) as parent:
        yield parent


def create(roots, asked: str, *pieces: bytes, before_commit=nothing) -> None:
    with parent_of(roots, asked) as parent, staged_file(parent, pieces, like=None) as put:
        before_commit()
        put()


def replace(roots, asked: str, *pieces: bytes, before_commit=nothing) -> None:
    place = roots.resolver.find(asked, PathAccess.write)
    with (
        open_file(roots.resolver, place) as like,
        parent_of(roots, asked) as parent,
        staged_file(parent, pieces, like=like) as put,
    ):
        before_commit()
        put()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
