"""A session as JSON lines: the session, then its messages, then its events, a page at a time."""

from collections.abc import Iterator
from dataclasses import asdict, replace

import orjson

from interlock.events.export import EventsPlace, begin_events, events_page
from interlock.infra.errors import SessionNotFound
from interlock.infra.records import dataclass
from interlock.session.manager import READ_SESSION
from interlock.session.models import session_of
from interlock.session.transcript import read_messages
from interlock.store.driver import Connection

PAGE = 500


@dataclass(frozen=True, slots=True)
class ExportPlace:
    """How far an export has come. What is added to the session meanwhile is not part of it."""

    session_id: str
    events: EventsPlace
    # The last message that was told; None once all of them were.
    after_message: int | None = 0


def begin_export(connection: Connection, session_id: str) -> tuple[list[bytes], ExportPlace]:
    """The session's own line, and the place behind it."""
    rows = connection.query(READ_SESSION, (session_id,))
    if not rows:
        raise SessionNotFound(f"there is no session {session_id}")
    lines = [_line({"type": "session", **asdict(session_of(rows[0]))})]
    return lines, ExportPlace(session_id, begin_events(connection, session_id))


def export_page(connection: Connection, place: ExportPlace) -> tuple[list[bytes], ExportPlace | None]:
    """The next lines, and the place behind them; None at the end."""
    if place.after_message is None:
        lines, events = events_page(connection, place.events)
        return lines, None if events is None else replace(place, events=events)
    messages = read_messages(connection, place.session_id, place.after_message, PAGE, with_handed_over=True)
    within = [message for message in messages if message.seq <= place.events.end.position]
    is_last = len(within) < PAGE
    lines = [_line({"type": "message", **asdict(message)}) for message in within]
    return lines, replace(place, after_message=None if is_last else within[-1].seq)


def export_lines(connection: Connection, session_id: str) -> Iterator[bytes]:
    """All of it, as one connection sees it."""
    lines, place = begin_export(connection, session_id)
    following: ExportPlace | None = place
    yield from lines
    while following is not None:
        lines, following = export_page(connection, following)
        yield from lines


def _line(value: dict[str, object]) -> bytes:
    return orjson.dumps(value) + b"\n"
