"""Checks that the schema is sound, without which a comparison of rows with events proves nothing."""

from collections.abc import Iterator, Sequence

from interlock.db.database import SCHEMA_REVISION
from interlock.db.driver import DbConnection
from interlock.log.projections import Projections

# The tables that belong to the log, or whose rows are compared otherwise, with their keys.
KEYS = {
    "authorities": "digest",
    "event_texts": "stream, seq",
    "stream_heads": "stream",
}
COLUMNS = "SELECT name FROM pragma_table_info(?)"
TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table'"
HAS_VERSION = "SELECT 1 FROM sqlite_schema WHERE name = 'alembic_version'"
IS_OF_VERSION = "SELECT 1 FROM alembic_version WHERE version_num = ?"
PLANTED = {
    "sqlite": "SELECT type, name FROM sqlite_schema WHERE type = 'trigger' ORDER BY name",
    "postgresql": """
SELECT 'trigger', t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace
UNION SELECT 'rule', r.rulename FROM pg_rules r WHERE r.schemaname = current_schema() ORDER BY 1, 2
""",
}


def missing_tables(connection: DbConnection, projections: Projections) -> Iterator[str]:
    """The tables and columns that are compared with events and are not there.

    PostgreSQL itself refuses to query one.
    """
    if connection.dialect != "sqlite" or not _is_of_this_version(connection):
        return
    tables = _tables(connection)
    for name in sorted(_keys(projections).keys() - tables):
        yield f"the table {name} is missing"
    for each in projections:
        there = {str(row[0]) for row in connection.query(COLUMNS, (each.table,))}
        if each.table in tables and not there.issuperset((*each.key, *each.columns)):
            yield f"the definition of the table {each.table} was changed"


def schema_anomalies(connection: DbConnection, projections: Projections) -> Iterator[str]:
    """Duplicate rows, of which only one would be compared; and triggers or rules, which could change rows:
    Interlock has none."""
    keys = _keys(projections)
    there = _tables(connection) if connection.dialect == "sqlite" else keys.keys()
    for table, key in keys.items():
        if table in there and (rows := connection.query(_doubles(table, key))):
            yield f"the table {table} has more than one row of {_format_key(rows[0])}"
    for what, name in connection.query(PLANTED[connection.dialect]):
        yield f"the database has a {what} that does not belong to Interlock: {name}"[:300]


def _keys(projections: Projections) -> dict[str, str]:
    return KEYS | {each.table: ", ".join(each.key) for each in projections}


def _doubles(table: str, key: str) -> str:
    return f"SELECT {key} FROM {table} GROUP BY {key} HAVING count(*) > 1 LIMIT 1"  # noqa: S608 - constants


def _format_key(key: Sequence[object]) -> str:
    return ", ".join(str(part)[:64] for part in key)


def _tables(connection: DbConnection) -> set[str]:
    return {str(row[0]) for row in connection.query(TABLES)}


def _is_of_this_version(connection: DbConnection) -> bool:
    has_version = bool(connection.query(HAS_VERSION))
    return has_version and bool(connection.query(IS_OF_VERSION, (SCHEMA_REVISION,)))
