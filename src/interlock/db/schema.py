"""The schema of the store: numbered SQL files for both databases, and the tables that a database has.

A new store runs the files of `migrations/sql` one after the other. Alembic runs those that an older store
lacks; each has a revision in `migrations/versions`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from interlock.db.driver import DbConnection

FOLDER = Path(__file__).parent / "migrations" / "sql"
STEPS = sorted(path.stem for path in FOLDER.glob("*.sql"))

# What differs between the databases. A statement below a line `-- only sqlite` or `-- only postgresql` is
# run by that one alone.
FRAGMENTS = {
    "sqlite": {
        "{BYTES}": "BLOB",
        # SQLite numbers rows by itself only for a column declared exactly so.
        "{NUMBERED}": "INTEGER NOT NULL PRIMARY KEY",
        "{ROW_NUMBER}": "INTEGER",
        "{SORTED_TEXT}": "TEXT",
        "{DEFAULT_TXID}": "",
        "{RANDOM_ID}": "lower(hex(randomblob(16)))",
        "{GENESIS}": "zeroblob(32)",
    },
    "postgresql": {
        "{BYTES}": "BYTEA",
        "{NUMBERED}": "BIGSERIAL NOT NULL PRIMARY KEY",
        "{ROW_NUMBER}": "BIGINT",
        # Words sort by code point, as they do in SQLite.
        "{SORTED_TEXT}": 'TEXT COLLATE "C"',
        "{DEFAULT_TXID}": "DEFAULT CAST(CAST(pg_current_xact_id() AS text) AS bigint)",
        "{RANDOM_ID}": "replace(CAST(gen_random_uuid() AS text), '-', '')",
        "{GENESIS}": "decode(repeat('00', 32), 'hex')",
    },
}

# Alembic's own table and the revision in it, for a store that was made without Alembic.
VERSION_TABLE = "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"
SET_VERSION = "INSERT INTO alembic_version (version_num) VALUES (?)"

TABLES = {
    "sqlite": """
SELECT t.name, c.name, c.type, c."notnull" = 0 AND c.pk = 0, c.pk
FROM sqlite_schema t JOIN pragma_table_info(t.name) c
WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' ORDER BY t.name, c.cid
""",
    "postgresql": """
SELECT t.relname, c.attname, format_type(c.atttypid, NULL), NOT c.attnotnull,
    coalesce(array_position(CAST(k.indkey AS smallint[]), c.attnum) + 1, 0)
FROM pg_class t JOIN pg_attribute c ON c.attrelid = t.oid AND c.attnum > 0 AND NOT c.attisdropped
    LEFT JOIN pg_index k ON k.indrelid = t.oid AND k.indisprimary
WHERE t.relkind = 'r' AND t.relnamespace = CAST(current_schema() AS regnamespace)
ORDER BY t.relname, c.attnum
""",
}
KINDS = {"TEXT": str, "BIGINT": int, "INTEGER": int, "BLOB": bytes, "BYTEA": bytes}


@dataclass(frozen=True, slots=True)
class TableColumn:
    """`kind` is the type of its values, None for one that only its database has."""

    name: str
    kind: type | None
    is_nullable: bool
    # Its position in the primary key, from one; zero if it is not part of it.
    key: int


def create_tables(connection: DbConnection, revision: str) -> None:
    """Make an empty database a store, in the transaction that is open."""
    connection.change(VERSION_TABLE)
    connection.change(SET_VERSION, (revision,))
    for step in STEPS:
        if step[:4] <= revision:
            run_step(connection, step)


def run_step(connection: DbConnection, step: str) -> None:
    text = (FOLDER / f"{step}.sql").read_text("utf-8")
    for word, meaning in FRAGMENTS[connection.dialect].items():
        text = text.replace(word, meaning)
    for statement in _statements(text, connection.dialect):
        connection.change(statement)


def _statements(text: str, dialect: str) -> Iterator[str]:
    for part in text.split(";\n"):
        lines = part.strip().splitlines()
        only = [line.removeprefix("-- only ") for line in lines if line.startswith("-- only ")]
        # SQLite stores a statement with its comments, and reads it again for every connection.
        statement = "\n".join(line for line in lines if line and not line.lstrip().startswith("--"))
        if statement and only in ([], [dialect]):
            yield statement


def read_tables(connection: DbConnection) -> dict[str, list[TableColumn]]:
    """The tables that are there, by name, with their columns in order."""
    tables: dict[str, list[TableColumn]] = {}
    for table, name, declared, is_nullable, key in connection.query(TABLES[connection.dialect]):
        column = TableColumn(str(name), KINDS.get(declared.upper()), bool(is_nullable), int(key))
        tables.setdefault(str(table), []).append(column)
    return tables
