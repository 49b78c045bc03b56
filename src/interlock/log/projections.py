"""Projections: rows that follow from events.

For each such table one pure function, `evolve`, says which row an event makes of the row before it. The
writer stores what it returns in the transaction that appends the event; `events verify` replays the log
with the same function and compares (log/verify/projected_rows.py). Where a conditional statement decides,
it runs first, and `evolve` sets the columns that it changed from the event alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interlock.db.driver import DbConnection
from interlock.log.event import Event
from interlock.log.hash_chain import EventHeader
from interlock.log.kinds import SYSTEM_STREAM, decode_event

# The values of a row by column.
ProjectedRow = dict[str, Any]


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
    rows_of: Callable[[Any, EventHeader], Iterable[ProjectedRow]]
    evolve: Callable[[ProjectedRow | None, Any, EventHeader], ProjectedRow | None]
    # The column that names the stream with the row's events; without one, it is the system stream.
    stream_column: str | None = None
    # The columns with content of events, each with its value once the content is erased.
    content: Mapping[str, Any] = field(default_factory=dict)
    # Columns that keep a value whose event has been erased for its age: it is not covered from then on.
    outlasting: tuple[str, ...] = ()
    # The SQL condition of rows that are being worked on: no content of their stream is erased meanwhile.
    is_open: str = ""
    # Rows are removed without an event after a while, and backups have none.
    may_be_missing: bool = False

    def key_of(self, row: ProjectedRow) -> tuple[Any, ...]:
        return tuple(row[column] for column in self.key)

    def is_key(self, match: ProjectedRow) -> bool:
        return match.keys() == set(self.key)

    def read(self, connection: DbConnection, match: ProjectedRow) -> list[ProjectedRow]:
        """The stored rows with these values."""
        names = (*self.key, *self.columns)
        statement = f"SELECT {', '.join(names)} FROM {self.table}{_where(match)}"  # noqa: S608 - our names
        found = connection.query(statement, tuple(match.values()))
        return [dict(zip(names, row, strict=True)) for row in found]

    def store(self, connection: DbConnection, event: Event, header: EventHeader) -> None:
        """Store what the event makes of the rows that it concerns."""
        for match in self.rows_of(event, header):
            before: Sequence[ProjectedRow | None] = self.read(connection, match)
            if not before and self.is_key(match):
                before = [None]
            for row in before:
                self._write(connection, row, self.evolve(row, event, header))

    def erase(self, connection: DbConnection, match: ProjectedRow, *, for_age: bool) -> None:
        """Erase the content in the rows with these values."""
        kept = self.outlasting if for_age else ()
        if erased := {name: value for name, value in self.content.items() if name not in kept}:
            self._update(connection, erased, match)

    def _write(
        self, connection: DbConnection, before: ProjectedRow | None, after: ProjectedRow | None
    ) -> None:
        if after == before:
            return
        if before is None:
            names, values = tuple(after or ()), tuple((after or {}).values())
            marks = ", ".join("?" for _ in names)
            connection.change(f"INSERT INTO {self.table} ({', '.join(names)}) VALUES ({marks})", values)  # noqa: S608
            return
        match = {name: before[name] for name in self.key}
        if after is None:
            connection.change(f"DELETE FROM {self.table}{_where(match)}", tuple(match.values()))  # noqa: S608
            return
        changed = {name: value for name, value in after.items() if value != before[name]}
        self._update(connection, changed, match)

    def _update(self, connection: DbConnection, changed: ProjectedRow, match: ProjectedRow) -> None:
        setting = ", ".join(f"{name} = ?" for name in changed)
        statement = f"UPDATE {self.table} SET {setting}{_where(match)}"  # noqa: S608
        connection.change(statement, (*changed.values(), *match.values()))


def _where(match: ProjectedRow) -> str:
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

    def is_at_work(self, connection: DbConnection, stream: str) -> bool:
        return any(
            connection.query(
                f"SELECT 1 FROM {each.table} WHERE {each.stream_column} = ? AND ({each.is_open}) LIMIT 1",  # noqa: S608
                (stream,),
            )
            for each in self._all
            if each.is_open
        )

    def erase_old(self, connection: DbConnection, rows: Iterable[tuple[Any, ...]]) -> None:
        """Erase what rows have of the content of these events, given by header and facts.

        Of each row they are all events with content: else a value would go whose event stays.
        """
        for row in rows:
            header = EventHeader(*row[:7])
            for projection in self.of(header):
                if projection.content:
                    for match in projection.rows_of(decode_event(header.kind, row[7]), header):
                        projection.erase(connection, match, for_age=True)

    def erase_stream(self, connection: DbConnection, stream: str) -> None:
        for each in self._all:
            if each.stream_column is not None:
                each.erase(connection, {each.stream_column: stream}, for_age=False)
