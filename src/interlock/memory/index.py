"""Keeps the index current: before each search, notes that changed are read again.

A note is read, redacted and split outside any transaction; storing it is short, so that the log never waits
long. If another process was faster, its rows are kept.
"""

import hashlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from interlock.core.errors import StoreError
from interlock.core.logging import StructuredLogger
from interlock.db.database import Database
from interlock.db.driver import DbConnection, RetryTransaction
from interlock.memory import index_rows
from interlock.memory.index_rows import IndexWriter, PreparedNote, state_text
from interlock.memory.note_directory import Check, NoteDirectory, NoteState, NoteText, Redact
from interlock.memory.passages import split_note

_log = StructuredLogger(__name__)

# Increased whenever words or passages are split differently: then every note is read again.
INDEX_VERSION = 1

# SQLite has one writer, and the log must not wait long for it; in PostgreSQL only the directory's row is
# locked.
_BATCH = {"sqlite": (300, 1_000_000), "postgresql": (1000, 4_000_000)}
_TRIES = 5

# A file system's clock is coarse: a note that changed just before it was read may change again unnoticed.
_UNSETTLED_NS = 100_000_000
_UNSETTLED = "unsettled"

_FORGET_AFTER_US = 90 * 24 * 3600 * 1_000_000
_SAY_USED_AFTER_US = 24 * 3600 * 1_000_000


@dataclass(slots=True)
class _Known:
    """The state of each note in the index, as of one generation of it."""

    folder_id: int = 0
    generation: int = -1
    notes: dict[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The directory's id in the store, its number of notes, and why it may be out of date, if it is."""

    folder_id: int
    notes: int
    problem: str = ""


class _FolderGone(Exception):
    """Another process dropped the directory's rows to rebuild them."""


class MemoryIndex:
    """The index of one directory."""

    def __init__(self, database: Database, folder: NoteDirectory, redact: Redact) -> None:
        self._database = database
        self._folder = folder
        self._redact = redact
        self._batch_notes, self._batch_bytes = _BATCH[database.dialect]
        self._known = _Known()
        # The listing at the last complete sync, and the index's generation then.
        self._in_step: dict[str, NoteState] = {}
        self._in_step_at = -1
        # Paths as stored: redacted, and always encodable.
        self._shown: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def place(self) -> str:
        """Identifies the directory in the store; in a store that machines share, with the host's name."""
        path = str(self._folder.path.resolve())
        shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        return shown if self._database.config.is_sqlite else f"{socket.gethostname()}:{shown}"

    def sync(self, check: Check) -> SyncResult:
        """Index notes that were added, changed or removed. Blocking; call it in a thread."""
        with self._lock:
            for _ in range(_TRIES):
                try:
                    return self._sync(check)
                except _FolderGone:
                    self._known = _Known()
                except StoreError as error:
                    if not self._known.folder_id:
                        raise
                    _log.warning("memory_index_behind", error=str(error))
                    return SyncResult(self._known.folder_id, len(self._known.notes), str(error))
        raise StoreError("another process keeps rebuilding the memory index")

    def _sync(self, check: Check) -> SyncResult:
        listing = self._folder.notes(check)
        self._load()
        if listing == self._in_step and self._in_step_at == self._known.generation:
            return SyncResult(self._known.folder_id, len(listing))
        present = self._present(listing)
        known = self._known.notes
        changed = [
            (shown, path)
            for shown, (path, state) in present.items()
            if (was := known.get(shown)) is None or was[0] != state
        ]
        self._drop([shown for shown in known if shown not in present], check)
        self._take_in(changed, check)
        if len(changed) > self._batch_notes // 10:
            with self._writing() as connection:
                index_rows.flush_pending_index(connection)
        # The next sync can be skipped only if every note is stored as it was listed.
        is_in_step = all(known.get(shown, ("",))[0] == state for shown, (_, state) in present.items())
        self._in_step, self._in_step_at = (listing, self._known.generation) if is_in_step else ({}, -1)
        return SyncResult(self._known.folder_id, len(present))

    def _present(self, listing: Mapping[str, NoteState]) -> dict[str, tuple[str, str]]:
        """Every present note: by its stored path, the real path and its state."""
        present: dict[str, tuple[str, str]] = {}
        for path, state in listing.items():
            shown = self._shown.get(path)
            if shown is None:
                shown = self._shown[path] = self._storable(path)
            present.setdefault(shown, (path, state_text(state)))
        if len(self._shown) > 2 * len(present) + 1000:
            self._shown = {path: self._shown[path] for path, _ in present.values()}
        return present

    def _storable(self, path: str) -> str:
        text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        return self._redact(text)

    def _load(self) -> None:
        """Read the index's state, unless it is unchanged since the last read."""
        with self._database.reading() as connection:
            rows = connection.query(index_rows.FIND_FOLDER, (self.place,))
            if rows and rows[0][1] == INDEX_VERSION:
                folder_id, _, generation, used_us = rows[0]
                if (folder_id, generation) != (self._known.folder_id, self._known.generation):
                    notes = {
                        str(path): (str(state), str(digest))
                        for path, state, digest in connection.query(index_rows.ALL_NOTES, (folder_id,))
                    }
                    self._known = _Known(int(folder_id), int(generation), notes)
                if used_us > _now_us() - _SAY_USED_AFTER_US:
                    return
        self._begin_folder()

    def _begin_folder(self) -> None:
        """Create a row for this directory; drop outdated indexes, and those not used for long."""
        with self._writing() as connection:
            stale = [
                int(row[0])
                for row in connection.query(index_rows.FIND_FOLDER, (self.place,))
                if row[1] != INDEX_VERSION
            ]
            unused = connection.query(index_rows.UNUSED_FOLDERS, (_now_us() - _FORGET_AFTER_US,))
            for folder_id in {*stale, *(int(row[0]) for row in unused)}:
                connection.query(index_rows.HOLD_FOLDER, (folder_id,))
                IndexWriter(connection, folder_id, 0).drop_all()
            connection.change(index_rows.ADD_FOLDER, (self.place, INDEX_VERSION, _now_us()))
            (row,) = connection.query(index_rows.FIND_FOLDER, (self.place,))
            connection.query(index_rows.CHANGED_FOLDER, (0, 0, _now_us(), row[0]))
        self._load()

    def _drop(self, gone: list[str], check: Check) -> None:
        for start in range(0, len(gone), self._batch_notes):
            check()
            was = {path: self._known.notes[path][0] for path in gone[start : start + self._batch_notes]}

            def drop(rows: IndexWriter, was: dict[str, str] = was) -> dict[str, tuple[str, str] | None]:
                return dict.fromkeys(rows.drop(was))

            self._change(drop)

    def _take_in(self, changed: list[tuple[str, str]], check: Check) -> None:
        waiting: list[PreparedNote] = []
        size = 0
        for shown, path in changed:
            check()
            read = self._folder.read(path)
            if read is None:
                continue
            waiting.append(self._prepared(shown, read))
            size += len(read.data)
            if len(waiting) >= self._batch_notes or size >= self._batch_bytes:
                self._put(waiting)
                waiting, size = [], 0
        self._put(waiting)

    def _prepared(self, shown: str, read: NoteText) -> PreparedNote:
        digest = hashlib.sha256(read.data).hexdigest()
        was, known_digest = self._known.notes.get(shown, (None, ""))
        state = _UNSETTLED if _is_unsettled(read.state) else state_text(read.state)
        note = None if digest == known_digest else split_note(shown, read.text(self._redact))
        return PreparedNote(shown, was, state, digest, note)

    def _put(self, waiting: list[PreparedNote]) -> None:
        def put(rows: IndexWriter) -> dict[str, tuple[str, str] | None]:
            return {note.path: (note.state, note.digest) for note in rows.put(waiting)}

        if waiting:
            self._change(put)

    def _change(self, work: Callable[[IndexWriter], Mapping[str, tuple[str, str] | None]]) -> None:
        """One short transaction on this directory, retried where the database asks for it."""
        folder_id = self._known.folder_id
        for attempt in range(_TRIES):
            try:
                with self._writing() as connection:
                    held = connection.query(index_rows.HOLD_FOLDER, (folder_id,))
                    if not held:
                        raise _FolderGone
                    rows = IndexWriter(connection, folder_id, int(held[0][0]))
                    changes = work(rows)
                    rows.close()
                    values = (rows.passages_added, rows.notes_added, _now_us(), folder_id)
                    (row,) = connection.query(index_rows.CHANGED_FOLDER, values)
                self._remember(changes, int(row[0]))
                return
            except RetryTransaction as error:
                last = error
                time.sleep(0.01 * attempt)
        raise StoreError(f"the database kept failing: {last}")

    def _remember(self, changes: Mapping[str, tuple[str, str] | None], generation: int) -> None:
        """Apply our own changes without reading them back, if there were no others."""
        known = self._known
        known.generation = generation if generation == known.generation + 1 else -1
        for path, note in changes.items():
            if note is None:
                known.notes.pop(path, None)
            else:
                known.notes[path] = note

    @contextmanager
    def _writing(self) -> Iterator[DbConnection]:
        """A transaction of its own: the index holds no facts, so it bypasses the log."""
        if self._database.reserve is not None:
            self._database.reserve.require()
        with self._database.config.transaction() as connection:
            yield connection


def _is_unsettled(state: NoteState) -> bool:
    return abs(time.time_ns() - state[3]) < _UNSETTLED_NS


def _now_us() -> int:
    return time.time_ns() // 1000
