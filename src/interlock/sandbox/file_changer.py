"""The four changes to files. Each saves the earlier state, then happens completely or not at all."""

import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.files import fsync_directory, rename_noreplace
from interlock.sandbox.directories import create_parents, open_directory, refuse_inaccessible
from interlock.sandbox.directory_archive import archive_hash, archive_size, archived, tree_fingerprint
from interlock.sandbox.directory_walk import walk
from interlock.sandbox.file_io import (
    Check,
    OpenFile,
    create_file,
    lstat_entry,
    open_file_in,
    staged_file,
)
from interlock.sandbox.paths import OpenParent, PathResolver, ResolvedPath
from interlock.sandbox.remove_untrusted_tree import remove_entry
from interlock.sandbox.undo_store import (
    MAX_ENTRY_BYTES,
    ChangeAction,
    RecordedChange,
    SavedContentKind,
    UndoStore,
)


@dataclass(frozen=True, slots=True)
class ChangeOrigin:
    """The origin of a change: the session, task and call, or the undo."""

    session_id: str
    call_id: str
    task: str | None
    by_undo: bool = False
    redone: bool = False


@dataclass(frozen=True, slots=True)
class NewContent:
    """The new content of a file, and its hash."""

    data: bytes
    sha256: str


class FileChanger:
    """Makes changes. `commit` is called right before a change takes effect; it may raise to stop it."""

    def __init__(self, kept: UndoStore) -> None:
        self._kept = kept

    def create(
        self,
        resolver: PathResolver,
        place: ResolvedPath,
        new: NewContent,
        origin: ChangeOrigin,
        commit: Check,
    ) -> bool:
        """Create a file, with its directories; False if nothing is saved for undo."""
        change = replace(
            make_change(ChangeAction.created, place, origin),
            made_folders=resolver.missing_folders(place),
            after_sha256=new.sha256,
        )
        with self.keeping(change), self._kept.turn():
            resolver.refuse_git_layout(place)
            commit()
            with create_parents(resolver, place) as parent:
                try:
                    create_file(parent, (new.data,))
                except FileExistsError:
                    raise ToolError(
                        ErrorCode.STALE_READ,
                        f"{resolver.shown(place)} was created by someone else in the meantime",
                        "Read it with read_file first, then change it.",
                    ) from None
        return self._kept.is_on

    def replace(
        self,
        parent: OpenParent,
        place: ResolvedPath,
        file: OpenFile,
        pieces: Iterator[bytes],
        *,
        before_sha256: str,
        after_sha256: str,
        origin: ChangeOrigin,
        commit: Check,
    ) -> bool:
        """Replace the content of a file; False if the earlier content was too large to save."""
        change = replace(
            make_change(ChangeAction.replaced, place, origin),
            before_sha256=before_sha256,
            after_sha256=after_sha256,
            content=self._of_file(file.size),
        )
        with (
            self.keeping(change, file.chunks(lambda: None)),
            staged_file(parent, pieces, like=file) as put,
            self._kept.turn(),
        ):
            require_unchanged(parent, file)
            commit()
            put()
        return change.content is SavedContentKind.file

    def delete(
        self, resolver: PathResolver, place: ResolvedPath, origin: ChangeOrigin, commit: Check
    ) -> bool:
        """Delete a file, symlink or whole directory; False if it was too large to save."""
        with resolver.parent(place) as parent:
            status = lstat_entry(parent)
            if status is None:
                raise FileNotFoundError(errno.ENOENT, "", parent.name)
            change = with_metadata(make_change(ChangeAction.deleted, place, origin), status)
            if stat.S_ISDIR(status.st_mode):
                return self._delete_folder(parent, change, commit)
            if stat.S_ISREG(status.st_mode):
                return self._delete_file(parent, change, commit)
            if stat.S_ISLNK(status.st_mode):
                target = os.readlink(parent.name, dir_fd=parent.descriptor)
                change = replace(change, link_target=target)
            else:
                change = replace(change, content=SavedContentKind.omitted)
            with self.keeping(change):
                _unlink(parent, commit)
            return self._kept.is_on and change.content is not SavedContentKind.omitted

    def move(
        self,
        resolver: PathResolver,
        source: ResolvedPath,
        destination: ResolvedPath,
        *,
        overwrite: bool,
        origin: ChangeOrigin,
        commit: Check,
    ) -> bool:
        """Rename; False if an overwritten file was too large to save."""
        with resolver.parent(source) as old:
            status = lstat_entry(old)
            if status is None:
                raise FileNotFoundError(errno.ENOENT, "", old.name)
            change = replace(
                make_change(ChangeAction.moved, destination, origin),
                from_root=str(source.root),
                from_parts=source.parts,
                made_folders=resolver.missing_folders(destination),
                identity=(status.st_dev, status.st_ino),
                after_sha256=entry_fingerprint(old) if self._kept.is_on else None,
            )
            with _opened_target(resolver, destination, overwrite=overwrite) as target:
                if target is not None:
                    change = self._with_content(change, target)
                pieces = target.chunks(lambda: None) if target is not None else iter(())
                with self.keeping(change, pieces), self._kept.turn():
                    resolver.refuse_git_layout(destination)
                    commit()
                    _rename(resolver, old, destination, replacing=target)
        return self._kept.is_on and change.content is not SavedContentKind.omitted

    def _delete_file(self, parent: OpenParent, change: RecordedChange, commit: Check) -> bool:
        with open_file_in(parent.descriptor, parent.name, parent.name) as file:
            change = self._with_content(change, file)
            with self.keeping(change, file.chunks(lambda: None)), self._kept.turn():
                require_unchanged(parent, file)
                _unlink(parent, commit)
        return change.content is SavedContentKind.file

    def _delete_folder(self, parent: OpenParent, change: RecordedChange, commit: Check) -> bool:
        with open_directory(parent) as folder:
            for entry in walk(folder):
                refuse_inaccessible(entry, os.R_OK | os.W_OK | os.X_OK, "nothing was deleted")
            size = archive_size(folder)
            fits = size is not None and self._kept.has_room_for(size)
            change = replace(change, content=SavedContentKind.archive if fits else SavedContentKind.omitted)
            if fits:
                change = replace(change, before_sha256=archive_hash(folder))
            with self.keeping(change, _steady(archived(folder), change)), self._kept.turn():
                commit()
                _remove_folder(parent, folder, change)
        return fits

    def _of_file(self, size: int) -> SavedContentKind:
        return SavedContentKind.file if self._kept.has_room_for(size) else SavedContentKind.omitted

    def _with_content(self, change: RecordedChange, file: OpenFile) -> RecordedChange:
        if self._of_file(file.size) is SavedContentKind.omitted:
            return replace(change, content=SavedContentKind.omitted)
        change = with_metadata(change, file.status)
        return replace(change, content=SavedContentKind.file, before_sha256=file.sha256(lambda: None))

    @contextmanager
    def keeping(self, change: RecordedChange, pieces: Iterable[bytes] = ()) -> Iterator[None]:
        """Save the earlier state on disk before the change; delete it again if the change fails."""
        has_content = change.content in {SavedContentKind.file, SavedContentKind.archive}
        entry = self._kept.keep(change, pieces if has_content else ())
        try:
            yield
        except BaseException:
            self._kept.drop(entry)
            raise


def make_change(action: ChangeAction, place: ResolvedPath, origin: ChangeOrigin) -> RecordedChange:
    return RecordedChange(
        session_id=origin.session_id,
        call_id=origin.call_id,
        task=origin.task,
        by_undo=origin.by_undo,
        redone=origin.redone,
        action=action,
        root=str(place.root),
        parts=place.parts,
    )


def with_metadata(change: RecordedChange, status: os.stat_result) -> RecordedChange:
    """Add the metadata that an undo must restore."""
    return replace(
        change,
        permissions=stat.S_IMODE(status.st_mode),
        owner=(status.st_uid, status.st_gid),
        modified_ns=status.st_mtime_ns,
    )


def entry_fingerprint(parent: OpenParent) -> str | None:
    """A fingerprint of a file, symlink or directory that is the same after rewriting equal content.

    None if it is too large to read.
    """
    status = lstat_entry(parent)
    if status is None:
        return None
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(parent.name, dir_fd=parent.descriptor)
        return hashlib.sha256(os.fsencode(target)).hexdigest()
    if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_ENTRY_BYTES:
        with open_file_in(parent.descriptor, parent.name, parent.name) as file:
            return file.sha256(lambda: None)
    if stat.S_ISDIR(status.st_mode):
        with open_directory(parent) as folder:
            size = archive_size(folder)
            return tree_fingerprint(folder) if size is not None and size <= MAX_ENTRY_BYTES else None
    return None


def require_unchanged(parent: OpenParent, file: OpenFile) -> None:
    """Raise unless it is still the file that was read and saved, without later writes."""
    now = lstat_entry(parent)
    if now is None or replace(file, status=now).version != file.version:
        raise ToolError(
            ErrorCode.STALE_READ,
            f"{parent.name} was changed by someone else in the meantime",
            "Read it again with read_file, then make the change if it still applies.",
        )


@contextmanager
def _opened_target(
    resolver: PathResolver, destination: ResolvedPath, *, overwrite: bool
) -> Iterator[OpenFile | None]:
    """The file that a move would replace; None if there is none."""
    if resolver.missing_folders(destination):
        yield None
        return
    with resolver.parent(destination) as parent:
        status = lstat_entry(parent)
        if status is None:
            yield None
            return
        shown = resolver.shown(destination)
        if not stat.S_ISREG(status.st_mode):
            raise _in_the_way(f"{shown} exists and is not a file", "Choose another destination.")
        if not overwrite:
            raise _in_the_way(f"{shown} already exists", "Choose another name, or set overwrite.")
        with open_file_in(parent.descriptor, parent.name, shown) as file:
            yield file


def _steady(pieces: Iterable[bytes], change: RecordedChange) -> Iterator[bytes]:
    """The archive of a directory; raises if the directory changed since it was read."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
        yield piece
    if digest.hexdigest() != change.before_sha256:
        raise _unsteady(change)


def _unsteady(change: RecordedChange) -> ToolError:
    return ToolError(
        ErrorCode.STALE_READ,
        f"something in {change.parts[-1]} was changed by someone else in the meantime",
        "Check the folder again before you continue.",
    )


def _unlink(parent: OpenParent, commit: Check) -> None:
    commit()
    os.unlink(parent.name, dir_fd=parent.descriptor)
    fsync_directory(parent.descriptor)


def _remove_folder(parent: OpenParent, folder: int, change: RecordedChange) -> None:
    """Rename the directory aside, so that it disappears at once; then remove its content.

    If something unsaved was added before the rename, it is moved back.
    """
    aside = f".{secrets.token_hex(8)}.interlock-old"
    os.rename(parent.name, aside, src_dir_fd=parent.descriptor, dst_dir_fd=parent.descriptor)
    if change.content is SavedContentKind.archive and archive_hash(folder) != change.before_sha256:
        rename_noreplace(parent.descriptor, aside, parent.descriptor, parent.name)
        raise _unsteady(change)
    fsync_directory(parent.descriptor)
    with suppress(RecursionError):
        shutil.rmtree(aside, dir_fd=parent.descriptor, ignore_errors=True)
    # Trees too deep for recursion. What was added just now and cannot be removed is left behind.
    with suppress(OSError):
        remove_entry(parent.descriptor, aside)


def _rename(
    resolver: PathResolver, old: OpenParent, destination: ResolvedPath, *, replacing: OpenFile | None
) -> None:
    with create_parents(resolver, destination) as new:
        try:
            if replacing is None:
                rename_noreplace(old.descriptor, old.name, new.descriptor, new.name)
            else:
                require_unchanged(new, replacing)
                os.rename(old.name, new.name, src_dir_fd=old.descriptor, dst_dir_fd=new.descriptor)
        except FileExistsError:
            raise _in_the_way(
                f"{resolver.shown(destination)} already exists", "Choose another name."
            ) from None
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            raise _in_the_way(
                f"{resolver.shown(destination)} is on another file system; moving there is not possible",
                "Copy it with read_file and write_file and delete the original, or tell the user.",
            ) from None
        fsync_directory(new.descriptor)
        fsync_directory(old.descriptor)


def _in_the_way(message: str, next_action: str) -> ToolError:
    return ToolError(ErrorCode.EXECUTION_ERROR, message, next_action, is_an_answer=True)
