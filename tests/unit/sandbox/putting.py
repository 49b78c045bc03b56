"""Writing a file whole, new or over an old one, as tools do it."""

import os
from contextlib import contextmanager
from pathlib import Path

from interlock.sandbox.file_io import open_file, write_atomically
from interlock.sandbox.paths import PathAccess

IS_ROOT = os.geteuid() == 0


def nothing() -> None:
    """A check that finds nothing wrong."""


@contextmanager
def parent_of(roots, asked: str):
    with roots.resolver.parent(roots.resolver.find(asked, PathAccess.write), make=True) as parent:
        yield parent


def create(roots, asked: str, *pieces: bytes, before_commit=nothing) -> None:
    with parent_of(roots, asked) as parent:
        write_atomically(parent, iter(pieces), like=None, before_commit=before_commit)


def replace(roots, asked: str, *pieces: bytes, before_commit=nothing) -> None:
    place = roots.resolver.find(asked, PathAccess.write)
    with open_file(roots.resolver, place) as like, parent_of(roots, asked) as parent:
        write_atomically(parent, iter(pieces), like=like, before_commit=before_commit)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
