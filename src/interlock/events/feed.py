"""Reads the log back: one stream by its numbers, or all streams behind one cursor.

A cursor over all streams never passes an open transaction: on PostgreSQL rows become visible in another
order than they were numbered in, and a reader that went by number alone would skip some for ever.
"""

import re
from collections.abc import Iterator

from interlock.events.base import Event
from interlock.events.catalog import decode
from interlock.events.chain import Header
from interlock.infra.errors import BadUsage
from interlock.infra.records import dataclass
from interlock.infra.text import quotable
from interlock.store.driver import Connection, Row

COLUMNS = """
    id, time_us, stream, seq, task, parent, kind, facts, content, salt, content_hash, prev_hash, hash,
    coalesce(txid, 0), position
"""

READ_STREAM = f"""
SELECT {COLUMNS} FROM events WHERE stream = ? AND seq > ? ORDER BY seq LIMIT ?
"""  # noqa: S608 - the columns are a constant

READ_ALL = {
    "sqlite": f"""
SELECT {COLUMNS} FROM events WHERE 0 >= ? AND position > ? ORDER BY position LIMIT ?
""",  # noqa: S608
    "postgresql": f"""
SELECT {COLUMNS} FROM events
WHERE (txid, position) > (?, ?)
  AND txid < CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)
ORDER BY txid, position LIMIT ?
""",  # noqa: S608
}

LAST_CURSORS = {
    "sqlite": "SELECT 0, position FROM events ORDER BY position DESC LIMIT ?",
    "postgresql": """
SELECT txid, position FROM events
WHERE txid < CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)
ORDER BY txid DESC, position DESC LIMIT ?
""",
}

PAGE = 2000

# What a column of the store can hold ends before this.
_BEYOND = 2**63
_MAX_SHOWN_CHARS = 100


def event_number(digits: str) -> int | None:
    """None where no log can have that number."""
    number = int(digits) if re.fullmatch("[0-9]{1,19}", digits) else _BEYOND
    return number if number < _BEYOND else None


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the order of all events; to be kept and given back, not to be read."""

    txid: int = 0
    position: int = 0

    def __str__(self) -> str:
        return f"{self.txid}.{self.position}"

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        shown = quotable(text, _MAX_SHOWN_CHARS)
        if not re.fullmatch("[0-9]+[.][0-9]+", text):
            raise BadUsage(f"'{shown}' is not a cursor; use one that `events tail` printed")
        txid, position = map(event_number, text.split("."))
        if txid is None or position is None:
            raise BadUsage(f"'{shown}' is not a cursor; it is past the end of every log")
        return cls(txid, position)


START = Cursor()


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One row of the log. An event without content has neither a salt nor a hash of it."""

    header: Header
    facts: str
    content: str | None
    salt: bytes | None
    content_hash: bytes | None
    prev_hash: bytes
    hash: bytes
    cursor: Cursor

    @property
    def is_erased(self) -> bool:
        return self.content is None and self.content_hash is not None

    def event(self) -> Event:
        return decode(self.header.kind, self.facts, self.content)


def stored_event(row: Row) -> StoredEvent:
    return StoredEvent(
        header=Header(*row[:7]),
        facts=row[7],
        content=row[8],
        salt=None if row[9] is None else bytes(row[9]),
        content_hash=None if row[10] is None else bytes(row[10]),
        prev_hash=bytes(row[11]),
        hash=bytes(row[12]),
        cursor=Cursor(row[13], row[14]),
    )


def read_stream(
    connection: Connection, stream: str, *, after_seq: int = 0, limit: int = PAGE
) -> list[StoredEvent]:
    return [stored_event(row) for row in connection.query(READ_STREAM, (stream, after_seq, limit))]


def whole_stream(connection: Connection, stream: str) -> Iterator[StoredEvent]:
    """A stream from its beginning, a page at a time."""
    after = 0
    while page := read_stream(connection, stream, after_seq=after):
        yield from page
        after = page[-1].header.seq


def read_all(connection: Connection, *, after: Cursor = START, limit: int = PAGE) -> list[StoredEvent]:
    sql = READ_ALL[connection.dialect]
    rows = connection.query(sql, (after.txid, after.position, limit))
    return [stored_event(row) for row in rows]


def last_cursors(connection: Connection, count: int) -> list[Cursor]:
    """The places of the newest events that are safe to have seen, newest first."""
    rows = connection.query(LAST_CURSORS[connection.dialect], (count,))
    return [Cursor(txid, position) for txid, position in rows]


def end_of_log(connection: Connection) -> Cursor:
    cursors = last_cursors(connection, 1)
    return cursors[0] if cursors else START
