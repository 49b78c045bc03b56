"""Opens the store: detects its schema, refuses an unknown one, and pools connections."""

import asyncio
import errno
import os
import queue
import re
import sqlite3
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from interlock.core.errors import (
    ConfigurationError,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreLocked,
    StoreTooNew,
    StoreUnavailable,
    StoreUnwritable,
)
from interlock.core.file_lock import open_lock_file, take_lock
from interlock.db.disk_reserve import DiskReserve
from interlock.db.driver import (
    DbConnection,
    Parameters,
    PostgresConnection,
    Row,
    SqliteConnection,
    file_open_error,
)
from interlock.db.schema import STEPS

Result = TypeVar("Result")

# The newest step of the schema that this program has.
SCHEMA_REVISION = STEPS[-1][:4]

# A visible row that is newer than every transaction of this server came from another server.
FOREIGN_TRANSACTIONS = """
SELECT 1 FROM events
WHERE txid >= CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint) LIMIT 1
"""

TABLE_NAMES = {
    "sqlite": "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    "postgresql": "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()",
}

OLDEST_SQLITE = (3, 35, 0)
SQLITE_HEADER = b"SQLite format 3\0"
MAX_READERS = 4


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where the store is, its timeout and its durability."""

    url: str
    busy_timeout_seconds: float = 10.0
    synchronous: str = "full"

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite:")

    @property
    def path(self) -> Path:
        """The SQLite file."""
        before, _, location = self.url.partition("sqlite:///")
        if before or not location:
            raise ConfigurationError("DATABASE_URL: write sqlite:///PATH with the path of a file")
        return Path(location)

    def connect(self, *, as_found: bool = False) -> DbConnection:
        """A connection; with `as_found`, a file that may not be ours is not changed."""
        if self.is_sqlite:
            return SqliteConnection(
                self.path,
                busy_timeout_seconds=self.busy_timeout_seconds,
                synchronous=self.synchronous,
                as_found=as_found,
            )
        return PostgresConnection(self.url, busy_timeout_seconds=self.busy_timeout_seconds)

    @contextmanager
    def transaction(self) -> Iterator[DbConnection]:
        """A connection of its own in a transaction, which is committed at the end."""
        with closing(self.connect()) as connection:
            connection.begin(write=True)
            try:
                yield connection
                connection.commit()
            finally:
                connection.rollback()


class Database:
    """A checked store: reads run on a few pooled connections, in threads of their own."""

    def __init__(
        self, config: StoreConfig, hold: "StoreLock | None" = None, reserve: DiskReserve | None = None
    ) -> None:
        """`reserve` is None with PostgreSQL: a client cannot hold space on its server's disk."""
        self.config = config
        self.reserve = reserve
        self._hold = hold
        self._idle: queue.SimpleQueue[DbConnection] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(MAX_READERS, thread_name_prefix="interlock-reader")

    @property
    def dialect(self) -> str:
        return "sqlite" if self.config.is_sqlite else "postgresql"

    @contextmanager
    def reading(self) -> Iterator[DbConnection]:
        """A connection in one consistent, read-only snapshot."""
        connection, _ = self._checkout(lambda fresh: fresh.begin(write=False))
        try:
            yield connection
            connection.rollback()
        except BaseException:
            connection.close()
            raise
        self._idle.put(connection)

    def _checkout(self, use: Callable[[DbConnection], Result]) -> tuple[DbConnection, Result]:
        """A connection and its first result. Pooled connections that were lost meanwhile are skipped."""
        while True:
            try:
                connection, is_fresh = self._idle.get_nowait(), False
            except queue.Empty:
                connection, is_fresh = self.config.connect(), True
            try:
                return connection, use(connection)
            except BaseException as error:
                connection.close()
                if is_fresh or not isinstance(error, StoreUnavailable):
                    raise

    async def read(self, work: Callable[[DbConnection], Result]) -> Result:
        def run() -> Result:
            with self.reading() as connection:
                return work(connection)

        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    async def fetch(self, statement: str, parameters: Parameters = ()) -> list[Row]:
        """Read a row or two, in one statement.

        SQLite has them in memory, and a thread would cost far more. PostgreSQL needs one round trip: a
        single statement needs no transaction.
        """
        if self.config.is_sqlite:
            return self._look(statement, parameters)
        looking = asyncio.get_running_loop().run_in_executor(
            self._threads, self._look, statement, parameters
        )
        return await looking

    def _look(self, statement: str, parameters: Parameters) -> list[Row]:
        connection, rows = self._checkout(lambda pooled: pooled.query(statement, parameters))
        self._idle.put(connection)
        return rows

    def close(self) -> None:
        self._threads.shutdown(wait=True)
        while not self._idle.empty():
            self._idle.get().close()
        if self.reserve is not None:
            with suppress(StoreError):
                self.reserve.is_whole() or self.reserve.allocate()
        if self._hold is not None:
            self._hold.release()


class StoreLock:
    """A lock file beside an SQLite file: shared by its users, exclusive for a process that replaces it."""

    def __init__(self, path: Path, *, alone: bool, patience_seconds: float) -> None:
        lock = path.with_name(f"{path.name}.in-use")
        try:
            self._descriptor: int | None = open_lock_file(lock)
        except OSError as error:
            raise file_open_error(error, lock) from None
        if not take_lock(self._descriptor, shared=not alone, patience_seconds=patience_seconds):
            self.release()
            reason = "is in use; stop Interlock first" if alone else "is being restored"
            raise StoreLocked(f"{path} {reason}")

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def open_database(config: StoreConfig) -> Database:
    """The store, ready to use. SQLite is created and upgraded here; PostgreSQL never is."""
    if not config.is_sqlite:
        _refuse_unready(config)
        return Database(config)
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise ConfigurationError(f"SQLite {sqlite3.sqlite_version} is too old; Interlock needs 3.35")
    prepare_state_directory(config.path)
    hold = StoreLock(config.path, alone=False, patience_seconds=config.busy_timeout_seconds)
    reserve = DiskReserve(config.path)
    try:
        reserve.allocate()
        if _revision_on_full_disk(config, reserve) != SCHEMA_REVISION:
            # Imported here: most starts need none of it.
            from interlock.db.upgrade import upgrade

            upgrade(config)
    except BaseException:
        hold.release()
        raise
    return Database(config, hold, reserve)


def _revision_on_full_disk(config: StoreConfig, reserve: DiskReserve) -> str | None:
    """Opening a store needs a little space, even to cancel something or to read."""
    try:
        return stored_revision(config)
    except StoreFull:
        reserve.release()
        return stored_revision(config)


def _refuse_unready(config: StoreConfig) -> None:
    revision = stored_revision(config)
    if revision != SCHEMA_REVISION:
        state = "is empty" if revision is None else f"has schema {revision}"
        raise StoreError(
            f"the database {state}, but this program needs schema {SCHEMA_REVISION}: run "
            "`interlock db upgrade`"
        )
    with closing(config.connect()) as connection:
        if connection.query(FOREIGN_TRANSACTIONS):
            raise StoreError(
                "the database was copied from another PostgreSQL: run `interlock db upgrade` to adopt it"
            )


def prepare_state_directory(path: Path) -> None:
    """Create the state directory, for its owner alone, and check that it is writable."""
    folder = path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise file_open_error(error, folder) from None
        raise StoreUnwritable(f"the state folder {folder} cannot be created: {error.strerror}") from None
    if not os.access(folder, os.W_OK | os.X_OK) or not _can_create_in(folder):
        raise StoreUnwritable(f"the state folder {folder} is not writable")
    try:
        if not path.exists():
            path.touch(mode=0o600)
    except OSError as error:
        raise file_open_error(error, path) from None


def _can_create_in(folder: Path) -> bool:
    # os.access says yes to root even on a read-only file system.
    return not os.statvfs(folder).f_flag & os.ST_RDONLY


def stored_revision(config: StoreConfig) -> str | None:
    """The store's schema; None if there is none yet. A store of another program is refused."""
    if config.is_sqlite:
        if not config.path.exists():
            return None
        _refuse_other_files(config.path)
    with closing(config.connect(as_found=True)) as connection:
        tables = {str(row[0]) for row in connection.query(TABLE_NAMES[connection.dialect])}
        if not tables:
            return None
        if not {"alembic_version", "store_info"} <= tables:
            raise StoreForeign(f"{_name(config)} contains another program's tables; it was not changed")
        rows = connection.query("SELECT version_num FROM alembic_version")
        revision = str(rows[0][0]) if len(rows) == 1 else ""
    if not re.fullmatch(r"\d{4}", revision):
        raise StoreForeign(f"{_name(config)} has an unknown schema '{revision}'; it was not changed")
    if revision > SCHEMA_REVISION:
        raise StoreTooNew(
            f"{_name(config)} has schema {revision}, newer than this program's {SCHEMA_REVISION}: it was "
            "written by a newer Interlock, or by 0.1, which no other version can read. Nothing was "
            "changed: use the version that wrote it, or start with a new state folder"
        )
    return revision


def _refuse_other_files(path: Path) -> None:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise StoreForeign(f"{path} is not a file; it was not changed")
        with path.open("rb") as file:
            header = file.read(len(SQLITE_HEADER))
    except OSError as error:
        raise file_open_error(error, path) from None
    if header not in {b"", SQLITE_HEADER}:
        raise StoreForeign(f"{path} is not an Interlock database; it was not changed")


def _name(config: StoreConfig) -> str:
    return str(config.path) if config.is_sqlite else "the PostgreSQL database"
