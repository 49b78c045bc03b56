"""What running commands have to find again, each value as the first of them found it.

Shared by all that run at the same time: what one of them changed must not be remembered by the next as the
state to be kept. Commands of other processes count as well, so what a process remembers lies in a file of
the state folder for as long as it has to. A process that is gone put nothing back, and says nothing more:
whether its command or a person changed something since, nobody knows.
"""

import fcntl
import marshal
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from interlock.infra.records import dataclass
from interlock.sandbox.guarded import Snapshot, Thing
from interlock.sandbox.kept import state_refused
from interlock.sandbox.paths import Access, Place

Key = tuple[str, ...]
Value = Any

_SUFFIX = ".held"
# Another release may write another form; it is passed over.
_FORM = 1
_HEAD_BYTES = 8


@dataclass(frozen=True, slots=True)
class Scan:
    """Where a pattern is looked for, and what matched; None where there was too much to look at."""

    place: Place
    pattern: str
    found: frozenset[Place] | None = frozenset()


class Memory:
    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._folder: Path | None = None
        self._held: dict[Key, tuple[Value, int]] = {}
        self._others: dict[Key, Value] = {}
        self._file: _File | None = None

    def share(self, folder: Path) -> None:
        """From now on with all processes that share this folder, which no command can reach."""
        with self._lock:
            if folder != self._folder:
                self._folder = folder
                self._forget_file()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """None may begin between another's look and its command, in whatever process that is."""
        with self._lock, ExitStack() as locked:
            folder = self._folder
            if folder is not None:
                with _told():
                    locked.enter_context(_locked(folder))
                    self._others = self._of_others(folder)
            try:
                yield
            finally:
                self._others = {}
                if folder is not None:
                    with _told():
                        self._publish(folder)

    @contextmanager
    def last_turn(self) -> Iterator[None]:
        """The same for putting back, which is done whether others can be told of it or not."""
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

    def take(self, key: Key, find: Callable[[], Value]) -> Value:
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

    def _of_others(self, folder: Path) -> dict[Key, Value]:
        found: dict[Key, Value] = {}
        own = None if self._file is None else self._file.path.name
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name.endswith(_SUFFIX)]
        for name in names:
            if name != own:
                found |= _read(folder / name)
        return found

    def _publish(self, folder: Path) -> None:
        if self._file is None:
            if not self._held:
                return
            self._file = _File(folder)
        self._file.write({key: value for key, (value, _count) in self._held.items()})

    def _forget_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


class _File:
    """What this process remembers, for others to read. It is locked for as long as the process lives.

    A head says how long it is: to make a file anew, or to cut it, would take longer than all the rest.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"{secrets.token_hex(8)}{_SUFFIX}"
        self._keys: frozenset[Key] = frozenset()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self.path, flags, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def write(self, held: dict[Key, Value]) -> None:
        """Nobody reads meanwhile. Values do not change while they are held."""
        if held.keys() == self._keys:
            return
        self._keys = frozenset()
        packed = {key: _packed(value) for key, value in held.items()}
        data = marshal.dumps((_FORM, packed)) if held else b""
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
def _told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise state_refused(error, "protected names cannot be remembered; it was not run") from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(folder / ".turn", flags, 0o600)
    except FileNotFoundError:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / ".turn", flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read(path: Path) -> dict[Key, Value]:
    """What another process remembers. The file of one that is gone is removed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return {}
    with os.fdopen(descriptor, "rb") as file:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            length = int.from_bytes(file.read(_HEAD_BYTES), "big")
            return _unpacked_all(file.read(length)) if length else {}
        with suppress(OSError):
            path.unlink()
    return {}


# -- as it lies in a file --


def _packed(value: Value) -> Any:
    if isinstance(value, Scan):
        found = None if value.found is None else [_packed_place(each) for each in value.found]
        return ("scan", _packed_place(value.place), value.pattern, found)
    if isinstance(value, Snapshot):
        inside = {parts: _packed_thing(thing) for parts, thing in value.inside.items()}
        return ("snapshot", _packed_thing(value.top), inside, value.is_whole)
    return None


def _packed_thing(thing: Thing) -> tuple[Any, ...]:
    return (thing.kind, thing.mode, thing.owner, thing.target, thing.mark, thing.content)


def _packed_place(place: Place) -> tuple[str, tuple[str, ...], str]:
    return (str(place.root), place.parts, place.asked)


def _unpacked_all(data: bytes) -> dict[Key, Value]:
    """Nothing where it is not of this form."""
    try:
        # Written by another process of ours, in a folder that no command can reach.
        form, held = marshal.loads(data)  # noqa: S302
        return {key: _unpacked(value) for key, value in held.items()} if form == _FORM else {}
    except (ValueError, EOFError, TypeError):
        return {}


def _unpacked(value: Any) -> Value:
    if value is None:
        return None
    kind, first, second, third = value
    if kind == "scan":
        found = None if third is None else frozenset(_place(each) for each in third)
        return Scan(_place(first), second, found)
    return Snapshot(Thing(*first), {parts: Thing(*thing) for parts, thing in second.items()}, third)


def _place(packed: tuple[str, tuple[str, ...], str]) -> Place:
    root, parts, asked = packed
    return Place(Path(root), parts, asked, Access.write, follow=False)
