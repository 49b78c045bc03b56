"""Compares rows with the events that they follow from (log/projections.py)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interlock.db.driver import DbConnection
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.projections import ProjectedRow, Projection, Projections
from interlock.log.read import StoredEvent

# An event's number, broken or missing, and the detail.
Difference = tuple[int, str, str]

OF_NO_STREAM = """
SELECT {column} FROM {table} t
WHERE NOT EXISTS (SELECT 1 FROM stream_heads h WHERE h.stream = t.{column})
    AND NOT EXISTS (SELECT 1 FROM events e WHERE e.stream = t.{column})
LIMIT 1
"""


class RowVerifier:
    """Replays the events of one stream."""

    def __init__(self, projections: Projections) -> None:
        self._projections = projections
        # By table and key: the row, and the number of the last event about it.
        self._rows: dict[str, dict[tuple[Any, ...], ProjectedRow]] = {
            each.table: {} for each in projections
        }
        self._seqs: dict[tuple[str, tuple[Any, ...]], int] = {}

    def take(self, stored: StoredEvent) -> None:
        for projection in self._projections.of(stored.header):
            event, rows = stored.event(), self._rows[projection.table]
            for match in projection.rows_of(event, stored.header):
                for before in _matching(projection, rows, match):
                    after = projection.evolve(before, event, stored.header)
                    if before is not None:
                        del rows[projection.key_of(before)]
                    if after is not None:
                        key = projection.key_of(after)
                        rows[key] = after
                        self._seqs[projection.table, key] = stored.header.seq

    def compare(self, connection: DbConnection, stream: str) -> Iterator[Difference]:
        for projection in self._projections:
            column = projection.stream_column
            if column is not None:
                yield from self._differences(projection, connection, {column: stream})
            if stream == SYSTEM_STREAM:
                if column is None:
                    yield from self._differences(projection, connection, {})
                else:
                    yield from _of_no_stream(projection, connection, column)

    def _differences(
        self, projection: Projection, connection: DbConnection, match: ProjectedRow
    ) -> Iterator[Difference]:
        noun, expected = projection.noun, self._rows[projection.table]
        found = {projection.key_of(row): row for row in projection.read(connection, match)}
        for key, row in expected.items():
            seq = self._seqs[projection.table, key]
            if key not in found:
                if not projection.may_be_missing:
                    yield seq, "missing", f"the row of {noun} {_shown(key)} is missing"
            elif changed := list(_changed(projection, row, found[key])):
                yield seq, "broken", f"{noun} {_shown(key)} was changed: {', '.join(changed)}"
        for key in found.keys() - expected.keys():
            yield 0, "broken", f"no event describes {noun} {_shown(key)}"


def _matching(
    projection: Projection, rows: Mapping[tuple[Any, ...], ProjectedRow], match: ProjectedRow
) -> Sequence[ProjectedRow | None]:
    if projection.is_key(match):
        return [rows.get(projection.key_of(match))]
    return [row for row in rows.values() if match.items() <= row.items()]


def _changed(projection: Projection, expected: ProjectedRow, found: ProjectedRow) -> Iterator[str]:
    for name, value in expected.items():
        is_erased = value is None and name in projection.outlasting
        if found[name] != value and not is_erased:
            yield name


def _of_no_stream(projection: Projection, connection: DbConnection, column: str) -> Iterator[Difference]:
    statement = OF_NO_STREAM.format(column=column, table=projection.table)
    for (stream,) in connection.query(statement):
        yield 0, "broken", f"a {projection.noun} belongs to {str(stream)[:64]}, which has no events"


def _shown(key: Sequence[object]) -> str:
    return ", ".join(str(part)[:64] for part in key)
