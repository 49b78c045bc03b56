"""Reads the log: one stream by its numbers, or all streams from one cursor.

A cursor over all streams never passes an open transaction: on PostgreSQL rows become visible in another
order than they were numbered in, and a reader that went by number alone would skip some for ever.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from interlock.core.errors import BadUsage
from interlock.core.text import safe_excerpt
from interlock.db.driver import DbConnection, Row
from interlock.log.event import IS_MILESTONE, Event
from interlock.log.hash_chain import EventHeader
from interlock.log.kinds import decode_event

COLUMNS = """
    id, time_us, stream, seq, task, parent, kind, facts, content, salt, content_hash, prev_hash, hash,
    coalesce(txid, 0), position
"""

READ_STREAM = f"""
SELECT {COLUMNS} FROM events WHERE stream = ? AND seq > ? ORDER BY seq LIMIT ?
"""  # noqa: S608 - the columns are a constant

# PostgreSQL only.
BEFORE_OPEN_TRANSACTIONS = "txid < CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)"

READ_ALL = {
    "sqlite": f"""
SELECT {COLUMNS} FROM events WHERE 0 >= ? AND position > ? ORDER BY position LIMIT ?
""",  # noqa: S608
    "postgresql": f"""
SELECT {COLUMNS} FROM events
WHERE (txid, position) > (?, ?)
  AND {BEFORE_OPEN_TRANSACTIONS}
ORDER BY txid, position LIMIT ?
""",  # noqa: S608
}

LAST_CURSORS = {
    "sqlite": "SELECT 0, position FROM events ORDER BY position DESC LIMIT ?",
    "postgresql": f"""
SELECT txid, position FROM events
WHERE {BEFORE_OPEN_TRANSACTIONS}
ORDER BY txid DESC, position DESC LIMIT ?
""",  # noqa: S608
}

PAGE = 2000

# The bound of a column of the store.
_BEYOND = 2**63
_MAX_SHOWN_CHARS = 100

# The events between a task's first and, once it has ended, its last; the parameters are stream and task.
# The index by task has only milestones, but a task begins and ends with one. (SQLite reads the left side of
# a CROSS JOIN first.)
FROM_TASK_SPAN = f"""
FROM (
    SELECT stream AS of_stream, task AS of_task, min(seq) AS first_seq,
        CASE WHEN count(
            CASE WHEN kind IN ('task.finished', 'task.cancelled', 'task.steered') THEN 1 END) > 0
            THEN max(seq) ELSE {_BEYOND - 1} END AS last_seq
    FROM events WHERE stream = ? AND task = ? AND {IS_MILESTONE} GROUP BY stream, task) AS span
CROSS JOIN events WHERE stream = of_stream AND seq >= first_seq AND seq <= last_seq
"""  # noqa: S608
FROM_TASK = f"{FROM_TASK_SPAN} AND task = of_task"


def parse_event_number(digits: str) -> int | None:
    """None where no log can have that number."""
    number = int(digits) if re.fullmatch("[0-9]{1,19}", digits) else _BEYOND
    return number if number < _BEYOND else None


@dataclass(frozen=True, slots=True)
class LogCursor:
    """A position in the order of all events; opaque to callers."""

    txid: int = 0
    position: int = 0

    def __str__(self) -> str:
        return f"{self.txid}.{self.position}"

    @classmethod
    def parse(cls, text: str) -> "LogCursor":
        shown = safe_excerpt(text, _MAX_SHOWN_CHARS)
        if not re.fullmatch("[0-9]+[.][0-9]+", text):
            raise BadUsage(f"'{shown}' is not a cursor; use one that `events tail` printed")
        txid, position = map(parse_event_number, text.split("."))
        if txid is None or position is None:
            raise BadUsage(f"'{shown}' is not a cursor; it is past the end of every log")
        return cls(txid, position)


LOG_START = LogCursor()


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One row of the log. An event without content has neither salt nor content hash."""

    header: EventHeader
    facts: str
    content: str | None
    salt: bytes | None
    content_hash: bytes | None
    prev_hash: bytes
    hash: bytes
    cursor: LogCursor

    @property
    def is_erased(self) -> bool:
        return self.content is None and self.content_hash is not None

    def event(self) -> Event:
        return decode_event(self.header.kind, self.facts, self.content)


def stored_event_from_row(row: Row) -> StoredEvent:
    return StoredEvent(
        header=EventHeader(*row[:7]),
        facts=row[7],
        content=row[8],
        salt=None if row[9] is None else bytes(row[9]),
        content_hash=None if row[10] is None else bytes(row[10]),
        prev_hash=bytes(row[11]),
        hash=bytes(row[12]),
        cursor=LogCursor(row[13], row[14]),
    )


def read_stream(
    connection: DbConnection, stream: str, *, after_seq: int = 0, limit: int = PAGE
) -> list[StoredEvent]:
    return [stored_event_from_row(row) for row in connection.query(READ_STREAM, (stream, after_seq, limit))]


def iter_stream(connection: DbConnection, stream: str) -> Iterator[StoredEvent]:
    """A stream from its beginning, read in pages."""
    after = 0
    while page := read_stream(connection, stream, after_seq=after):
        yield from page
        after = page[-1].header.seq


def read_all(
    connection: DbConnection, *, after: LogCursor = LOG_START, limit: int = PAGE
) -> list[StoredEvent]:
    sql = READ_ALL[connection.dialect]
    rows = connection.query(sql, (after.txid, after.position, limit))
    return [stored_event_from_row(row) for row in rows]


def newest_cursors(connection: DbConnection, count: int) -> list[LogCursor]:
    """The positions of the newest events before any open transaction, newest first."""
    rows = connection.query(LAST_CURSORS[connection.dialect], (count,))
    return [LogCursor(txid, position) for txid, position in rows]


def end_of_log(connection: DbConnection) -> LogCursor:
    cursors = newest_cursors(connection, 1)
    return cursors[0] if cursors else LOG_START
