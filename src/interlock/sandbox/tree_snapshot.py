"""Snapshots of protected paths: taken within limits, compared later, and restored.

Content is saved of small files only. Changes of other files are detected by attributes that a command
cannot forge (ctime is set by the kernel); those files are never removed or overwritten.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from interlock.core.errors import ToolError
from interlock.core.files import open_beneath
from interlock.sandbox.directory_walk import walk
from interlock.sandbox.file_io import create_file, lstat_entry, open_file_in
from interlock.sandbox.paths import OpenParent
from interlock.sandbox.remove_untrusted_tree import remove_entry

MAX_ENTRIES = 20_000
MAX_FILE_BYTES = 1024 * 1024
MAX_KEPT_BYTES = 16 * 1024 * 1024

Parts = tuple[str, ...]


class CannotRestore(Exception):
    """The snapshot was not complete."""


class SnapshotBudget:
    """How much content one guard may still hold in memory."""

    def __init__(self, room: int = MAX_KEPT_BYTES) -> None:
        self.room = room


@dataclass(frozen=True, slots=True)
class FileState:
    """A file, directory, symlink or other entry. `mark` changes whenever the kernel saw it change."""

    kind: str
    mode: int = 0
    owner: tuple[int, int] = (0, 0)
    target: str = ""
    mark: tuple[int, ...] = field(default=(), compare=False)
    content: bytes | None = field(default=None, compare=False)


ABSENT = FileState("nothing")


@dataclass(frozen=True, slots=True)
class TreeSnapshot:
    """The entry at a path and, for a directory, everything in it, as far as `is_whole` says."""

    top: FileState = ABSENT
    inside: dict[Parts, FileState] = field(default_factory=dict)
    is_whole: bool = True


def read_file_state(folder: int, name: str, budget: SnapshotBudget | None = None) -> FileState:
    """With a budget, a file's content is kept as far as there is room."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return ABSENT
    mode, owner = stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid)
    mark = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if stat.S_ISLNK(status.st_mode):
        return FileState("link", 0, owner, os.readlink(name, dir_fd=folder), mark)
    if stat.S_ISDIR(status.st_mode):
        return FileState("folder", mode, owner, "", mark)
    if not stat.S_ISREG(status.st_mode):
        return FileState("other", mode, owner, str(stat.S_IFMT(status.st_mode)), mark)
    content = None
    if budget is not None and status.st_size <= min(MAX_FILE_BYTES, budget.room):
        content = _content(folder, name)
        budget.room -= len(content or b"")
    return FileState("file", mode, owner, "", mark, content)


def take_snapshot(parent: OpenParent, budget: SnapshotBudget | None = None) -> TreeSnapshot:
    top = read_file_state(parent.descriptor, parent.name, budget)
    if top.kind != "folder":
        return TreeSnapshot(top)
    inside: dict[Parts, FileState] = {}
    folder = open_beneath(parent.descriptor, parent.name, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for entry in walk(folder):
            if len(inside) >= MAX_ENTRIES:
                return TreeSnapshot(top, inside, is_whole=False)
            inside[entry.parts] = read_file_state(entry.folder, entry.name, budget)
    finally:
        os.close(folder)
    return TreeSnapshot(top, inside)


def without_later_changes(
    parent: OpenParent, before: TreeSnapshot, until_ns: int, *, is_top_alone: bool
) -> TreeSnapshot:
    """What to restore of `before`, if everything changed after `until_ns` is to stay.

    The time of a removal is known from the directory that contained it.
    """
    now = (
        TreeSnapshot(read_file_state(parent.descriptor, parent.name))
        if is_top_alone
        else take_snapshot(parent)
    )
    if now.top.kind == "nothing":
        return now if os.fstat(parent.descriptor).st_ctime_ns > until_ns else before
    if now.top.kind != before.top.kind or now.top.kind != "folder":
        return now if _is_later(now.top, until_ns) else before
    inside = {
        parts: thing
        for parts, thing in before.inside.items()
        if parts in now.inside or not _is_later(now.inside.get(parts[:-1], now.top), until_ns)
    }
    inside |= {parts: thing for parts, thing in now.inside.items() if _is_later(thing, until_ns)}
    return TreeSnapshot(before.top, inside, before.is_whole and now.is_whole)


def _is_later(thing: FileState, until_ns: int) -> bool:
    return thing.mark[-1] > until_ns


def restore_top_entry(parent: OpenParent, before: TreeSnapshot) -> bool:
    """The same as `restore_snapshot`, without the content."""
    faults: list[str] = []
    changed = _put_back_one(parent, before.top, faults)
    if faults:
        raise CannotRestore
    return changed


def restore_snapshot(parent: OpenParent, before: TreeSnapshot) -> bool:
    """Restore; returns whether anything had changed.

    `CannotRestore` after everything possible was restored.
    """
    faults: list[str] = []
    changed = _put_back_one(parent, before.top, faults)
    if before.top.kind == "folder":
        folder = open_beneath(parent.descriptor, parent.name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            changed = _put_back_inside(folder, before, faults) or changed
        finally:
            os.close(folder)
    if faults:
        raise CannotRestore
    return changed


def _put_back_inside(folder: int, before: TreeSnapshot, faults: list[str]) -> bool:
    changed = False
    if before.is_whole:
        # A removed directory takes its content along.
        added = [
            entry.parts
            for entry in walk(folder, descend=lambda entry: entry.parts in before.inside)
            if entry.parts not in before.inside
        ]
        for parts in added:
            with _held(folder, parts) as parent:
                remove_entry(parent.descriptor, parent.name)
            changed = True
    for parts, thing in before.inside.items():
        with _held(folder, parts) as parent:
            changed = _put_back_one(parent, thing, faults) or changed
    return changed


def _put_back_one(parent: OpenParent, before: FileState, faults: list[str]) -> bool:
    """Restore the entry itself, without its content."""
    now = read_file_state(parent.descriptor, parent.name)
    if now == before and (now.mark == before.mark or now.kind != "file"):
        return False
    if now == before and before.content is not None and _has(parent, before.content):
        return False
    if before.kind == "other" or (before.kind == "file" and before.content is None):
        faults.append(parent.name)
        return True
    if before.kind != "folder" or now.kind != "folder":
        remove_entry(parent.descriptor, parent.name)
        _make(parent, before)
    if before.kind in {"file", "folder"}:
        _restore_rights(parent, before)
    return True


def _make(parent: OpenParent, before: FileState) -> None:
    if before.kind == "link":
        os.symlink(before.target, parent.name, dir_fd=parent.descriptor)
    elif before.kind == "folder":
        os.mkdir(parent.name, 0o700, dir_fd=parent.descriptor)
    elif before.kind == "file":
        create_file(parent, (before.content or b"",))


def _restore_rights(parent: OpenParent, before: FileState) -> None:
    held = open_beneath(parent.descriptor, parent.name, os.O_PATH)
    try:
        with suppress(OSError):
            os.chown(f"/proc/self/fd/{held}", *before.owner)
        os.chmod(f"/proc/self/fd/{held}", before.mode)  # noqa: PTH101 - a descriptor
    finally:
        os.close(held)


def _has(parent: OpenParent, content: bytes) -> bool:
    status = lstat_entry(parent)
    return (
        status is not None
        and status.st_size == len(content)
        and content == _content(parent.descriptor, parent.name)
    )


def _content(folder: int, name: str) -> bytes | None:
    with suppress(OSError, ToolError), open_file_in(folder, name, name) as file:
        return file.read(0, MAX_FILE_BYTES)
    return None


@contextmanager
def _held(folder: int, parts: Parts) -> Iterator[OpenParent]:
    """The open parent directory of an entry below another one."""
    above = open_beneath(folder, "/".join(parts[:-1]) or ".", os.O_PATH | os.O_DIRECTORY)
    try:
        yield OpenParent(above, parts[-1], 0)
    finally:
        os.close(above)
