"""Takes changes back, newest first, wherever nothing else has changed since."""

import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from interlock.infra.errors import ToolError
from interlock.sandbox.archive import restore_into
from interlock.sandbox.changes import FileChanges, Origin
from interlock.sandbox.files import look, opened_in, put, settle
from interlock.sandbox.kept import UNDO_PREFIX, Action, Change, Content, KeptEntry, KeptVersions
from interlock.sandbox.kernel import open_beneath, rename_without_replacing
from interlock.sandbox.paths import Access, Parent, Place, Territory
from interlock.sandbox.profile import SandboxProfile


@dataclass(frozen=True, slots=True)
class Undone:
    """What became of one change: taken back, or left for a reason."""

    path: str
    action: str
    reason: str | None = None


class _LeftAlone(Exception):
    """The sentence says why a change was not taken back."""


class Undo:
    """What it replaces is kept as well, under an id of its own: an undo can be undone."""

    def __init__(self, kept: KeptVersions) -> None:
        self._kept = kept
        self._changes = FileChanges(kept)

    def take_back(self, entries: list[KeptEntry], undo_id: str) -> list[Undone]:
        outcomes: list[Undone] = []
        blocked: set[str] = set()
        for entry in entries:
            change = entry.change
            touched = _paths_of(change)
            try:
                if touched & blocked:
                    raise _LeftAlone("a later change of it was left")
                self._take_back(entry, Origin(change.session_id, undo_id, change.task))
            except (_LeftAlone, ToolError, OSError) as error:
                blocked |= touched
                outcomes.append(Undone(change.path, change.action.value, _sentence(error)))
            else:
                self._kept.drop(entry)
                outcomes.append(Undone(change.path, change.action.value))
        return outcomes

    def _take_back(self, entry: KeptEntry, origin: Origin) -> None:
        change = entry.change
        if change.content is Content.omitted:
            raise _LeftAlone("it was too large to be kept")
        roots = tuple(dict.fromkeys(Path(root) for root in (change.root, change.from_root) if root))
        territory = Territory(SandboxProfile(roots, roots))
        place = _place(change.root, change.parts)
        match change.action:
            case Action.created:
                self._remove(territory, place, change, origin)
            case Action.replaced:
                self._restore_content(territory, place, entry, origin)
            case Action.deleted:
                self._bring_back(territory, place, entry)
            case Action.moved:
                self._move_back(territory, place, entry)

    def _remove(self, territory: Territory, place: Place, change: Change, origin: Origin) -> None:
        with _existing(territory, place) as (parent, _):
            _must_have(parent, change.after_sha256)
        self._changes.delete(territory, place, origin, lambda: None)
        _remove_made_folders(territory, place, change.made_folders)

    def _restore_content(
        self, territory: Territory, place: Place, entry: KeptEntry, origin: Origin
    ) -> None:
        change = entry.change
        with _existing(territory, place) as (parent, _):
            _must_have(parent, change.after_sha256)
            with opened_in(parent.descriptor, parent.name, parent.name) as file, entry.content() as content:
                self._changes.replace(
                    *(parent, place, file, iter(lambda: content.read(1 << 20), b"")),
                    before_sha256=change.after_sha256 or "",
                    after_sha256=change.before_sha256 or "",
                    origin=origin,
                    commit=lambda: None,
                )

    def _bring_back(self, territory: Territory, place: Place, entry: KeptEntry) -> None:
        change = entry.change
        with territory.parent(place, make=True) as parent:
            if look(parent) is not None:
                raise _LeftAlone("something else is in its place now")
            if change.link_target is not None:
                os.symlink(change.link_target, parent.name, dir_fd=parent.descriptor)
            elif change.content is Content.archive:
                _unpack(entry, parent)
            else:
                _write_back(entry, parent)
            settle(parent.descriptor)

    def _move_back(self, territory: Territory, place: Place, entry: KeptEntry) -> None:
        change = entry.change
        source = _place(change.from_root, change.from_parts)
        with _existing(territory, place) as (parent, status):
            if (status.st_dev, status.st_ino) != tuple(change.identity):
                raise _LeftAlone("something else is in its place now")
            with territory.parent(source, make=True) as old:
                if look(old) is not None:
                    raise _LeftAlone("something else is where it came from")
                rename_without_replacing(parent.descriptor, parent.name, old.descriptor, old.name)
                settle(old.descriptor)
            if change.content is Content.file:
                _write_back(entry, parent)
            settle(parent.descriptor)
        _remove_made_folders(territory, place, change.made_folders)


def new_undo_id() -> str:
    return f"{UNDO_PREFIX}{secrets.token_hex(6)}"


def _paths_of(change: Change) -> set[str]:
    source = {str(Path(change.from_root).joinpath(*change.from_parts))} if change.from_root else set()
    return {change.path} | source


def _place(root: str, parts: Sequence[str]) -> Place:
    whole = tuple(parts)
    return Place(Path(root), whole, str(Path(root).joinpath(*whole)), Access.write, follow=False)


@contextmanager
def _existing(territory: Territory, place: Place) -> Iterator[tuple[Parent, os.stat_result]]:
    try:
        with territory.parent(place) as parent:
            status = look(parent)
            if status is None:
                raise _LeftAlone("it is not there any more")
            yield parent, status
    except FileNotFoundError:
        raise _LeftAlone("it is not there any more") from None


def _must_have(parent: Parent, sha256: str | None) -> None:
    status = look(parent)
    if status is None or not stat.S_ISREG(status.st_mode):
        raise _LeftAlone("something else is in its place now")
    with opened_in(parent.descriptor, parent.name, parent.name) as file:
        if file.sha256(lambda: None) != sha256:
            raise _LeftAlone("it was changed since")


def _write_back(entry: KeptEntry, parent: Parent) -> None:
    with entry.content() as content:
        put(parent, iter(lambda: content.read(1 << 20), b""), like=None, before_commit=lambda: None)
    os.chmod(parent.name, entry.change.permissions & 0o1777, dir_fd=parent.descriptor)


def _unpack(entry: KeptEntry, parent: Parent) -> None:
    """Beside its place first, and then in it with one rename."""
    aside = f".{secrets.token_hex(8)}.interlock-new"
    os.mkdir(aside, 0o700, dir_fd=parent.descriptor)
    try:
        folder = open_beneath(parent.descriptor, aside, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with entry.content() as content:
                restore_into(content, folder)
            os.fchmod(folder, entry.change.permissions & 0o1777)
        finally:
            os.close(folder)
        rename_without_replacing(parent.descriptor, aside, parent.descriptor, parent.name)
    except BaseException:
        shutil.rmtree(aside, dir_fd=parent.descriptor, ignore_errors=True)
        raise


def _remove_made_folders(territory: Territory, place: Place, count: int) -> None:
    """Folders that were made only for a file go with it, if nothing else came into them."""
    for depth in range(count):
        folder = replace(place, parts=place.parts[: len(place.parts) - 1 - depth])
        with suppress(OSError), territory.parent(folder) as parent:
            os.rmdir(parent.name, dir_fd=parent.descriptor)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or "it failed"
    return str(error)
