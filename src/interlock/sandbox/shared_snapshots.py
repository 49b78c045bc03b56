"""Snapshots of running commands, each as the first of them took it.

Shared by all concurrent commands: a change by one must not become the next one's snapshot. Commands of
other processes count as well, so a process's snapshots are in a file of the state directory while needed.
The file's mtime shows until when the process lived, for restoring after one that was killed.
"""

import marshal
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from interlock.core.file_lock import file_lock, take_lock
from interlock.sandbox.paths import PathAccess, ResolvedPath
from interlock.sandbox.tree_snapshot import FileState, TreeSnapshot
from interlock.sandbox.undo_store import state_write_error

Key = tuple[str, ...]
Value = Any
# Called with the paths that were restored for a dead process.
ReportRestored = Callable[[list[str]], None]

_SUFFIX = ".held"
# Another release may write another form; it is passed over.
_FORM = 2
_HEAD_BYTES = 8
# The heartbeat interval of a process with something to restore.
BEAT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class PatternScan:
    """Where a pattern is looked for, and what matched; None where there was too much to look at."""

    place: ResolvedPath
    pattern: str
    found: frozenset[ResolvedPath] | None = frozenset()


@dataclass(frozen=True, slots=True)
class OrphanedSnapshot:
    """What a dead process did not restore, its file, and until when it certainly lived."""

    file: Path
    until_ns: int
    values: dict[Key, Value]
    places: dict[Key, ResolvedPath]


def ignore_restored(_paths: list[str]) -> None:
    """Used without a log."""


class ProtectedStateRegistry:
    def __init__(self) -> None:
        self.report: ReportRestored = ignore_restored
        self._lock = threading.RLock()
        self._folder: Path | None = None
        self._held: dict[Key, tuple[Value, int]] = {}
        self._places: dict[Key, ResolvedPath] = {}
        self._others: dict[Key, Value] = {}
        self._left: list[OrphanedSnapshot] = []
        self._file: _File | None = None
        self._pulse = _Heartbeat()

    def share(self, folder: Path, report: ReportRestored = ignore_restored) -> None:
        """Share with all processes that use this directory, which no command can reach."""
        with self._lock:
            self.report = report
            if folder != self._folder:
                self._folder = folder
                self._forget_file()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Exclude other processes between taking a snapshot and starting the command."""
        with self._lock, ExitStack() as locked:
            folder = self._folder
            if folder is not None:
                with _report_write_errors():
                    locked.enter_context(_locked(folder))
                    self._others = self._of_others(folder)
            try:
                yield
            finally:
                self._others, self._left = {}, []
                if folder is not None:
                    with _report_write_errors():
                        self._publish(folder)

    @contextmanager
    def last_turn(self) -> Iterator[None]:
        """The same for restoring, which happens whether or not others can be locked out."""
        with self._lock, ExitStack() as locked:
            folder = self._folder
            if folder is not None:
                with suppress(OSError):
                    locked.enter_context(_locked(folder))
            try:
                yield
            finally:
                if folder is not None:
                    with suppress(OSError):
                        self._publish(folder)

    def take(self, key: Key, find: Callable[[], Value], place: ResolvedPath | None = None) -> Value:
        if place is not None:
            self._places[key] = place
        if key in self._held:
            value, count = self._held[key]
        else:
            value, count = self._others[key] if key in self._others else find(), 0
        self._held[key] = (value, count + 1)
        return value

    def release(self, key: Key) -> None:
        value, count = self._held.pop(key)
        if count > 1:
            self._held[key] = (value, count - 1)
        else:
            self._places.pop(key, None)

    def has_orphans(self) -> bool:
        """Whether a dead process left something to restore. Without a turn, so it may change."""
        folder = self._folder
        found = [] if folder is None else [_left_by(folder / name) for name in _names(folder)]
        return any(left is not None and left.values for left in found)

    def left(self) -> list[OrphanedSnapshot]:
        """Within a turn: what dead processes did not restore."""
        return self._left

    def discard(self, left: OrphanedSnapshot) -> None:
        """Everything that can be restored was."""
        with suppress(OSError):
            left.file.unlink()

    def _of_others(self, folder: Path) -> dict[Key, Value]:
        found: dict[Key, Value] = {}
        own = None if self._file is None else self._file.path.name
        self._left = []
        for name in _names(folder):
            if name == own:
                continue
            left = _left_by(folder / name)
            if left is None:
                found |= _read(folder / name)
            elif left.values:
                self._left.append(left)
            else:
                self.discard(left)
        return found

    def _publish(self, folder: Path) -> None:
        if self._file is None:
            if not self._held:
                return
            self._file = _File(folder)
        self._file.write({key: value for key, (value, _count) in self._held.items()}, self._places)
        self._pulse.of(self._file.path if self._held else None)

    def _forget_file(self) -> None:
        file, self._file = self._file, None
        self._pulse.of(None)
        if file is not None:
            file.close()


class _Heartbeat:
    """Updates the mtime of a file while this process lives and has one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._beating: threading.Thread | None = None

    def of(self, path: Path | None) -> None:
        with self._lock:
            self._path = path
            if path is not None and self._beating is None:
                self._beating = threading.Thread(target=self._beat, name="interlock-guard", daemon=True)
                self._beating.start()

    def _beat(self) -> None:
        while True:
            with self._lock:
                path = self._path
                if path is None:
                    self._beating = None
                    return
            with suppress(OSError):
                os.utime(path, follow_symlinks=False)
            time.sleep(BEAT_SECONDS)


class _File:
    """The snapshots of this process, for others to read. Locked while the process lives.

    A header has the length: creating or truncating a file would take longer than all the rest.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"{secrets.token_hex(8)}{_SUFFIX}"
        self._keys: frozenset[Key] = frozenset()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self.path, flags, 0o600)
        take_lock(self._descriptor)

    def write(self, held: dict[Key, Value], places: dict[Key, ResolvedPath]) -> None:
        """Write, within a turn, so that no other process reads. Held values do not change."""
        if held.keys() == self._keys:
            return
        self._keys = frozenset()
        packed = {key: _packed(value) for key, value in held.items()}
        where = {key: _packed_place(place) for key, place in places.items()}
        data = marshal.dumps((_FORM, packed, where)) if held else b""
        rest = memoryview(len(data).to_bytes(_HEAD_BYTES, "big") + data)
        at = 0
        while rest:
            written = os.pwrite(self._descriptor, rest, at)
            rest, at = rest[written:], at + written
        self._keys = frozenset(held)

    def close(self) -> None:
        with suppress(OSError):
            self.path.unlink()
        os.close(self._descriptor)


@contextmanager
def _report_write_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise state_write_error(error, "protected names cannot be saved; it was not run") from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with file_lock(folder / ".turn"):
        yield


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.name.endswith(_SUFFIX)]
    except FileNotFoundError:
        return []


def _read(path: Path) -> dict[Key, Value]:
    """What another process remembers."""
    with suppress(OSError), _opened(path) as file:
        return _content(file)[0]
    return {}


def _left_by(path: Path) -> OrphanedSnapshot | None:
    """The last snapshots of a dead process; None while it lives."""
    with suppress(OSError), _opened(path) as file:
        until_ns = os.fstat(file.fileno()).st_mtime_ns
        if take_lock(file, shared=True, patience_seconds=0):
            return OrphanedSnapshot(path, until_ns, *_content(file))
    return None


def _opened(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), "rb")


def _content(file: BinaryIO) -> tuple[dict[Key, Value], dict[Key, ResolvedPath]]:
    length = int.from_bytes(file.read(_HEAD_BYTES), "big")
    return _unpacked_all(file.read(length)) if length else ({}, {})


# -- file format --


def _packed(value: Value) -> Any:
    if isinstance(value, PatternScan):
        found = None if value.found is None else [_packed_place(each) for each in value.found]
        return ("scan", _packed_place(value.place), value.pattern, found)
    if isinstance(value, TreeSnapshot):
        inside = {parts: _packed_thing(thing) for parts, thing in value.inside.items()}
        return ("snapshot", _packed_thing(value.top), inside, value.is_whole)
    return None


def _packed_thing(thing: FileState) -> tuple[Any, ...]:
    return (thing.kind, thing.mode, thing.owner, thing.target, thing.mark, thing.content)


def _packed_place(place: ResolvedPath) -> tuple[str, tuple[str, ...], str]:
    return (str(place.root), place.parts, place.asked)


def _unpacked_all(data: bytes) -> tuple[dict[Key, Value], dict[Key, ResolvedPath]]:
    """Nothing where it is not of this form."""
    try:
        # Written by another process of ours, in a directory that no command can reach.
        form, *packed = marshal.loads(data)  # noqa: S302
        if form != _FORM:
            return {}, {}
        held, places = packed
        return (
            {key: _unpacked(value) for key, value in held.items()},
            {key: _place(place) for key, place in places.items()},
        )
    except (ValueError, EOFError, TypeError):
        return {}, {}


def _unpacked(value: Any) -> Value:
    if value is None:
        return None
    kind, first, second, third = value
    if kind == "scan":
        found = None if third is None else frozenset(_place(each) for each in third)
        return PatternScan(_place(first), second, found)
    return TreeSnapshot(
        FileState(*first), {parts: FileState(*thing) for parts, thing in second.items()}, third
    )


def _place(packed: tuple[str, tuple[str, ...], str]) -> ResolvedPath:
    root, parts, asked = packed
    return ResolvedPath(Path(root), parts, asked, PathAccess.write, follow=False)
