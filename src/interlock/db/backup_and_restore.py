"""Backups: the whole store as one file that either database can be restored from.

A zip with one JSON-lines file per table and a manifest with their counts and hashes. A restore fills a new
store, checks it, and only then replaces the old one, which is kept.
"""

import lzma
import os
import re
import struct
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from interlock.core.errors import StoreCorrupt, StoreTooNew, UserError
from interlock.core.files import durable_file, fsync_path
from interlock.core.text import escape_control_characters
from interlock.db.database import (
    SCHEMA_REVISION,
    Database,
    StoreConfig,
    StoreLock,
    prepare_state_directory,
    stored_revision,
)
from interlock.db.driver import DbConnection, Row, SqliteConnection
from interlock.db.schema import TableColumn, read_tables
from interlock.db.upgrade import upgrade

FORMAT = 1
FIRST_SCHEMA = "0001"
MANIFEST = "manifest.json"
ROWS_PER_STATEMENT = 500

# The beginnings of the names of tables that no backup has: what may be done in this store alone (a restored
# copy must neither let anybody in nor send messages), and what processes hold.
LEFT_OUT = ("alembic_", "credentials", "leases", "telegram_")

# Transaction ids of another database mean nothing here; zero sorts before all of them.
_RESTORED_TXID = 0

RENUMBER = (
    "SELECT setval(pg_get_serial_sequence('events', 'position'), coalesce(max(position), 1)) FROM events"
)

# A backup has none, and those of the replaced store are not valid for this one. The rows of leases stay:
# their tokens grow on.
FORGET_CREDENTIALS = "DELETE FROM credentials"
END_LEASES = "UPDATE leases SET expires_ms = 0"
STORE_ID = "SELECT 1 FROM store_info WHERE key = 'store_id'"

MAX_MANIFEST_BYTES = 1024 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024
PART_BYTES = 1024 * 1024
MAX_REASON = 200

# What reading a file raises that is no archive, or a damaged one: an encrypted one raises RuntimeError.
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError),
    *(KeyError, TypeError, ValueError, OverflowError, RuntimeError),
)

RestoreCheck = Callable[[DbConnection], None]


@dataclass(frozen=True, slots=True)
class TableManifest:
    name: str
    columns: list[str]
    rows: int
    sha256: str


def create_backup(database: Database, target: Path) -> list[TableManifest]:
    """Write a consistent backup while others may write; it appears whole or not at all."""
    if target.exists():
        raise UserError(f"{target} already exists; a backup never overwrites a file")
    try:
        with (
            durable_file(target) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
            database.reading() as db,
        ):
            entries = [_write_table(archive, db, *table) for table in _kept_tables(db).items()]
            archive.writestr(MANIFEST, orjson.dumps(_manifest(entries)))
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error.strerror}") from None
    return entries


def _kept_tables(connection: DbConnection) -> dict[str, list[TableColumn]]:
    tables = read_tables(connection).items()
    return {name: columns for name, columns in tables if not name.startswith(LEFT_OUT)}


def restore(
    config: StoreConfig, source: Path, *, replace_existing: bool, check: RestoreCheck
) -> Path | None:
    """Fill the configured store from a backup; returns the path of the replaced store, if any."""
    try:
        with zipfile.ZipFile(source) as archive:
            manifest = _read_manifest(archive)
            if config.is_sqlite:
                return _restore_sqlite(config, archive, manifest, replace_existing, check)
            _restore_postgres(config, archive, manifest, replace_existing, check)
            return None
    except FileNotFoundError:
        raise UserError(f"there is no file {source}") from None
    except _DAMAGE as error:
        # It may repeat as much of the file as a damaged length says.
        sentence = str(error)
        reason = (
            escape_control_characters(sentence) if len(sentence) <= MAX_REASON else "its parts do not match"
        )
        raise UserError(f"{source} is not a complete Interlock backup ({reason})") from None
    except OSError as error:
        raise UserError(f"{error.filename or source}: {error.strerror}") from None


# -- writing -----------------------------------------------------------------------------------------


def _manifest(entries: list[TableManifest]) -> dict[str, Any]:
    return {
        "application": "interlock",
        "format": FORMAT,
        "schema": SCHEMA_REVISION,
        "time_us": time.time_ns() // 1000,
        "tables": {entry.name: asdict(entry) for entry in entries},
    }


def _write_table(
    archive: zipfile.ZipFile, db: DbConnection, name: str, columns: list[TableColumn]
) -> TableManifest:
    names = [column.name for column in columns]
    key = sorted((column for column in columns if column.key), key=lambda column: column.key)
    order = ", ".join(column.name for column in key)
    digest, count = sha256(), 0
    with archive.open(f"{name}.jsonl", "w", force_zip64=True) as out:
        for row in db.stream(f"SELECT {', '.join(names)} FROM {name} ORDER BY {order}"):  # noqa: S608
            line = orjson.dumps([_plain(value) for value in row]) + b"\n"
            digest.update(line)
            out.write(line)
            count += 1
    return TableManifest(name, names, count, digest.hexdigest())


def _plain(value: object) -> object:
    return bytes(value).hex() if isinstance(value, bytes | memoryview) else value


# -- reading -----------------------------------------------------------------------------------------


def _read_manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    with archive.open(MANIFEST) as file:
        text = file.read(MAX_MANIFEST_BYTES + 1)
    manifest = orjson.loads(text) if len(text) <= MAX_MANIFEST_BYTES else None
    if not isinstance(manifest, dict) or manifest.get("application") != "interlock":
        raise UserError("the file is not a backup of Interlock")
    schema, tables = str(manifest.get("schema")), manifest.get("tables")
    if manifest.get("format") != FORMAT or not re.fullmatch(r"\d{4}", schema) or schema < FIRST_SCHEMA:
        raise UserError("this version of Interlock cannot read the backup")
    if schema > SCHEMA_REVISION:
        raise StoreTooNew(f"the backup has schema {schema}, newer than this program's {SCHEMA_REVISION}")
    if not isinstance(tables, dict):
        raise UserError("the backup is damaged: its manifest has no tables")
    return manifest


def _restore_sqlite(
    config: StoreConfig,
    archive: zipfile.ZipFile,
    manifest: dict[str, Any],
    replace_existing: bool,  # noqa: FBT001
    check: RestoreCheck,
) -> Path | None:
    prepare_state_directory(config.path)
    config = replace(config, url=f"sqlite:///{config.path.resolve()}")
    used = config.path.stat().st_size > 0
    if used and not replace_existing:
        raise UserError(f"{config.path} already contains a store; use --replace to replace it")
    # Held until the new file is in place: no process can open the old one meanwhile.
    hold = StoreLock(config.path, alone=True, patience_seconds=0)
    fresh = config.path.with_name(f"{config.path.name}.restoring")
    _remove(fresh)
    try:
        if used:
            _fold_in(config)
        _fill(replace(config, url=f"sqlite:///{fresh}"), archive, manifest, check)
        return _put_in_place(config, fresh)
    finally:
        _remove(fresh)
        hold.release()


def _fold_in(config: StoreConfig) -> None:
    """Leave no write-ahead file behind that SQLite could take for the new store's."""
    try:
        stored_revision(config)
        _leave_wal_mode(config)
    except StoreCorrupt:
        # Ours, but damaged: a case for a restore. The file is kept unchanged, under its new name.
        for suffix in ("-wal", "-shm"):
            config.path.with_name(config.path.name + suffix).unlink(missing_ok=True)


def _put_in_place(config: StoreConfig, fresh: Path) -> Path | None:
    kept: Path | None = None
    if config.path.stat().st_size > 0:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        kept = config.path.with_name(f"{config.path.stem}-replaced-{stamp}.db")
        os.link(config.path, kept)
    fresh.replace(config.path)
    fsync_path(config.path.parent)
    return kept


def _restore_postgres(
    config: StoreConfig,
    archive: zipfile.ZipFile,
    manifest: dict[str, Any],
    replace_existing: bool,  # noqa: FBT001
    check: RestoreCheck,
) -> None:
    upgrade(config)
    with closing(config.connect()) as connection:
        used = connection.query("SELECT 1 FROM events LIMIT 1")
    if used and not replace_existing:
        raise UserError("the database already contains a store; use --replace to replace it")
    if str(manifest["schema"]) != SCHEMA_REVISION:
        raise UserError(
            f"the backup has schema {manifest['schema']}: restore it into SQLite first, to upgrade it"
        )
    _fill(config, archive, manifest, check)


def _fill(
    config: StoreConfig, archive: zipfile.ZipFile, manifest: dict[str, Any], check: RestoreCheck
) -> None:
    upgrade(config, str(manifest["schema"]))
    with config.transaction() as connection:
        for name, columns in _kept_tables(connection).items():
            if name not in manifest["tables"]:
                raise UserError("the backup is damaged: a table is missing")
            _fill_table(connection, archive, name, columns, manifest["tables"][name])
        if not connection.query(STORE_ID):
            raise UserError("the backup is damaged: the store has no id")
        if connection.dialect == "postgresql":
            connection.query(RENUMBER)
            connection.change(FORGET_CREDENTIALS)
            connection.change(END_LEASES)
            check(connection)
    if config.is_sqlite:
        # The file is not yet in place.
        upgrade(config)
        with config.transaction() as connection:
            check(connection)
        _leave_wal_mode(config)


def _leave_wal_mode(config: StoreConfig) -> None:
    with closing(config.connect()) as connection:
        if isinstance(connection, SqliteConnection):
            connection.leave_wal_mode()


def _fill_table(
    connection: DbConnection,
    archive: zipfile.ZipFile,
    table: str,
    columns: list[TableColumn],
    entry: dict[str, Any],
) -> None:
    known = {column.name: column for column in columns}
    if not set(entry["columns"]) <= known.keys():
        raise UserError(f"the backup is damaged: {table} has unknown columns")
    filled = [known[name] for name in entry["columns"]]
    connection.change(f"DELETE FROM {table}")  # noqa: S608 - a name of our own schema
    insert = (
        f"INSERT INTO {table} ({', '.join(column.name for column in filled)}) "  # noqa: S608
        f"VALUES ({', '.join('?' for _ in filled)})"
    )
    digest, count, waiting = sha256(), 0, []
    for line in _lines(archive, table):
        digest.update(line)
        count += 1
        if count > entry["rows"]:
            # Stop at once: a small archive can unpack to more than a disk holds.
            raise UserError(f"the backup is damaged: {table} has more rows than its manifest says")
        waiting.append(_revived(table, filled, orjson.loads(line)))
        if len(waiting) == ROWS_PER_STATEMENT:
            connection.change_many(insert, waiting)
            waiting = []
    connection.change_many(insert, waiting)
    if (count, digest.hexdigest()) != (entry["rows"], entry["sha256"]):
        raise UserError(f"the backup is damaged: {table} does not match its manifest")


def _lines(archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    with archive.open(f"{name}.jsonl") as file:
        line = b""
        while part := file.readline(PART_BYTES):
            line += part
            if line.endswith(b"\n"):
                yield line
                line = b""
            elif len(line) > MAX_LINE_BYTES:
                break
        if line:
            raise UserError(f"the backup is damaged: {name} has an incomplete row")


def _revived(table: str, columns: list[TableColumn], values: list[Any]) -> Row:
    return tuple(_value(table, column, value) for column, value in zip(columns, values, strict=True))


def _value(table: str, column: TableColumn, value: Any) -> Any:
    """Check the type against the column; SQLite itself would accept anything."""
    if column.name == "txid":
        return _RESTORED_TXID
    if value is None and column.is_nullable:
        return None
    if column.kind is bytes and isinstance(value, str):
        return bytes.fromhex(value)
    if column.kind is str and isinstance(value, str):
        return value
    if column.kind is int and type(value) is int and 0 <= value < 2**62:
        return value
    raise UserError(f"the backup is damaged: {table}.{column.name} cannot be {value!r:.40}")


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.with_suffix(".upgrade-lock").unlink(missing_ok=True)
