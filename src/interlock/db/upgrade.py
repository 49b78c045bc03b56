"""Creates a store, or upgrades it: all steps or none, after a copy of an SQLite store."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from interlock.core.errors import StoreError
from interlock.core.file_lock import file_lock
from interlock.db.database import SCHEMA_REVISION, StoreConfig, prepare_state_directory, stored_revision
from interlock.db.driver import SqliteConnection, file_open_error
from interlock.db.schema import create_tables

# All or none: a checkpoint's cursor and the events after it must be numbers of the same server.
ADOPT = """
UPDATE events SET txid = 0 WHERE EXISTS (
    SELECT 1 FROM events
    WHERE txid >= CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint)
)
"""
KEPT_COPIES = 5
_UPGRADE_LOCK_KEY = 0x494C4B31


def upgrade(config: StoreConfig, revision: str = SCHEMA_REVISION) -> str:
    """Create or upgrade under a lock, so that two processes that start together do it once."""
    if config.is_sqlite:
        prepare_state_directory(config.path)
    with _upgrade_lock(config):
        present = stored_revision(config)
        if present is None:
            _create(config, revision)
        elif present != SCHEMA_REVISION:
            if config.is_sqlite:
                _keep_copy(config, present)
            _run(config, revision)
        if not config.is_sqlite and revision == SCHEMA_REVISION:
            _adopt(config)
    return stored_revision(config) or ""


def _create(config: StoreConfig, revision: str) -> None:
    """Without Alembic, whose libraries take a third of a first start, and of its memory."""
    with config.transaction() as connection:
        create_tables(connection, revision)


def _run(config: StoreConfig, revision: str) -> None:
    """Run the missing steps in one transaction, on a connection that Alembic and `run_step` share."""
    import sqlalchemy
    from alembic import command
    from alembic.config import Config

    store = config.connect()
    engine = sqlalchemy.create_engine(
        "sqlite://" if config.is_sqlite else "postgresql+psycopg://",
        creator=lambda: store.raw,
        poolclass=sqlalchemy.StaticPool,
    )
    steps = Config(attributes={"store": store})
    steps.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    try:
        with engine.begin() as connection:
            # Python's sqlite3 would begin only before the first change of rows.
            store.begin(write=True)
            steps.attributes["connection"] = connection
            command.upgrade(steps, revision)
            store.commit()
    except sqlalchemy.exc.DBAPIError as error:
        raise store.error(error.orig or error) from error
    finally:
        store.close()


def _adopt(config: StoreConfig) -> None:
    """Mark a log copied from another server as older than every transaction of this one."""
    with config.transaction() as connection:
        connection.change(ADOPT)


@contextmanager
def _upgrade_lock(config: StoreConfig) -> Iterator[None]:
    if not config.is_sqlite:
        with closing(config.connect()) as connection:
            connection.query("SELECT pg_advisory_lock(?)", (_UPGRADE_LOCK_KEY,))
            yield
        return
    lock = config.path.with_suffix(".upgrade-lock")
    with ExitStack() as held:
        try:
            held.enter_context(file_lock(lock))
        except OSError as error:
            raise file_open_error(error, lock) from None
        yield


def _keep_copy(config: StoreConfig, revision: str) -> Path:
    """Keep a copy. It appears whole or not at all, so that a partial one never replaces an older one."""
    folder = config.path.parent / "backups"
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    target = folder / f"{config.path.stem}-schema{revision}-{stamp}.db"
    connection = config.connect()
    if not isinstance(connection, SqliteConnection):
        raise StoreError("only the embedded store is copied before an upgrade")
    part = target.with_suffix(".part")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        part.touch(mode=0o600)
        connection.copy_into(part)
        part.rename(target)
    except OSError as error:
        raise file_open_error(error, target) from None
    finally:
        connection.close()
        part.unlink(missing_ok=True)
    for old in sorted(folder.glob(f"{config.path.stem}-schema*.db"))[:-KEPT_COPIES]:
        old.unlink()
    return target
