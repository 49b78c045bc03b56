"""Walks a directory in a fixed order, opening each directory from its parent. Follows no symlinks."""

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from interlock.core.files import open_beneath

# An open directory costs a descriptor; deeper trees are walked to this depth.
MAX_DEPTH = 200

# No permission; removed or replaced meanwhile; or a broken disk or connection.
_UNREACHABLE = frozenset(
    {errno.EACCES, errno.EPERM, errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EXDEV}
    | {errno.EIO, errno.ESTALE, errno.ENOTCONN}
)


class EntryKind(StrEnum):
    folder = "folder"
    file = "file"
    link = "link"
    other = "other"


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """An entry below the walked directory. `folder` is the descriptor of its parent."""

    parts: tuple[str, ...]
    kind: EntryKind
    folder: int

    @property
    def name(self) -> str:
        return self.parts[-1]


Descend = Callable[[DirectoryEntry], bool]


def walk(
    top: int,
    *,
    max_depth: int = MAX_DEPTH,
    after: tuple[str, ...] = (),
    descend: Descend = lambda _entry: True,
) -> Iterator[DirectoryEntry]:
    """Everything below an open directory, each directory before its content, by name.

    With `after`, entries before or at that path are skipped without being read.
    """
    if max_depth > 0:
        yield from _walk(top, entries(top), (), after, min(max_depth, MAX_DEPTH), descend)


def _walk(
    folder: int,
    listed: list[tuple[str, EntryKind]],
    above: tuple[str, ...],
    after: tuple[str, ...],
    depth: int,
    descend: Descend,
) -> Iterator[DirectoryEntry]:
    skip_to = after[0] if after else ""
    for name, kind in listed:
        if name < skip_to:
            continue
        is_passed = bool(after) and name == skip_to
        entry = DirectoryEntry((*above, name), kind, folder)
        if not is_passed:
            yield entry
        if kind is EntryKind.folder and depth > 1 and descend(entry):
            below = _opened(folder, name)
            if below is None:
                continue
            try:
                listed_below = _listed(below)
                further = after[1:] if is_passed else ()
                yield from _walk(below, listed_below, entry.parts, further, depth - 1, descend)
            finally:
                os.close(below)


def entries(folder: int) -> list[tuple[str, EntryKind]]:
    """The entries of an open directory, by name."""
    with os.scandir(folder) as found:
        return sorted((entry.name, _kind(entry)) for entry in found)


def _kind(entry: "os.DirEntry[str]") -> EntryKind:
    if entry.is_symlink():
        return EntryKind.link
    if entry.is_dir(follow_symlinks=False):
        return EntryKind.folder
    return EntryKind.file if entry.is_file(follow_symlinks=False) else EntryKind.other


def _listed(folder: int) -> list[tuple[str, EntryKind]]:
    """Empty for a directory below the top that opens but cannot be read to its end."""
    try:
        return entries(folder)
    except OSError as error:
        if error.errno in _UNREACHABLE:
            return []
        raise


def _opened(folder: int, name: str) -> int | None:
    """None for a directory that may not be read, or was removed or replaced by a symlink."""
    try:
        return open_beneath(folder, name, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno in _UNREACHABLE:
            return None
        raise
