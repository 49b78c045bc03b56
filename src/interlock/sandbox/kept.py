"""Earlier contents of files that tools changed, kept in the state folder until there are too many.

An entry is one file: a line of JSON that says what was done and what was there before, and then the
earlier content. It is on disk before the change is made, so a change that a crash cut short can be
undone as well.
"""

import os
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

import orjson

MAX_ENTRY_BYTES = 64 * 1024 * 1024
MAX_HEADER_BYTES = 256 * 1024
_SUFFIX = ".kept"

# What an undo replaced is kept under its own id, and is not part of the session's work.
UNDO_PREFIX = "undo_"


class Action(StrEnum):
    created = "created"
    replaced = "replaced"
    deleted = "deleted"
    moved = "moved"


class Content(StrEnum):
    """What follows the header: the bytes of a file, a tar archive of a folder, or nothing."""

    nothing = "nothing"
    file = "file"
    archive = "archive"
    omitted = "omitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of one file or folder. `parts` lie below `root`; after a move they are the new ones."""

    session_id: str
    call_id: str
    task: str | None = None
    action: Action
    root: str
    parts: Sequence[str]
    from_root: str = ""
    from_parts: Sequence[str] = ()
    made_folders: int = 0
    before_sha256: str | None = None
    after_sha256: str | None = None
    permissions: int = 0o644
    link_target: str | None = None
    identity: Sequence[int] = ()
    content: Content = Content.nothing
    time_us: int = field(default_factory=lambda: time.time_ns() // 1000)

    @property
    def path(self) -> str:
        return str(Path(self.root).joinpath(*self.parts))


@dataclass(frozen=True, slots=True)
class KeptEntry:
    change: Change
    file: Path

    def content(self) -> BinaryIO:
        """The earlier content, to be read from its beginning."""
        stream = self.file.open("rb")
        stream.readline(MAX_HEADER_BYTES)
        return stream


class KeptVersions:
    """Bounded: when all entries together exceed `max_bytes`, the oldest go. With 0 nothing is kept."""

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._total: int | None = None
        self._lock = threading.Lock()

    @property
    def is_on(self) -> bool:
        return self._max_bytes > 0

    def has_room_for(self, size: int) -> bool:
        return self.is_on and size <= min(MAX_ENTRY_BYTES, self._max_bytes)

    def keep(self, change: Change, pieces: Iterable[bytes] = ()) -> KeptEntry | None:
        """Write an entry; it is durable when this returns. None where nothing is kept at all."""
        if not self.is_on:
            return None
        folder = self._folder / change.session_id
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        header = orjson.dumps(_as_json(change)) + b"\n"
        with self._lock:
            name = f"{self._next_number(folder):020d}-{secrets.token_hex(4)}{_SUFFIX}"
            path = folder / name
            size = _write_durably(path, header, pieces)
            self._forget_oldest(size, spare=path)
        return KeptEntry(change, path)

    def drop(self, entry: KeptEntry | None) -> None:
        """The change was not made after all, or was taken back."""
        if entry is not None:
            with suppress(OSError):
                entry.file.unlink()

    def entries(self, session_id: str) -> Iterator[KeptEntry]:
        """What was changed in a session, newest first. An entry that cannot be read is left out."""
        if not session_id or "/" in session_id or session_id.startswith("."):
            return
        for path in sorted((self._folder / session_id).glob(f"*{_SUFFIX}"), reverse=True):
            with suppress(OSError, ValueError, TypeError), path.open("rb") as stream:
                yield KeptEntry(_from_json(orjson.loads(stream.readline(MAX_HEADER_BYTES))), path)

    def find(self, identity: str) -> list[KeptEntry]:
        """The entries of a session, a task or a single call, newest first."""
        of_session = [
            entry for entry in self.entries(identity) if not entry.change.call_id.startswith(UNDO_PREFIX)
        ]
        if of_session:
            return of_session
        found: list[KeptEntry] = []
        for folder in _folders(self._folder):
            found += [
                entry
                for entry in self.entries(folder.name)
                if identity == entry.change.call_id
                or (identity == entry.change.task and not entry.change.call_id.startswith(UNDO_PREFIX))
            ]
        return sorted(found, key=lambda entry: entry.file.name, reverse=True)

    def forget(self, session_id: str) -> None:
        """Erase what was kept of a session that is deleted."""
        for entry in list(self.entries(session_id)):
            self.drop(entry)
        with suppress(OSError):
            (self._folder / session_id).rmdir()

    def _next_number(self, folder: Path) -> int:
        """By the clock, but never before an entry that is there already."""
        last = max((int(path.name[:20]) for path in folder.glob(f"*{_SUFFIX}")), default=0)
        return max(time.time_ns(), last + 1)

    def _forget_oldest(self, added: int, *, spare: Path) -> None:
        if self._total is None:
            self._total = sum(path.stat().st_size for path in self._all())
        else:
            self._total += added
        if self._total <= self._max_bytes:
            return
        for path in sorted(self._all(), key=lambda path: path.name):
            if path == spare:
                continue
            with suppress(OSError):
                size = path.stat().st_size
                path.unlink()
                self._total -= size
            if self._total <= self._max_bytes:
                return

    def _all(self) -> Iterator[Path]:
        for folder in _folders(self._folder):
            yield from folder.glob(f"*{_SUFFIX}")


def _folders(top: Path) -> list[Path]:
    try:
        return [path for path in top.iterdir() if path.is_dir()]
    except OSError:
        return []


def _write_durably(path: Path, header: bytes, pieces: Iterable[bytes]) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(header)
            for piece in pieces:
                stream.write(piece)
            stream.flush()
            os.fsync(stream.fileno())
            return stream.tell()
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def _as_json(change: Change) -> dict[str, Any]:
    # Names may be bytes that are no text; JSON can hold them as hexadecimal numbers.
    values = asdict(change)
    for name in ("parts", "from_parts"):
        values[name] = [os.fsencode(part).hex() for part in values[name]]
    if change.link_target is not None:
        values["link_target"] = os.fsencode(change.link_target).hex()
    return values


def _from_json(values: dict[str, Any]) -> Change:
    known = {name: values[name] for name in Change.__slots__ if name in values}
    for name in ("parts", "from_parts"):
        known[name] = tuple(os.fsdecode(bytes.fromhex(part)) for part in known[name])
    if known.get("link_target") is not None:
        known["link_target"] = os.fsdecode(bytes.fromhex(known["link_target"]))
    return Change(**known | {"action": Action(known["action"]), "content": Content(known["content"])})
