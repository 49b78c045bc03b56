"""Reverts changes, newest first, wherever nothing else has changed since."""

import hashlib
import os
import secrets
import shutil
import stat
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from interlock.core.errors import ToolError
from interlock.core.files import fsync_directory, rename_noreplace
from interlock.sandbox.directories import create_parents, open_directory, remove_created_directories
from interlock.sandbox.directory_archive import (
    archive_hash,
    extract_archive,
    restore_metadata,
    tree_fingerprint,
)
from interlock.sandbox.file_changer import ChangeOrigin, FileChanger, entry_fingerprint, make_change
from interlock.sandbox.file_io import create_file, lstat_entry, open_file_in
from interlock.sandbox.paths import OpenParent, PathAccess, PathResolver, ResolvedPath
from interlock.sandbox.profile import SandboxProfile
from interlock.sandbox.undo_store import (
    UNDO_PREFIX,
    ChangeAction,
    RecordedChange,
    SavedContentKind,
    UndoEntry,
    UndoStore,
)

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FileUndoOutcome:
    """The outcome of one change: reverted, or skipped for a reason."""

    path: str
    action: str
    reason: str | None = None
    source: str | None = None

    @property
    def now_at(self) -> str:
        """Its path after the undo: a moved file is back at its source."""
        return self.path if self.reason is not None or self.source is None else self.source


class _UndoSkipped(Exception):
    """The message says why a change was not reverted."""


class Undo:
    """Reverts changes. What it replaces is saved under its own id: an undo can be undone.

    A change that does not exist, because of a crash or because it was reverted by hand, counts as reverted.
    """

    def __init__(self, kept: UndoStore, protected_names: tuple[str, ...]) -> None:
        self._kept = kept
        self._protected_names = protected_names
        self._changes = FileChanger(kept)

    def revert(
        self, entries: list[UndoEntry], undo_id: str, within: Sequence[Path] | None = None
    ) -> list[FileUndoOutcome]:
        """Revert. `within` are the directories opened now; None: the caller may write anywhere."""
        outcomes: list[FileUndoOutcome] = []
        blocked: set[Path] = set()
        for entry in entries:
            change = entry.change
            touched = _paths_of(change)
            try:
                if any(_overlap(path, other) for path in touched for other in blocked):
                    raise _UndoSkipped("a later change to it was kept")
                if within is not None and not _are_open(touched, within):
                    raise _UndoSkipped("it is in a folder that is no longer open")
                redone = not change.is_undoable
                self._take_back(
                    entry,
                    ChangeOrigin(change.session_id, undo_id, change.task, by_undo=True, redone=redone),
                )
            except (_UndoSkipped, ToolError, OSError, ValueError, EOFError, tarfile.TarError) as error:
                blocked |= touched
                outcomes.append(FileUndoOutcome(change.path, change.action.value, _sentence(error)))
            else:
                self._kept.drop(entry)
                outcomes.append(FileUndoOutcome(change.path, change.action.value, source=change.source))
        return outcomes

    def _take_back(self, entry: UndoEntry, origin: ChangeOrigin) -> None:
        change = entry.change
        if change.content is SavedContentKind.omitted:
            raise _UndoSkipped("its previous content was not saved")
        roots = tuple(dict.fromkeys(Path(root) for root in (change.root, change.from_root) if root))
        resolver = PathResolver(SandboxProfile(roots, roots, protected_names=self._protected_names))
        place = _place(change.root, change.parts)
        match change.action:
            case ChangeAction.created:
                self._remove(resolver, place, change, origin)
            case ChangeAction.replaced:
                self._restore_content(resolver, place, entry, origin)
            case ChangeAction.deleted:
                self._bring_back(resolver, place, entry, origin)
            case ChangeAction.moved:
                self._move_back(resolver, place, entry, origin)

    def _remove(
        self, resolver: PathResolver, place: ResolvedPath, change: RecordedChange, origin: ChangeOrigin
    ) -> None:
        if _look_at(resolver, place) is None:
            return
        with resolver.parent(place) as parent:
            _must_be_as_made(parent, change)
        self._changes.delete(resolver, place, origin, lambda: None)
        remove_created_directories(resolver, place, change.made_folders)

    def _restore_content(
        self, resolver: PathResolver, place: ResolvedPath, entry: UndoEntry, origin: ChangeOrigin
    ) -> None:
        change = entry.change
        _refuse_damaged(entry)
        with _existing(resolver, place) as parent:
            found = _sha256_at(parent)
            if found == change.before_sha256:
                return
            if found != change.after_sha256:
                raise _UndoSkipped("it was changed since then")
            with (
                open_file_in(parent.descriptor, parent.name, parent.name) as file,
                entry.content() as content,
            ):
                self._changes.replace(
                    *(parent, place, file, _pieces(content)),
                    before_sha256=found,
                    after_sha256=change.before_sha256 or "",
                    origin=origin,
                    commit=lambda: resolver.refuse_git_layout(place),
                )

    def _bring_back(
        self, resolver: PathResolver, place: ResolvedPath, entry: UndoEntry, origin: ChangeOrigin
    ) -> None:
        if _look_at(resolver, place) is not None:
            with resolver.parent(place) as parent:
                if not _is_as_kept(parent, entry.change):
                    raise _UndoSkipped("something else is in its place")
            return
        new = replace(
            make_change(ChangeAction.created, place, origin), made_folders=resolver.missing_folders(place)
        )
        with self._kept.turn():
            resolver.refuse_git_layout(place)
            with create_parents(resolver, place) as parent:
                self._put_back(entry, parent, new)

    def _put_back(self, entry: UndoEntry, parent: OpenParent, new: RecordedChange) -> None:
        """Restore under a temporary name first, then with one rename, once the undo itself is saved."""
        with _beside(parent) as aside:
            if entry.change.link_target is not None:
                os.symlink(entry.change.link_target, aside.name, dir_fd=aside.descriptor)
                new = replace(new, link_target=entry.change.link_target)
            elif entry.change.content is SavedContentKind.archive:
                new = replace(new, after_sha256=_unpack(entry, aside))
            else:
                new = replace(new, after_sha256=_write(entry, aside))
            with self._changes.keeping(new):
                rename_noreplace(aside.descriptor, aside.name, parent.descriptor, parent.name)
        fsync_directory(parent.descriptor)

    def _move_back(
        self, resolver: PathResolver, place: ResolvedPath, entry: UndoEntry, origin: ChangeOrigin
    ) -> None:
        change = entry.change
        source = _place(change.from_root, change.from_parts)
        was_moved, is_back = (_is_it(resolver, where, change) for where in (place, source))
        if was_moved and is_back:
            # Two that look alike: one of them is a copy, or was there before.
            is_back = _has_number(_look_at(resolver, source), change)
            was_moved = not is_back
        if not was_moved and not is_back:
            is_gone = _look_at(resolver, place) is None
            raise _UndoSkipped("it no longer exists" if is_gone else "it was changed since then")
        if was_moved and _look_at(resolver, source) is not None:
            raise _UndoSkipped("something else is at its original path")
        if change.content is not SavedContentKind.file:
            if not is_back:
                self._rename(resolver, place, source, origin)
            remove_created_directories(resolver, place, change.made_folders)
        elif not is_back or _look_at(resolver, place) is None:
            # What it replaced is written first: if there is no room for it, nothing has changed yet.
            with resolver.parent(place) as parent, _beside(parent) as aside:
                new = replace(
                    make_change(ChangeAction.created, place, origin), after_sha256=_write(entry, aside)
                )
                if not is_back:
                    self._rename(resolver, place, source, origin)
                with self._changes.keeping(new), self._kept.turn():
                    resolver.refuse_git_layout(place)
                    rename_noreplace(aside.descriptor, aside.name, parent.descriptor, parent.name)
                fsync_directory(parent.descriptor)

    def _rename(
        self, resolver: PathResolver, place: ResolvedPath, source: ResolvedPath, origin: ChangeOrigin
    ) -> None:
        self._changes.move(resolver, place, source, overwrite=False, origin=origin, commit=lambda: None)


def merge_by_file(outcomes: Iterable[FileUndoOutcome]) -> list[FileUndoOutcome]:
    """One outcome for each file, of outcomes in the order in which changes are taken back.

    It is the reason why the file was left, or else what became of its oldest change.
    """
    files: dict[str, FileUndoOutcome] = {}
    for outcome in outcomes:
        later = files.pop(outcome.path, None)
        shown = outcome if later is None or later.reason is None else later
        files[shown.now_at] = shown
    return list(files.values())


def new_undo_id() -> str:
    return f"{UNDO_PREFIX}{secrets.token_hex(6)}"


def _paths_of(change: RecordedChange) -> set[Path]:
    source = {Path(change.from_root).joinpath(*change.from_parts)} if change.from_root else set()
    return {Path(change.path)} | source


def _are_open(paths: set[Path], roots: Sequence[Path]) -> bool:
    return all(any(path.is_relative_to(root) for root in roots) for path in paths)


def _overlap(path: Path, other: Path) -> bool:
    return path.is_relative_to(other) or other.is_relative_to(path)


def _place(root: str, parts: Sequence[str]) -> ResolvedPath:
    whole = tuple(parts)
    return ResolvedPath(Path(root), whole, str(Path(root).joinpath(*whole)), PathAccess.write, follow=False)


def _look_at(resolver: PathResolver, place: ResolvedPath) -> os.stat_result | None:
    try:
        with resolver.parent(place) as parent:
            return lstat_entry(parent)
    except FileNotFoundError:
        return None


def _is_it(resolver: PathResolver, place: ResolvedPath, moved: RecordedChange) -> bool:
    """Whether the moved entry is at this path; a directory is the same whatever its content."""
    status = _look_at(resolver, place)
    if status is None:
        return False
    with resolver.parent(place) as parent:
        is_alike = moved.after_sha256 is not None and entry_fingerprint(parent) == moved.after_sha256
    # An inode says little about a file: it is reused when a file is rewritten.
    by_number = stat.S_ISDIR(status.st_mode) or moved.after_sha256 is None
    return is_alike or (by_number and _has_number(status, moved))


def _has_number(status: os.stat_result | None, moved: RecordedChange) -> bool:
    return status is not None and (status.st_dev, status.st_ino) == tuple(moved.identity)


@contextmanager
def _existing(resolver: PathResolver, place: ResolvedPath) -> Iterator[OpenParent]:
    if _look_at(resolver, place) is None:
        raise _UndoSkipped("it no longer exists")
    with resolver.parent(place) as parent:
        yield parent


def _must_be_as_made(parent: OpenParent, change: RecordedChange) -> None:
    status = lstat_entry(parent)
    mode = 0 if status is None else status.st_mode
    if stat.S_ISLNK(mode):
        same = os.readlink(parent.name, dir_fd=parent.descriptor) == change.link_target
    elif change.link_target is not None:
        same = False
    else:
        same = (_likeness_at(parent) if stat.S_ISDIR(mode) else _sha256_at(parent)) == change.after_sha256
    if not same:
        raise _UndoSkipped("it was changed since then")


def _is_as_kept(parent: OpenParent, change: RecordedChange) -> bool:
    """Whether the deleted entry still exists: a crash came first."""
    status = lstat_entry(parent)
    mode = 0 if status is None else status.st_mode
    if stat.S_ISLNK(mode):
        return os.readlink(parent.name, dir_fd=parent.descriptor) == change.link_target
    if stat.S_ISREG(mode):
        return change.content is SavedContentKind.file and _sha256_at(parent) == change.before_sha256
    is_archive = stat.S_ISDIR(mode) and change.content is SavedContentKind.archive
    return is_archive and _digest_at(parent) == change.before_sha256


def _sha256_at(parent: OpenParent) -> str:
    status = lstat_entry(parent)
    if status is None or not stat.S_ISREG(status.st_mode):
        raise _UndoSkipped("something else is in its place")
    with open_file_in(parent.descriptor, parent.name, parent.name) as file:
        return file.sha256(lambda: None)


def _likeness_at(parent: OpenParent) -> str:
    with open_directory(parent) as folder:
        return tree_fingerprint(folder)


def _digest_at(parent: OpenParent) -> str:
    with open_directory(parent) as folder:
        return archive_hash(folder)


def _refuse_damaged(entry: UndoEntry) -> str:
    """The hash of the saved content, which must be that of the original."""
    digest = hashlib.sha256()
    with entry.content() as content:
        for piece in _pieces(content):
            digest.update(piece)
    if digest.hexdigest() != entry.change.before_sha256:
        raise _UndoSkipped("its saved content is damaged")
    return digest.hexdigest()


def _pieces(content: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: content.read(_CHUNK_BYTES), b"")


@contextmanager
def _beside(parent: OpenParent) -> Iterator[OpenParent]:
    """A temporary name next to an entry; removed if it still exists at the end."""
    aside = replace(parent, name=f".{secrets.token_hex(8)}.interlock-new")
    try:
        yield aside
    finally:
        status = lstat_entry(aside)
        if status is not None and stat.S_ISDIR(status.st_mode):
            shutil.rmtree(aside.name, dir_fd=aside.descriptor, ignore_errors=True)
        elif status is not None:
            with suppress(OSError):
                os.unlink(aside.name, dir_fd=aside.descriptor)


def _write(entry: UndoEntry, aside: OpenParent) -> str:
    sha256 = _refuse_damaged(entry)
    with entry.content() as content:
        create_file(aside, _pieces(content))
    with open_file_in(aside.descriptor, aside.name, aside.name) as file:
        _give_back(entry.change, file.descriptor)
    return sha256


def _unpack(entry: UndoEntry, aside: OpenParent) -> str:
    _refuse_damaged(entry)
    os.mkdir(aside.name, 0o700, dir_fd=aside.descriptor)
    with open_directory(aside) as folder:
        with entry.content() as content:
            extract_archive(content, folder)
        _give_back(entry.change, folder)
        return tree_fingerprint(folder)


def _give_back(change: RecordedChange, descriptor: int) -> None:
    owner = (change.owner[0], change.owner[1]) if change.owner else None
    restore_metadata(descriptor, change.permissions, owner, change.modified_ns)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or "it failed"
    return str(error) if isinstance(error, (_UndoSkipped, ToolError)) else "its saved content is damaged"
