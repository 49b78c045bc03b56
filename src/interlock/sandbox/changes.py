"""The four changes that can be made to files. Each keeps what was there, then happens whole or not."""

import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from interlock.infra.errors import ErrorCode, ToolError
from interlock.sandbox.archive import archived, size_of
from interlock.sandbox.files import Check, OpenFile, look, opened_in, put, settle
from interlock.sandbox.kept import Action, Change, Content, KeptVersions
from interlock.sandbox.kernel import open_beneath, rename_without_replacing
from interlock.sandbox.paths import Parent, Place, Territory
from interlock.sandbox.tree import walk


@dataclass(frozen=True, slots=True)
class Origin:
    """Who changes something: the session, the task and the call."""

    session_id: str
    call_id: str
    task: str | None


@dataclass(frozen=True, slots=True)
class NewContent:
    """What a file is to hold, and the hash of it."""

    data: bytes
    sha256: str


class FileChanges:
    """`commit` is called right before a change takes effect; it may raise to stop it."""

    def __init__(self, kept: KeptVersions) -> None:
        self._kept = kept

    def create(
        self, territory: Territory, place: Place, new: NewContent, origin: Origin, commit: Check
    ) -> bool:
        """Make a file that is not there yet, with its folders; False where nothing is kept at all."""
        change = replace(
            _change(Action.created, place, origin),
            made_folders=missing_folders(territory, place),
            after_sha256=new.sha256,
        )
        with self._keeping(change):
            commit()
            with territory.parent(place, make=True) as parent:
                put(parent, iter((new.data,)), like=None, before_commit=lambda: None)
        return self._kept.is_on

    def replace(
        self,
        parent: Parent,
        place: Place,
        file: OpenFile,
        pieces: Iterator[bytes],
        *,
        before_sha256: str,
        after_sha256: str,
        origin: Origin,
        commit: Check,
    ) -> bool:
        """Put new content in the place of a file; False where the earlier content was too much to keep."""
        change = replace(
            _change(Action.replaced, place, origin),
            before_sha256=before_sha256,
            after_sha256=after_sha256,
            permissions=stat.S_IMODE(file.status.st_mode),
            content=self._of_file(file.size),
        )

        def check() -> None:
            _must_be_unchanged(parent, file)
            commit()

        with self._keeping(change, file.chunks(lambda: None)):
            put(parent, pieces, like=file, before_commit=check)
        return change.content is Content.file

    def delete(self, territory: Territory, place: Place, origin: Origin, commit: Check) -> bool:
        """Remove a file, a link or a whole folder; False where it was too much to keep."""
        with territory.parent(place) as parent:
            status = look(parent)
            if status is None:
                raise FileNotFoundError(2, "", parent.name)
            if stat.S_ISDIR(status.st_mode):
                return self._delete_folder(parent, place, status, origin, commit)
            change = replace(
                _change(Action.deleted, place, origin), permissions=stat.S_IMODE(status.st_mode)
            )
            if stat.S_ISLNK(status.st_mode):
                target = os.readlink(parent.name, dir_fd=parent.descriptor)
                change = replace(change, link_target=target)
                with self._keeping(change):
                    _unlink(parent, commit)
            elif stat.S_ISREG(status.st_mode):
                with opened_in(parent.descriptor, parent.name, parent.name) as file:
                    change = replace(change, content=self._of_file(file.size))
                    with self._keeping(change, file.chunks(lambda: None)):
                        _must_be_unchanged(parent, file)
                        _unlink(parent, commit)
            else:
                change = replace(change, content=Content.omitted)
                with self._keeping(change):
                    _unlink(parent, commit)
            return self._kept.is_on and change.content is not Content.omitted

    def move(
        self,
        territory: Territory,
        source: Place,
        destination: Place,
        *,
        overwrite: bool,
        origin: Origin,
        commit: Check,
    ) -> bool:
        """Rename; False where a file was overwritten that was too much to keep."""
        with territory.parent(source) as old:
            status = look(old)
            if status is None:
                raise FileNotFoundError(2, "", old.name)
            change = replace(
                _change(Action.moved, destination, origin),
                from_root=str(source.root),
                from_parts=source.parts,
                made_folders=missing_folders(territory, destination),
                identity=(status.st_dev, status.st_ino),
            )
            with self._opened_target(territory, destination, overwrite=overwrite) as target:
                if target is not None:
                    permissions = stat.S_IMODE(target.status.st_mode)
                    change = replace(change, permissions=permissions, content=self._of_file(target.size))
                pieces = target.chunks(lambda: None) if target is not None else iter(())
                with self._keeping(change, pieces):
                    commit()
                    _rename(territory, old, destination, replacing=target)
        return self._kept.is_on and change.content is not Content.omitted

    @contextmanager
    def _opened_target(
        self, territory: Territory, destination: Place, *, overwrite: bool
    ) -> Iterator[OpenFile | None]:
        """The file that a move would replace; None where there is nothing."""
        if missing_folders(territory, destination):
            yield None
            return
        with territory.parent(destination) as parent:
            status = look(parent)
            if status is None:
                yield None
                return
            shown = territory.shown(destination)
            if not stat.S_ISREG(status.st_mode):
                raise _in_the_way(f"{shown} exists and is not a file", "Choose another destination.")
            if not overwrite:
                raise _in_the_way(f"{shown} exists already", "Choose another name, or set overwrite.")
            with opened_in(parent.descriptor, parent.name, shown) as file:
                yield file

    def _delete_folder(
        self, parent: Parent, place: Place, status: os.stat_result, origin: Origin, commit: Check
    ) -> bool:
        folder = open_beneath(parent.descriptor, parent.name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fits = self._kept.has_room_for(size_of(folder))
            change = replace(
                _change(Action.deleted, place, origin),
                permissions=stat.S_IMODE(status.st_mode),
                content=Content.archive if fits else Content.omitted,
            )
            with self._keeping(change, archived(folder)):
                commit()
                _remove_folder(parent)
        finally:
            os.close(folder)
        return fits

    def _of_file(self, size: int) -> Content:
        return Content.file if self._kept.has_room_for(size) else Content.omitted

    @contextmanager
    def _keeping(self, change: Change, pieces: Iterable[bytes] = ()) -> Iterator[None]:
        """What was there is on disk before the change; where the change fails, it is dropped again."""
        has_content = change.content in {Content.file, Content.archive}
        entry = self._kept.keep(change, pieces if has_content else ())
        try:
            yield
        except BaseException:
            self._kept.drop(entry)
            raise


def missing_folders(territory: Territory, place: Place) -> int:
    """How many folders have to be made before something can be put at the place."""
    above = len(place.parts) - 1
    for there in range(above, 0, -1):
        try:
            os.close(territory.open(replace(place, parts=place.parts[:there]), os.O_PATH | os.O_DIRECTORY))
        except FileNotFoundError:
            continue
        return above - there
    return max(above, 0)


def refuse_protected_inside(territory: Territory, place: Place, *, moved_to: Place | None = None) -> None:
    """A folder that is removed or moved takes along what lies in it, under its old and its new name."""
    with territory.parent(place) as parent:
        try:
            folder = open_beneath(parent.descriptor, parent.name, os.O_RDONLY | os.O_DIRECTORY)
        except NotADirectoryError:
            return
    try:
        for entry in walk(folder):
            for whole in (place, moved_to):
                if whole is not None:
                    territory.refuse_protected_below(whole, entry.parts)
    finally:
        os.close(folder)


def _change(action: Action, place: Place, origin: Origin) -> Change:
    return Change(
        session_id=origin.session_id,
        call_id=origin.call_id,
        task=origin.task,
        action=action,
        root=str(place.root),
        parts=place.parts,
    )


def _must_be_unchanged(parent: Parent, file: OpenFile) -> None:
    """Still the very file that was read and kept, with nothing written to it since."""
    now = look(parent)
    was = file.status
    if now is None or (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns) != (
        *(was.st_dev, was.st_ino, was.st_size, was.st_mtime_ns),
    ):
        raise ToolError(
            ErrorCode.STALE_READ,
            f"{parent.name} was changed by somebody else at this moment",
            "Read it again with read_file, then make the change that still fits.",
        )


def _unlink(parent: Parent, commit: Check) -> None:
    commit()
    os.unlink(parent.name, dir_fd=parent.descriptor)
    settle(parent.descriptor)


def _remove_folder(parent: Parent) -> None:
    """It disappears at once, under another name; then what was in it is removed."""
    aside = f".{secrets.token_hex(8)}.interlock-old"
    os.rename(parent.name, aside, src_dir_fd=parent.descriptor, dst_dir_fd=parent.descriptor)
    settle(parent.descriptor)
    # What this account may not remove stays behind under the other name; what was asked for is done.
    shutil.rmtree(aside, dir_fd=parent.descriptor, ignore_errors=True)


def _rename(territory: Territory, old: Parent, destination: Place, *, replacing: OpenFile | None) -> None:
    with territory.parent(destination, make=True) as new:
        if replacing is None:
            rename_without_replacing(old.descriptor, old.name, new.descriptor, new.name)
        else:
            _must_be_unchanged(new, replacing)
            os.rename(old.name, new.name, src_dir_fd=old.descriptor, dst_dir_fd=new.descriptor)
        settle(new.descriptor)
        settle(old.descriptor)


def _in_the_way(message: str, next_action: str) -> ToolError:
    return ToolError(ErrorCode.EXECUTION_ERROR, message, next_action)
