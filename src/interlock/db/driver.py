"""One connection to either database with the same SQL, and the edge where its errors are mapped.

Statements are written once, with `?` parameters and a few placeholders that differ by database: `{NOW_MS}`
(the database's own clock), `{LEASE_MS}` (the clock of leases) and the row locks `{FOR_UPDATE}` and
`{FOR_SHARE}`, which SQLite does not need: its one writer holds the whole file.
"""

import errno
import os
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

from interlock.core.errors import (
    InterlockError,
    StatementRefused,
    StoreConflict,
    StoreCorrupt,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreLocked,
    StoreUnavailable,
    StoreUnwritable,
)

Row = tuple[Any, ...]
Parameters = Sequence[Any]


class RetryTransaction(Exception):
    """The database aborted this transaction in favour of another one; nothing of it was written."""


class DbConnection(ABC):
    """A connection with explicit transactions.

    `raw` is the driver's own, `faults` what it raises, and `translate` makes our SQL its own.
    """

    dialect: str
    raw: Any
    faults: tuple[type[BaseException], ...]
    translate: Callable[[str], str]

    @abstractmethod
    def error(self, error: BaseException) -> Exception:
        """Our error for one of the driver's."""

    def query(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        try:
            rows: list[Row] = self.raw.execute(self.translate(sql), parameters).fetchall()
        except self.faults as error:
            raise self.error(error) from error
        return rows

    def change(self, sql: str, parameters: Parameters = ()) -> int:
        """Run a statement that writes; returns the number of rows it touched."""
        try:
            return int(self.raw.execute(self.translate(sql), parameters).rowcount)
        except self.faults as error:
            raise self.error(error) from error

    def change_many(self, sql: str, rows: Sequence[Parameters]) -> int:
        """Run it once for each of `rows`; returns the number of rows it touched in all."""
        if not rows:
            return 0
        try:
            with closing(self.raw.cursor()) as cursor:
                cursor.executemany(self.translate(sql), rows)
                return int(cursor.rowcount)
        except self.faults as error:
            raise self.error(error) from error

    def stream(self, sql: str, parameters: Parameters = ()) -> Iterator[Row]:
        """The rows one by one, without holding them all; one such query at a time."""
        try:
            with closing(self._streaming_cursor()) as cursor:
                yield from cursor.execute(self.translate(sql), parameters)
        except self.faults as error:
            raise self.error(error) from error

    @abstractmethod
    def _streaming_cursor(self) -> Any: ...

    @abstractmethod
    def begin(self, *, write: bool) -> None: ...

    def commit(self) -> None:
        self.change("COMMIT")

    @abstractmethod
    def rollback(self) -> None: ...

    def close(self) -> None:
        self.raw.close()


# -- SQLite ------------------------------------------------------------------------------------------

WAL_RETRY_SECONDS = 0.01

# No lease lasts longer. A lease beyond this was taken by another clock: before the clock was set back, or
# before the machine restarted.
LONGEST_LEASE_SECONDS = 3600
_LONGEST_LEASE_MS = LONGEST_LEASE_SECONDS * 1000

_SQLITE_WORDS = {
    "{LEASE_MS}": "lease_ms()",
    "{LAST_LEASE_MS}": f"(lease_ms() + {_LONGEST_LEASE_MS})",
    "{NOW_MS}": "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)",
    "{FOR_UPDATE}": "",
    "{FOR_SHARE}": "",
}


@lru_cache(maxsize=256)
def _sqlite_sql(sql: str) -> str:
    for word, meaning in _SQLITE_WORDS.items():
        sql = sql.replace(word, meaning)
    return sql


@lru_cache(maxsize=1)
def _start_of_the_machine() -> int:
    """A number for each boot, so that no two boots share a range of the lease clock."""
    try:
        name = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        name = b""
    return 1 + crc32(name) % (2**20 - 1)


def lease_ms() -> int:
    """Milliseconds since boot, suspend included: setting the system clock moves no lease.

    All processes that share an SQLite file run on one machine.
    """
    return (_start_of_the_machine() << 42) + time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class SqliteConnection(DbConnection):
    dialect = "sqlite"
    faults = (sqlite3.Error, OverflowError, UnicodeEncodeError)
    translate = staticmethod(_sqlite_sql)

    def __init__(
        self, path: Path, *, busy_timeout_seconds: float, synchronous: str, as_found: bool = False
    ) -> None:
        self._path = path
        try:
            self.raw: sqlite3.Connection = sqlite3.connect(
                path,
                timeout=busy_timeout_seconds,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
            )
        except sqlite3.Error as error:
            raise sqlite_error(error, path) from error
        try:
            self.raw.execute("PRAGMA trusted_schema=OFF")
            self.raw.create_function("lease_ms", 0, lease_ms)
            if not as_found:
                self._choose_wal(busy_timeout_seconds)
                self.raw.execute(f"PRAGMA synchronous={synchronous}")
                # Erased content must be gone from the file, not only from the tables.
                self.raw.execute("PRAGMA secure_delete=ON")
        except sqlite3.Error as error:
            # Else the file stays open until the next garbage collection.
            self.raw.close()
            raise sqlite_error(error, path) from error

    def error(self, error: BaseException) -> Exception:
        return sqlite_error(error, self._path)

    def _choose_wal(self, patience_seconds: float) -> None:
        """Retry: SQLite itself does not wait here for another connection that is being opened or closed."""
        deadline = time.monotonic() + patience_seconds
        while True:
            try:
                self.raw.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() >= deadline:
                    raise
                time.sleep(WAL_RETRY_SECONDS)

    def _streaming_cursor(self) -> Any:
        return self.raw.cursor()

    def begin(self, *, write: bool) -> None:
        self.change("BEGIN IMMEDIATE" if write else "BEGIN")

    def rollback(self) -> None:
        # A full disk may already have ended the transaction.
        if self.raw.in_transaction:
            self.change("ROLLBACK")

    def check_pages(self) -> list[str]:
        """What SQLite finds wrong with the file itself; empty if it is sound."""
        found = [str(row[0]) for row in self.query("PRAGMA quick_check(10)")]
        return [] if found == ["ok"] else found

    def checkpoint_wal(self) -> None:
        """Copy the write-ahead file's content into the store; the file keeps its size."""
        self.query("PRAGMA wal_checkpoint(PASSIVE)")

    def leave_wal_mode(self) -> None:
        """Remove the write-ahead file. Fails while any other process has the store open."""
        self.query("PRAGMA journal_mode=DELETE")

    def copy_into(self, target: Path) -> None:
        """A consistent copy of the whole database, made while others may be writing."""
        try:
            copy = sqlite3.connect(target)
            try:
                self.raw.backup(copy)
            finally:
                copy.close()
        except sqlite3.Error as error:
            raise sqlite_error(error, target) from error


_NO_SPACE = "has no space left to grow; nothing was written: free space on its disk"

# By SQLite's primary result code: our error, and a sentence about the file.
_SQLITE_ERRORS: dict[int, tuple[type[InterlockError], str]] = {
    sqlite3.SQLITE_BUSY: (StoreLocked, "is locked by another process; try again later"),
    sqlite3.SQLITE_LOCKED: (StoreLocked, "is locked by another process; try again later"),
    sqlite3.SQLITE_FULL: (StoreFull, _NO_SPACE),
    sqlite3.SQLITE_READONLY: (
        StoreUnwritable,
        "cannot be opened for writing; check the permissions of its folder",
    ),
    sqlite3.SQLITE_PERM: (
        StoreUnwritable,
        "cannot be opened for writing; check the permissions of its folder",
    ),
    sqlite3.SQLITE_NOTADB: (StoreForeign, "is not an Interlock database; it was not changed"),
    sqlite3.SQLITE_CORRUPT: (StoreCorrupt, "is damaged; restore a backup with `interlock restore`"),
}

# Faults of the statement or its values; the store itself is sound.
_SQLITE_REQUEST_FAULTS = frozenset(
    {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE}
)


def sqlite_error(error: BaseException, path: Path) -> InterlockError:
    if not isinstance(error, sqlite3.Error):
        return StatementRefused(f"{path}: a value cannot be stored: {error}")
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_CANTOPEN:
        return _why_not_opened(path)
    if code == sqlite3.SQLITE_IOERR:
        return _why_not_written(path)
    if code in _SQLITE_ERRORS:
        known, sentence = _SQLITE_ERRORS[code]
        return known(f"{path} {sentence}")
    if code == sqlite3.SQLITE_CONSTRAINT:
        return StoreConflict(str(error))
    if code in _SQLITE_REQUEST_FAULTS:
        return StatementRefused(f"{path}: {error}")
    return StoreError(f"{path}: {error}")


def _why_not_opened(path: Path) -> StoreError:
    """Open the file once more for the reason, which SQLite does not report."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return file_open_error(error, path)
    return StoreUnwritable(f"{path} cannot be opened for writing; check the permissions of its folder")


def _why_not_written(path: Path) -> StoreError:
    """On a full disk SQLite reports an I/O error where its shared memory cannot grow."""
    try:
        disk = os.statvfs(path.parent)
    except OSError as error:
        return file_open_error(error, path)
    if not disk.f_bavail or (disk.f_files and not disk.f_favail):
        return StoreFull(f"{path} {_NO_SPACE}")
    return StoreUnavailable(f"{path}: the disk reported a read or write error; see the system log")


def file_open_error(error: OSError, path: Path) -> StoreError:
    """Map an error of opening a file of the store."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StoreFull(f"{path} cannot be created: its disk is full")
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        return StoreUnavailable(
            f"{path} cannot be opened: too many open files; raise the limit (ulimit -n)"
        )
    return StoreUnwritable(f"{path} cannot be opened for writing: {error.strerror}")


# -- PostgreSQL --------------------------------------------------------------------------------------

_POSTGRES_NOW_MS = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"
_POSTGRES_WORDS = {
    "{LEASE_MS}": _POSTGRES_NOW_MS,
    "{LAST_LEASE_MS}": f"({_POSTGRES_NOW_MS} + {_LONGEST_LEASE_MS})",
    "{NOW_MS}": _POSTGRES_NOW_MS,
    "{FOR_UPDATE}": "FOR UPDATE",
    "{FOR_SHARE}": "FOR SHARE",
}
STREAM_ROWS = 200  # per fetch
_RETRY_STATES = frozenset({"40001", "40P01"})
# The server ends the connection, is starting or stopping, or has no connection left.
_AWAY_STATES = frozenset({"25P03", "53200", "53300", "57014", "57P01", "57P02", "57P03", "57P05"})


@lru_cache(maxsize=256)
def _postgres_sql(sql: str) -> str:
    for word, meaning in _POSTGRES_WORDS.items():
        sql = sql.replace(word, meaning)
    return sql.replace("%", "%%").replace("?", "%s")


class PostgresConnection(DbConnection):
    dialect = "postgresql"
    translate = staticmethod(_postgres_sql)

    def __init__(self, url: str, *, busy_timeout_seconds: float) -> None:
        try:
            import psycopg
        except ImportError:
            raise StoreError(
                "DATABASE_URL names PostgreSQL, but its driver is not installed: "
                "pip install 'interlock-runtime[postgres]'"
            ) from None
        self.faults = (psycopg.Error,)
        milliseconds = int(busy_timeout_seconds * 1000)
        try:
            self.raw: psycopg.Connection[Row] = psycopg.connect(
                url,
                autocommit=True,
                connect_timeout=max(2, int(busy_timeout_seconds)),
                application_name="interlock",
                # A server that vanished is noticed within a lease's time.
                keepalives_idle=5,
                keepalives_interval=2,
                keepalives_count=3,
                tcp_user_timeout=10_000,
                # A process that is stopped in a transaction must not hold a session for ever.
                options=f"-c lock_timeout={milliseconds} "
                f"-c idle_in_transaction_session_timeout={milliseconds}",
            )
        except psycopg.Error as error:
            raise self.error(error) from error

    def error(self, error: BaseException) -> Exception:
        return postgres_error(error)

    def _streaming_cursor(self) -> Any:
        cursor = self.raw.cursor("interlock_stream")
        cursor.itersize = STREAM_ROWS
        return cursor

    def begin(self, *, write: bool) -> None:
        self.change("BEGIN" if write else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def rollback(self) -> None:
        if not self.raw.closed:
            self.change("ROLLBACK")


def postgres_error(error: BaseException) -> Exception:
    state = getattr(error, "sqlstate", None)
    sentence = " ".join(str(error).split())
    if state in _RETRY_STATES:
        return RetryTransaction(sentence)
    if state is not None and state.startswith("23"):
        return StoreConflict(sentence)
    if state in {"25006", "42501"}:
        return StoreUnwritable(f"the database does not allow Interlock to write: {sentence}")
    if (state or "")[:2] in {"22", "42"} or type(error).__name__ in {"DataError", "ProgrammingError"}:
        return StatementRefused(f"PostgreSQL: {sentence}")
    if state == "55P03":
        return StoreLocked(f"the database is locked by another process: {sentence}")
    if state == "53100":
        return StoreFull(f"the database has no space left; free space on its server's disk: {sentence}")
    is_connection = type(error).__name__ in {"OperationalError", "InterfaceError"} and state is None
    if is_connection or state in _AWAY_STATES or (state or "")[:2] in {"08", "58"}:
        return StoreUnavailable(f"PostgreSQL: {sentence}")
    return StoreError(f"PostgreSQL: {sentence}")
