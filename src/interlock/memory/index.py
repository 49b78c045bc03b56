"""The search index of a directory of notes: a SQLite FTS5 file in the state directory.

It is derived from the notes: before each search those that changed are read again. It holds no secret, is
never shared between machines, and is rebuilt if it is damaged or of another version.
"""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeVar

from interlock.core.errors import StatementRefused, StoreConflict, StoreCorrupt, StoreError, StoreForeign
from interlock.core.file_lock import open_lock_file, take_lock
from interlock.core.logging import StructuredLogger
from interlock.db.database import prepare_state_directory
from interlock.db.disk_reserve import DiskReserve
from interlock.db.driver import SqliteConnection, file_open_error
from interlock.memory.authorship import AuthorLines
from interlock.memory.note_directory import MAX_NOTES, Check, NoteDirectory, NoteState, Redact
from interlock.memory.passages import Passage, split_note

_log = StructuredLogger(__name__)

Result = TypeVar("Result")

# Increased whenever the tables change, or words or passages are split differently: the file is rebuilt.
INDEX_VERSION = 3

# The words come ready made, of letters and digits alone: the tokenizer only splits at spaces. `endings` has
# each word once more, written backwards: the vocabulary is then sorted by both ends of a word.
TABLES = (
    """
CREATE TABLE notes (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    digest TEXT NOT NULL,
    title TEXT NOT NULL,
    changed_ns INTEGER NOT NULL
)""",
    """
CREATE VIRTUAL TABLE passages USING fts5(
    head, words, endings,
    line UNINDEXED, heading UNINDEXED, day UNINDEXED, text UNINDEXED, author UNINDEXED,
    tokenize = 'ascii'
)""",
    "INSERT INTO passages (passages, rank) VALUES ('rank', 'bm25(3.0, 1.0, 0.0)')",
    "CREATE VIRTUAL TABLE vocabulary USING fts5vocab(passages, row)",
    f"PRAGMA user_version = {INDEX_VERSION}",
)
READ_VERSION = "PRAGMA user_version"
NOTE_STATES = "SELECT path, state FROM notes"
READ_NOTE = "SELECT id, digest FROM notes WHERE path = ?"
PUT_NOTE = """
INSERT INTO notes (path, state, digest, title, changed_ns) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (path) DO UPDATE SET
    state = excluded.state, digest = excluded.digest, title = excluded.title,
    changed_ns = excluded.changed_ns
RETURNING id
"""
KEEP_NOTE = "UPDATE notes SET state = ?, changed_ns = ? WHERE id = ?"
REMOVE_NOTE = "DELETE FROM notes WHERE id = ?"
REMOVE_PASSAGES = "DELETE FROM passages WHERE rowid BETWEEN ? AND ?"
ADD_PASSAGES = """
INSERT INTO passages (rowid, head, words, endings, line, heading, day, text, author)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

# Precedes a word that is written backwards. No word contains it.
BACKWARDS = "\u00a7"
# The number of a passage contains that of its note.
PASSAGE_BITS = 12

BUSY_TIMEOUT_SECONDS = 5.0
# What one transaction reads: other processes that index the same notes take turns between them.
BATCH_BYTES = 1_000_000
FORGET_AFTER_SECONDS = 90 * 24 * 3600.0

# A file system's clock is coarse: a note that changed just before it was read may change again unnoticed.
_UNSETTLED_NS = 100_000_000
_UNSETTLED = "unsettled"

# The file is damaged, or its tables are not ours.
_DAMAGED = (StoreCorrupt, StoreForeign, StatementRefused, StoreConflict)


@dataclass(frozen=True, slots=True)
class IndexedRead(Generic[Result]):
    """What was read, the number of notes, and why the index may be behind them, if it may."""

    value: Result
    notes: int
    problem: str = ""


class MemoryIndex:
    """The index of one directory of notes.

    `reserve` refuses to fill the store's disk. `machine` is named where machines may share the state
    directory: SQLite cannot share a file between them.
    """

    def __init__(
        self,
        state_dir: Path,
        notes: NoteDirectory,
        redact: Redact,
        authors: AuthorLines,
        reserve: DiskReserve | None = None,
        machine: str = "",
    ) -> None:
        self._state_dir = state_dir
        self._notes = notes
        self._redact = redact
        self._authors = authors
        self._reserve = reserve
        self._machine = machine
        # Paths as stored: redacted, and always encodable.
        self._stored_path = lru_cache(MAX_NOTES)(lambda path: redact(_encodable(path)))
        self._lock = threading.Lock()

    @property
    def path(self) -> Path:
        """The index file, named by the directory of the notes."""
        place = os.fsencode(f"{self._machine}:{self._notes.path.resolve()}")
        return self._state_dir / "memory-index" / f"{hashlib.sha256(place).hexdigest()[:16]}.db"

    def read(self, work: Callable[[SqliteConnection], Result], check: Check) -> IndexedRead[Result]:
        """Index what changed, then read from one snapshot. Blocking; call it in a thread."""
        with self._lock:
            try:
                return self._read(work, check)
            except _DAMAGED as error:
                _log.warning("memory_index_rebuilt", reason=str(error))
                with self._held(alone=True) as path:
                    _remove(path)
                return self._read(work, check)

    def _read(self, work: Callable[[SqliteConnection], Result], check: Check) -> IndexedRead[Result]:
        with self._opened() as connection:
            known: dict[str, str] = dict(connection.query(NOTE_STATES))
            problem = ""
            listing = self._listing(check)
            try:
                self._update(connection, known, listing, check)
            except _DAMAGED:
                raise
            except StoreError as error:
                if not known:
                    raise
                _log.warning("memory_index_behind", error=str(error))
                problem = str(error)
            connection.begin(write=False)
            return IndexedRead(work(connection), len(listing), problem)

    # -- the file --

    @contextmanager
    def _opened(self) -> Iterator[SqliteConnection]:
        """A connection of its own: while it is open, no process removes the file."""
        with self._held(alone=False) as path, closing(_connect(path)) as connection:
            version = connection.query(READ_VERSION)[0][0]
            if version != INDEX_VERSION:
                if version:
                    raise StoreForeign(f"{path} has version {version}")
                self._create(connection)
            yield connection

    def _create(self, connection: SqliteConnection) -> None:
        self._require_room()
        with _transaction(connection):
            if connection.query(READ_VERSION)[0][0] != INDEX_VERSION:
                for statement in TABLES:
                    connection.change(statement)
        self._forget_unused()

    @contextmanager
    def _held(self, *, alone: bool, path: Path | None = None) -> Iterator[Path]:
        """Hold the file's lock. Its lock file's time says when the index was last used."""
        path = path or self.path
        prepare_state_directory(path)
        try:
            lock = open_lock_file(path.with_suffix(".lock"))
        except OSError as error:
            raise file_open_error(error, path) from None
        try:
            if not take_lock(lock, shared=not alone, patience_seconds=BUSY_TIMEOUT_SECONDS):
                raise StoreError(f"{path} is in use by another process")
            os.utime(lock)
            yield path
        finally:
            os.close(lock)

    def _forget_unused(self) -> None:
        """Remove the indexes of directories that were not searched for long."""
        for lock in self.path.parent.glob("*.lock"):
            path = lock.with_suffix(".db")
            is_unused = time.time() - lock.stat().st_mtime > FORGET_AFTER_SECONDS
            if is_unused and path != self.path and path.exists():
                with suppress(StoreError), self._held(alone=True, path=path):
                    _remove(path)

    def _require_room(self) -> None:
        if self._reserve is not None:
            self._reserve.require()

    # -- following the notes --

    def _listing(self, check: Check) -> dict[str, tuple[str, NoteState]]:
        """Every note that is there: by its stored path, the real path and its state."""
        found: dict[str, tuple[str, NoteState]] = {}
        for path, state in self._notes.notes(check).items():
            found.setdefault(self._stored_path(path), (path, state))
        return found

    def _update(
        self,
        connection: SqliteConnection,
        known: Mapping[str, str],
        listing: Mapping[str, tuple[str, NoteState]],
        check: Check,
    ) -> None:
        """Index what differs, in short transactions. They read the files, so that the last one is right."""
        gone = [path for path in known if path not in listing]
        changed = [path for path, (_, state) in listing.items() if known.get(path) != _text_of(state)]
        while gone or changed:
            check()
            self._require_room()
            with _transaction(connection):
                current: dict[str, str] = dict(connection.query(NOTE_STATES))
                for path in gone:
                    # Unless another process has meanwhile indexed a new file of that name.
                    if current.get(path) == known[path]:
                        self._drop(connection, path)
                gone, size = [], 0
                while changed and size < BATCH_BYTES:
                    check()
                    stored = changed.pop()
                    path, state = listing[stored]
                    if current.get(stored) != _text_of(state):
                        size += self._index(connection, stored, path)

    def _drop(self, connection: SqliteConnection, path: str) -> None:
        for note_id, _ in connection.query(READ_NOTE, (path,)):
            _remove_passages(connection, note_id)
            connection.change(REMOVE_NOTE, (note_id,))

    def _index(self, connection: SqliteConnection, stored: str, path: str) -> int:
        """Index one note; returns how much was read."""
        read = self._notes.read(path)
        if read is None:
            return 0
        changed_ns = read.state[2]
        state = _UNSETTLED if _is_unsettled(read.state) else _text_of(read.state)
        digest = hashlib.sha256(read.data).hexdigest()
        known = connection.query(READ_NOTE, (stored,))
        if known and known[0][1] == digest:
            connection.change(KEEP_NOTE, (state, changed_ns, known[0][0]))
            return len(read.data)
        text = read.text(self._redact)
        authors = self._authors.read(read.text(lambda given: given), text)
        note = split_note(stored, text, {line: self._redact(each) for line, each in authors.items()})
        ((note_id,),) = connection.query(PUT_NOTE, (stored, state, digest, note.title, changed_ns))
        if known:
            _remove_passages(connection, note_id)
        rows = [_row(note_id << PASSAGE_BITS | place, each) for place, each in enumerate(note.passages)]
        connection.change_many(ADD_PASSAGES, rows)
        return len(read.data)


def _row(rowid: int, passage: Passage) -> tuple[object, ...]:
    endings = " ".join(BACKWARDS + word[::-1] for word in {*passage.head_words, *passage.words})
    head, words = " ".join(passage.head_words), " ".join(passage.words)
    place = (passage.line, passage.heading, passage.day)
    return rowid, head, words, endings, *place, passage.text, passage.author


def _remove_passages(connection: SqliteConnection, note_id: int) -> None:
    connection.change(REMOVE_PASSAGES, (note_id << PASSAGE_BITS, (note_id + 1 << PASSAGE_BITS) - 1))


def _connect(path: Path) -> SqliteConnection:
    # It can be rebuilt: no commit has to wait for the disk.
    return SqliteConnection(path, busy_timeout_seconds=BUSY_TIMEOUT_SECONDS, synchronous="normal")


@contextmanager
def _transaction(connection: SqliteConnection) -> Iterator[None]:
    connection.begin(write=True)
    try:
        yield
        connection.commit()
    finally:
        connection.rollback()


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _encodable(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _text_of(state: NoteState) -> str:
    return ".".join(map(str, state))


def _is_unsettled(state: NoteState) -> bool:
    return abs(time.time_ns() - state[3]) < _UNSETTLED_NS
