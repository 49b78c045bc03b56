"""Upgrades a store to this program's schema: all steps or none, after a copy of an SQLite store."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy
from alembic import command
from alembic.config import Config

from interlock.core.errors import StoreError
from interlock.db.database import SCHEMA_REVISION, StoreConfig, prepare_state_directory, stored_revision
from interlock.db.driver import SqliteConnection, file_open_error, postgres_error, sqlite_error
from interlock.db.store_creation import startup_lock

ADOPT = """
UPDATE events SET txid = 0
WHERE txid >= CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint)
"""
KEPT_COPIES = 5
_UPGRADE_LOCK_KEY = 0x494C4B31


def upgrade(config: StoreConfig, revision: str = "head") -> str:
    """Upgrade under a lock, so that two processes that start together do it once."""
    if config.is_sqlite:
        prepare_state_directory(config.path)
    with _upgrade_lock(config):
        present = stored_revision(config)
        if present != SCHEMA_REVISION:
            if config.is_sqlite and present is not None:
                _keep_copy(config, present)
            _run(config, revision)
        if not config.is_sqlite and revision == "head":
            _adopt(config)
    return stored_revision(config) or ""


def engine_for(config: StoreConfig) -> sqlalchemy.Engine:
    if not config.is_sqlite:
        return sqlalchemy.create_engine(
            config.url.replace("postgresql://", "postgresql+psycopg://", 1),
            poolclass=sqlalchemy.NullPool,
        )
    engine = sqlalchemy.create_engine(
        sqlalchemy.URL.create("sqlite", database=str(config.path)),
        connect_args={"timeout": config.busy_timeout_seconds},
        poolclass=sqlalchemy.NullPool,
    )

    # Python's sqlite3 would commit before every CREATE TABLE; a half-done upgrade must not exist.
    @sqlalchemy.event.listens_for(engine, "connect")
    def _no_implicit_commits(raw: object, _record: object) -> None:
        raw.isolation_level = None  # type: ignore[attr-defined]

    @sqlalchemy.event.listens_for(engine, "begin")
    def _begin_immediate(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def alembic_config(connection: sqlalchemy.Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    return config


def _run(config: StoreConfig, revision: str) -> None:
    engine = engine_for(config)
    try:
        with engine.begin() as connection:
            command.upgrade(alembic_config(connection), revision)
    except sqlalchemy.exc.DBAPIError as error:
        original = error.orig
        if config.is_sqlite:
            raise sqlite_error(original or error, config.path) from error
        raise postgres_error(original or error) from error
    finally:
        engine.dispose()


def _adopt(config: StoreConfig) -> None:
    """Mark events copied from another server as older than every transaction of this one."""
    connection = config.connect()
    try:
        connection.change(ADOPT)
    finally:
        connection.close()


@contextmanager
def _upgrade_lock(config: StoreConfig) -> Iterator[None]:
    if not config.is_sqlite:
        connection = config.connect()
        try:
            connection.query("SELECT pg_advisory_lock(?)", (_UPGRADE_LOCK_KEY,))
            yield
        finally:
            connection.close()
        return
    with startup_lock(config):
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
