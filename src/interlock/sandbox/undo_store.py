"""The undo store: earlier contents of files that tools changed, in the state directory.

An entry is one file: a line of JSON that describes the change and the earlier state, then the earlier
content. It is on disk before the change is made, so a change that a crash interrupted can be undone as
well.
"""

import errno
import os
import re
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.file_lock import file_lock
from interlock.core.files import durable_file
from interlock.core.session_files import BLOCK_BYTES, SessionFiles

MAX_ENTRY_BYTES = 64 * 1024 * 1024
MAX_HEADER_BYTES = 256 * 1024

# The number is the time in nanoseconds, so names sort by age.
_NAME = re.compile(r"(\d{20})-[0-9a-f]{8}\.kept")
# Beyond every number that a clock gives.
_NO_NUMBER = f"{2**63:020d}"

UNDO_PREFIX = "undo_"

_NO_ROOM = {
    errno.ENOSPC: "is full",
    errno.EDQUOT: "has no quota left",
    errno.EROFS: "is read-only",
}


def state_write_error(error: OSError, consequence: str) -> ToolError:
    """The error for a failed write to the state directory, whose disk may not be the model's."""
    reason = _NO_ROOM.get(error.errno or 0, f"does not accept writes ({error.strerror})")
    return ToolError(
        ErrorCode.EXECUTION_ERROR,
        f"the disk of the state folder {reason}, so {consequence}",
        "Tell the user: that disk needs attention.",
    )


class ChangeAction(StrEnum):
    created = "created"
    replaced = "replaced"
    deleted = "deleted"
    moved = "moved"


class SavedContentKind(StrEnum):
    """What follows the header: the bytes of a file, a tar archive of a directory, or nothing."""

    nothing = "nothing"
    file = "file"
    archive = "archive"
    omitted = "omitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChange:
    """One change of one file or directory. `parts` are below `root`; after a move they are the new ones.

    `by_undo`: made by an undo, whose id is `call_id`. `redone`: it reverted an undo, so that the change is
    part of the work of its task again.
    """

    session_id: str
    call_id: str
    task: str | None = None
    by_undo: bool = False
    redone: bool = False
    action: ChangeAction
    root: str
    parts: Sequence[str]
    from_root: str = ""
    from_parts: Sequence[str] = ()
    made_folders: int = 0
    before_sha256: str | None = None
    after_sha256: str | None = None
    permissions: int = 0o644
    owner: Sequence[int] = ()
    modified_ns: int = 0
    link_target: str | None = None
    identity: Sequence[int] = ()
    content: SavedContentKind = SavedContentKind.nothing
    time_us: int = field(default_factory=lambda: time.time_ns() // 1000)

    @property
    def is_undoable(self) -> bool:
        """Whether an undo of its session or task reverts it."""
        return not self.by_undo or self.redone

    @property
    def path(self) -> str:
        return str(Path(self.root).joinpath(*self.parts))

    @property
    def source(self) -> str | None:
        """Where it was moved from."""
        return str(Path(self.from_root).joinpath(*self.from_parts)) if self.from_root else None


@dataclass(frozen=True, slots=True)
class UndoEntry:
    change: RecordedChange
    file: Path

    def content(self) -> BinaryIO:
        """The earlier content, to be read from its beginning."""
        stream = self.file.open("rb")
        stream.readline(MAX_HEADER_BYTES)
        return stream


class UndoStore:
    """Limited: beyond `max_bytes` in total, the oldest entries are deleted. With 0 nothing is saved."""

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self.files = SessionFiles(folder, max_bytes=max_bytes)
        self._max_bytes = max_bytes
        self._numbering = threading.Lock()
        self._turn = threading.Lock()

    @property
    def is_on(self) -> bool:
        return self._max_bytes > 0

    def has_room_for(self, size: int) -> bool:
        return self.is_on and size <= min(MAX_ENTRY_BYTES, self._max_bytes - BLOCK_BYTES)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Serialise changes among all processes that share the state directory."""
        with self._turn, file_lock(self.files.make_directory() / ".turn"):
            yield

    def keep(self, change: RecordedChange, pieces: Iterable[bytes] = ()) -> UndoEntry | None:
        """Write an entry; it is durable when this returns. None if nothing is saved at all."""
        if not self.is_on:
            return None
        try:
            return self._kept(change, pieces)
        except OSError as error:
            # Reading the earlier content fails in other ways: this is the state directory's disk.
            if error.errno not in _NO_ROOM:
                raise
            raise state_write_error(
                error, "the current content cannot be saved; nothing was changed"
            ) from error

    def _kept(self, change: RecordedChange, pieces: Iterable[bytes]) -> UndoEntry:
        folder = self.files.make_directory(change.session_id)
        with self._numbering:
            name = f"{_next_number(folder):020d}-{secrets.token_hex(4)}"
        path = folder / f"{name}.kept"
        with durable_file(path) as stream:
            stream.write(orjson.dumps(_as_json(change)) + b"\n")
            stream.writelines(pieces)
            size = stream.tell()
        self.files.make_room(size, spare=frozenset({path}))
        return UndoEntry(change, path)

    def drop(self, entry: UndoEntry | None) -> None:
        """Delete an entry: the change was not made, or was reverted."""
        if entry is not None:
            with suppress(OSError):
                entry.file.unlink()

    def entries(self, session_id: str) -> Iterator[UndoEntry]:
        """The changes of a session, newest first. Unreadable entries are skipped."""
        for entry in _entries_in(self.files.directory_of(session_id)):
            if entry.change.session_id == session_id:
                yield entry

    def find(self, identity: str, session_id: str | None = None) -> list[UndoEntry]:
        """The entries of a session, a task, a single call or an undo, newest first.

        What an undo did is not part of the work of its session or task, unless it redid that work; it has
        an id of its own.
        With a session it is a task of that session. Without one, the heads of all entries are read. Calls
        are named by models, and count only where nothing else has that name.
        """
        if session_id is not None:
            return [entry for entry in self.entries(session_id) if _is_of_task(entry.change, identity)]
        of_session = [entry for entry in self.entries(identity) if entry.change.is_undoable]
        if of_session:
            return of_session
        found = [
            entry
            for folder in self.files.directories()
            for entry in _entries_in(folder)
            if entry.change.call_id == identity or _is_of_task(entry.change, identity)
        ]
        of_task = [entry for entry in found if _is_of_task(entry.change, identity)]
        by_undo = [entry for entry in found if entry.change.by_undo]
        found = of_task or by_undo or found
        return sorted(found, key=lambda entry: entry.file.name, reverse=True)

    def find_undo(self, undo_id: str, task: str, session_id: str) -> list[UndoEntry]:
        """What an undo of a task did, newest first."""
        return [
            entry
            for entry in self.entries(session_id)
            if entry.change.by_undo and entry.change.call_id == undo_id and _is_within(entry.change, task)
        ]


def _is_of_task(change: RecordedChange, identity: str) -> bool:
    return change.is_undoable and _is_within(change, identity)


def _is_within(change: RecordedChange, task: str) -> bool:
    """A delegated task is named after its parent, with a dot."""
    return change.task is not None and f"{change.task}.".startswith(f"{task}.")


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    except OSError:
        return []


def _entries_in(folder: Path) -> Iterator[UndoEntry]:
    for name in sorted(_names(folder), reverse=True):
        change = _read_header(folder / name)
        if change is not None:
            yield UndoEntry(change, folder / name)


def _read_header(path: Path) -> RecordedChange | None:
    try:
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            return _from_json(orjson.loads(stream.readline(MAX_HEADER_BYTES)))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _next_number(folder: Path) -> int:
    """By the clock, but always after the existing entries."""
    last = max([name for name in _names(folder) if name < _NO_NUMBER], default="0" * 20)
    return max(time.time_ns(), int(last[:20]) + 1)


# Names may be bytes that are no text; JSON can hold them as hexadecimal numbers.
_NAMES = ("root", "from_root", "link_target")
_LISTS = ("parts", "from_parts")


def _as_json(change: RecordedChange) -> dict[str, Any]:
    values = asdict(change)
    for name in _NAMES:
        values[name] = None if values[name] is None else os.fsencode(values[name]).hex()
    for name in _LISTS:
        values[name] = [os.fsencode(part).hex() for part in values[name]]
    return values


def _from_json(values: dict[str, Any]) -> RecordedChange:
    known = {name: values[name] for name in RecordedChange.__slots__ if name in values}
    for name in _NAMES:
        known[name] = None if known[name] is None else os.fsdecode(bytes.fromhex(known[name]))
    for name in _LISTS:
        known[name] = tuple(os.fsdecode(bytes.fromhex(part)) for part in known[name])
    for name in ("owner", "identity"):
        known[name] = tuple(int(number) for number in known.get(name, ()))
    if not (isinstance(known["session_id"], str) and isinstance(known["call_id"], str)):
        raise TypeError("ids must be text")
    if any(part in {"", ".", ".."} or "/" in part for name in _LISTS for part in known[name]):
        raise ValueError("parts must be names")
    return RecordedChange(
        **known | {"action": ChangeAction(known["action"]), "content": SavedContentKind(known["content"])}
    )
