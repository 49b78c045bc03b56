"""Exports a session as JSON lines: the session, then its messages, then its events, a page at a time."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import orjson

from interlock.core.errors import SessionNotFound
from interlock.db.driver import DbConnection
from interlock.log.export import EventExportCursor, begin_event_export, read_event_export_page
from interlock.sessions.manager import READ_SESSION
from interlock.sessions.models import session_from_row
from interlock.sessions.transcript import read_messages

PAGE = 500


@dataclass(frozen=True, slots=True)
class SessionExportCursor:
    """The progress of an export. Later additions to the session are not part of it."""

    session_id: str
    events: EventExportCursor
    # The last exported message; None once all of them were exported.
    after_message: int | None = 0


def begin_session_export(
    connection: DbConnection, session_id: str
) -> tuple[list[bytes], SessionExportCursor]:
    """The session's own line, and the cursor behind it."""
    rows = connection.query(READ_SESSION, (session_id,))
    if not rows:
        raise SessionNotFound(f"there is no session {session_id}")
    lines = [_line({"type": "session", **asdict(session_from_row(rows[0]))})]
    return lines, SessionExportCursor(session_id, begin_event_export(connection, session_id))


def read_session_export_page(
    connection: DbConnection, place: SessionExportCursor
) -> tuple[list[bytes], SessionExportCursor | None]:
    """The next lines, and the cursor behind them; None at the end."""
    if place.after_message is None:
        lines, events = read_event_export_page(connection, place.events)
        return lines, None if events is None else replace(place, events=events)
    messages = read_messages(connection, place.session_id, place.after_message, PAGE, with_handed_over=True)
    within = [message for message in messages if message.seq <= place.events.end.position]
    is_last = len(within) < PAGE
    lines = [_line({"type": "message", **asdict(message)}) for message in within]
    return lines, replace(place, after_message=None if is_last else within[-1].seq)


def export_session(connection: DbConnection, session_id: str) -> Iterator[bytes]:
    """All of it, in one snapshot."""
    lines, place = begin_session_export(connection, session_id)
    following: SessionExportCursor | None = place
    yield from lines
    while following is not None:
        lines, following = read_session_export_page(connection, following)
        yield from lines


def _line(value: dict[str, object]) -> bytes:
    return orjson.dumps(value) + b"\n"
