"""Puts protected names back as they were, after a command that the kernel let write beside them.

Landlock opens whole folders; it cannot leave a file in them out. So what is protected is remembered before
a command runs, where such names usually are: in each root, and from the working folder up.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.infra.errors import ToolError
from interlock.sandbox.files import look, opened_in, put
from interlock.sandbox.kernel import open_beneath
from interlock.sandbox.paths import Access, Parent, Place, Territory
from interlock.sandbox.profile import SandboxProfile
from interlock.sandbox.tree import Kind, walk

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILES = 500
MAX_FILE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _State:
    """What stands at one place: nothing, a link, a file with its content, or a folder of such."""

    kind: str = "nothing"
    target: str = ""
    content: bytes = b""
    mode: int = 0
    inside: dict[tuple[str, ...], "_State"] = field(default_factory=dict)


class ProtectedGuard:
    """Remembers when it is made, and restores when it is told to."""

    def __init__(self, profile: SandboxProfile, workdir: Place) -> None:
        roots = profile.writable_roots
        # For this, nothing is protected: it is what protects.
        self._territory = Territory(SandboxProfile(roots, roots))
        self._places = list(_candidates(profile, workdir))
        self._before = {place: self._state(place) for place in self._places}

    def restore(self) -> list[str]:
        """The paths that had to be put back; one that could not be is marked so."""
        restored = []
        for place, before in self._before.items():
            if self._state(place) == before:
                continue
            try:
                self._put_back(place, before)
                restored.append(self._territory.shown(place))
            except (OSError, ToolError):
                restored.append(f"{self._territory.shown(place)} (it could not be put back)")
        return restored

    def _state(self, place: Place) -> _State:
        try:
            with self._territory.parent(place) as parent:
                return _state_of(parent)
        except FileNotFoundError:
            return _State()
        except (OSError, ToolError):
            # Something on the way is no folder, or a link: whatever it is, it is not what it should be.
            return _State("unreachable")

    def _put_back(self, place: Place, before: _State) -> None:
        with self._territory.parent(place, make=before.kind != "nothing") as parent:
            _remove(parent)
            _make(parent, before)


def _candidates(profile: SandboxProfile, workdir: Place) -> Iterator[Place]:
    seen: set[Path] = set()
    bases: list[tuple[Path, tuple[str, ...]]] = [(root, ()) for root in profile.writable_roots]
    if not bases:
        return
    bases += [(workdir.root, workdir.parts[:depth]) for depth in range(1, len(workdir.parts) + 1)]
    for root, above in bases:
        folder = root.joinpath(*above)
        for name in profile.protected_names:
            found = (
                [folder / name] if not set(name) & set("*?[{") else sorted(folder.glob(name))[:MAX_FILES]
            )
            for path in found:
                if path not in seen:
                    seen.add(path)
                    parts = path.relative_to(root).parts
                    yield Place(root, parts, str(path), Access.write, follow=False)


def _state_of(parent: Parent) -> _State:
    status = look(parent)
    if status is None:
        return _State()
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return _State("link", target=os.readlink(parent.name, dir_fd=parent.descriptor))
    if stat.S_ISREG(status.st_mode):
        return _State("file", content=_content(parent.descriptor, parent.name), mode=mode)
    if not stat.S_ISDIR(status.st_mode):
        return _State("other")
    folder = open_beneath(parent.descriptor, parent.name, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return _State("folder", mode=mode, inside=_inside(folder))
    finally:
        os.close(folder)


def _inside(folder: int) -> dict[tuple[str, ...], _State]:
    found: dict[tuple[str, ...], _State] = {}
    for entry in walk(folder):
        if len(found) >= MAX_FILES:
            break
        mode = stat.S_IMODE(os.stat(entry.name, dir_fd=entry.folder, follow_symlinks=False).st_mode)
        if entry.kind is Kind.folder:
            found[entry.parts] = _State("folder", mode=mode)
        elif entry.kind is Kind.link:
            found[entry.parts] = _State("link", target=os.readlink(entry.name, dir_fd=entry.folder))
        elif entry.kind is Kind.file:
            content = _content(entry.folder, entry.name)
            found[entry.parts] = _State("file", content=content, mode=mode)
    return found


def _content(folder: int, name: str) -> bytes:
    with suppress(OSError, ToolError), opened_in(folder, name, name) as file:
        return file.read(0, MAX_FILE_BYTES)
    return b""


def _remove(parent: Parent) -> None:
    status = look(parent)
    if status is None:
        return
    if stat.S_ISDIR(status.st_mode):
        shutil.rmtree(parent.name, dir_fd=parent.descriptor)
    else:
        os.unlink(parent.name, dir_fd=parent.descriptor)


def _make(parent: Parent, state: _State) -> None:
    if state.kind == "link":
        os.symlink(state.target, parent.name, dir_fd=parent.descriptor)
    elif state.kind == "file":
        put(parent, iter((state.content,)), like=None, before_commit=lambda: None)
        _set_mode(parent, state.mode)
    elif state.kind == "folder":
        os.mkdir(parent.name, 0o700, dir_fd=parent.descriptor)
        folder = open_beneath(parent.descriptor, parent.name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for parts, inner in state.inside.items():
                above = open_beneath(folder, "/".join(parts[:-1]) or ".", os.O_PATH | os.O_DIRECTORY)
                try:
                    _make(Parent(above, parts[-1], 0), inner)
                finally:
                    os.close(above)
            os.fchmod(folder, state.mode)
        finally:
            os.close(folder)


def _set_mode(parent: Parent, mode: int) -> None:
    descriptor = open_beneath(parent.descriptor, parent.name, os.O_RDONLY)
    try:
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)
