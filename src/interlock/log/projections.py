"""Projections: rows that follow from events.

For each such table one pure function, `evolve`, says which row an event makes of the row before it. The
writer stores what it returns in the transaction that appends the event; `events verify` replays the log
with the same function and compares (log/verify/projected_rows.py). Where a conditional statement decides,
it runs first, and `evolve` sets the columns that it changed from the event alone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.db.driver import DbConnection
from interlock.log.event import Event
from interlock.log.hash_chain import EventHeader
from interlock.log.kinds import SYSTEM_STREAM, decode_event

# The values of a row by column.
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """A table whose rows follow from events of these kinds. Other columns than these are not covered.

    `rows_of` names the rows that an event concerns by all columns of the key, or by some of them.
    """

    table: str
    # What people call a row, in messages.
    noun: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    kinds: tuple[type[Event], ...]
    rows_of: Callable[[Any, EventHeader], Iterable[Row]]
    evolve: Callable[[Row | None, Any, EventHeader], Row | None]
    # The column that names the stream with the row's events; without one, it is the system stream.
    stream_column: str | None = None
    # Columns that keep a value whose event has been erased: it is not covered from then on.
    outlasting: tuple[str, ...] = ()
    # Rows are removed without an event after a while, and backups have none.
    may_be_missing: bool = False

    def key_of(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[column] for column in self.key)

    def is_key(self, match: Row) -> bool:
        return match.keys() == set(self.key)

    def read(self, connection: DbConnection, match: Row) -> list[Row]:
        """The stored rows with these values."""
        names = (*self.key, *self.columns)
        statement = f"SELECT {', '.join(names)} FROM {self.table}{_where(match)}"  # noqa: S608 - our names
        found = connection.query(statement, tuple(match.values()))
        return [dict(zip(names, row, strict=True)) for row in found]

    def store(self, connection: DbConnection, event: Event, header: EventHeader) -> None:
        """Store what the event makes of the rows that it concerns."""
        for match in self.rows_of(event, header):
            before: Sequence[Row | None] = self.read(connection, match)
            if not before and self.is_key(match):
                before = [None]
            for row in before:
                self._write(connection, row, self.evolve(row, event, header))

    def _write(self, connection: DbConnection, before: Row | None, after: Row | None) -> None:
        if after == before:
            return
        if before is None:
            names, values = tuple(after or ()), tuple((after or {}).values())
            marks = ", ".join("?" for _ in names)
            connection.change(f"INSERT INTO {self.table} ({', '.join(names)}) VALUES ({marks})", values)  # noqa: S608
            return
        where, key = _where(dict.fromkeys(self.key)), self.key_of(before)
        if after is None:
            connection.change(f"DELETE FROM {self.table}{where}", key)  # noqa: S608
            return
        changed = {name: value for name, value in after.items() if value != before[name]}
        setting = ", ".join(f"{name} = ?" for name in changed)
        connection.change(f"UPDATE {self.table} SET {setting}{where}", (*changed.values(), *key))  # noqa: S608


def _where(match: Row) -> str:
    return f" WHERE {' AND '.join(f'{name} = ?' for name in match)}" if match else ""


class Projections:
    """All projections of a store."""

    def __init__(self, projections: Iterable[Projection]) -> None:
        self._all = tuple(projections)
        self._by_kind: dict[str, list[Projection]] = {}
        for projection in self._all:
            for event in projection.kinds:
                self._by_kind.setdefault(event.kind, []).append(projection)

    def __iter__(self) -> Iterator[Projection]:
        return iter(self._all)

    def of(self, header: EventHeader) -> list[Projection]:
        """Those that follow from an event of this kind in this stream."""
        found = self._by_kind.get(header.kind, [])
        return [each for each in found if (each.stream_column is None) == (header.stream == SYSTEM_STREAM)]

    def store(self, connection: DbConnection, rows: Iterable[tuple[Any, ...]]) -> None:
        """Store what new events make of rows. Each event is read from the text that was hashed."""
        for row in rows:
            if row[6] in self._by_kind:
                header = EventHeader(*row[:7])
                event = decode_event(header.kind, row[7], row[8])
                for projection in self.of(header):
                    projection.store(connection, event, header)
