"""Exports events as JSON lines, a page at a time: a long log is never in memory whole.

To serve a slow reader, take page after page, each in a short read transaction of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import orjson

from interlock.db.driver import DbConnection
from interlock.log.read import LOG_START, LogCursor, StoredEvent, end_of_log, read_all, read_stream
from interlock.log.tree import hashes_json, header_json

LAST_SEQ = "SELECT coalesce(max(seq), 0) FROM events WHERE stream = ?"

PAGE = 500


@dataclass(frozen=True, slots=True)
class EventExportCursor:
    """The progress of an export of one stream, or of all, and its end: the last event at its start."""

    stream: str | None
    after: LogCursor
    end: LogCursor


def begin_event_export(
    connection: DbConnection, stream: str | None, *, after: LogCursor = LOG_START
) -> EventExportCursor:
    """Begin an export. A position in one stream is its seq; in all streams, a log cursor."""
    if stream is None:
        return EventExportCursor(None, after, end_of_log(connection))
    return EventExportCursor(stream, after, LogCursor(0, connection.query(LAST_SEQ, (stream,))[0][0]))


def read_event_export_page(
    connection: DbConnection, place: EventExportCursor
) -> tuple[list[bytes], EventExportCursor | None]:
    """The next lines, and the cursor behind them; None at the end."""
    if place.stream is None:
        events = read_all(connection, after=place.after, limit=PAGE)
        placed = [(stored.cursor, stored) for stored in events]
    else:
        events = read_stream(connection, place.stream, after_seq=place.after.position, limit=PAGE)
        placed = [(LogCursor(0, stored.header.seq), stored) for stored in events]
    within = [(at, stored) for at, stored in placed if _order(at) <= _order(place.end)]
    lines = [_line(stored) for _, stored in within]
    if len(within) < PAGE:
        return lines, None
    return lines, replace(place, after=within[-1][0])


def export_events(connection: DbConnection, stream: str | None = None) -> Iterator[bytes]:
    """Every event of a stream, or of all streams, in one snapshot."""
    place: EventExportCursor | None = begin_event_export(connection, stream)
    while place is not None:
        lines, place = read_event_export_page(connection, place)
        yield from lines


def _order(cursor: LogCursor) -> tuple[int, int]:
    return cursor.txid, cursor.position


def _line(stored: StoredEvent) -> bytes:
    """Facts and content as the exact hashed texts: encoded again they may differ."""
    line = {
        "type": "event",
        **header_json(stored),
        "facts": stored.facts,
        "content": stored.content,
        "salt": None if stored.salt is None else stored.salt.hex(),
        **hashes_json(stored),
    }
    return orjson.dumps(line) + b"\n"
