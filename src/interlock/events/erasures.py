"""Which payloads may be missing: those that an event on record says were erased, and may have erased."""

from bisect import bisect_right
from typing import NamedTuple

from interlock.events.access import AuthTokenAdded, AuthTokenRevoked
from interlock.events.catalog import (
    SYSTEM_STREAM,
    AuthorityCompiled,
    LogCheckpoint,
    LogErased,
    SessionCreated,
    SessionDeleted,
    SessionModeChanged,
    SessionModelChanged,
    SettingsChanged,
    decode,
)
from interlock.events.chain import Header
from interlock.events.mcp import McpServerAdded, McpServerRemoved, McpToolClassed
from interlock.events.work import TurnCompleted
from interlock.store.driver import Connection

# What no sweep erases, however old it is. `events verify` needs it to tell a forgery from an erasure, a
# checkpoint, a version of the settings, a digest, an MCP server, the class of a tool, a token, and the mode
# and the model of a session; `policy show` reads the digests; a session's first event says what it is; what
# a session used counts against its budget for as long as it lives.
KEPT = frozenset(
    event.kind
    for event in (
        *(LogErased, LogCheckpoint, SettingsChanged, AuthorityCompiled),
        *(McpServerAdded, McpServerRemoved, McpToolClassed, AuthTokenAdded, AuthTokenRevoked),
        *(SessionCreated, SessionModeChanged, SessionModelChanged, SessionDeleted, TurnCompleted),
    )
)

DELETIONS = """
SELECT payload FROM events WHERE stream = ? AND kind = 'session.deleted' AND payload IS NOT NULL
"""
SWEEPS = (
    "SELECT payload FROM events WHERE stream = 'system' AND kind = 'log.erased' AND payload IS NOT NULL"
)


class Span(NamedTuple):
    """Numbers from `first` to `last`, of what happened before a time."""

    first: int
    last: int
    before_us: int


class Erasures:
    """All sweeps, read once; the deletion of a session when that session is looked at."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._spans: dict[str, list[Span]] = {}
        for (payload,) in connection.query(SWEEPS):
            event = decode(LogErased.kind, payload)
            if isinstance(event, LogErased):
                self._spans.setdefault(event.of, []).extend(_spans(event))
        self._spans = {stream: _joined(spans) for stream, spans in self._spans.items()}

    def of(self, stream: str) -> "Erased":
        through = 0
        # The system stream is no session, and nobody deletes it.
        for (payload,) in self._connection.query(DELETIONS, (stream,)) if stream != SYSTEM_STREAM else ():
            event = decode(SessionDeleted.kind, payload)
            if isinstance(event, SessionDeleted):
                through = max(through, event.erased_through_seq)
        return Erased(through, self._spans.get(stream, []))


class Erased:
    """What was erased of one stream."""

    def __init__(self, through: int, spans: list[Span]) -> None:
        self._through = through
        self._spans = spans

    def objection(self, header: Header) -> str:
        """Why an event's payload must still be there; empty where it may be gone."""
        if header.seq <= self._through:
            return ""
        if header.kind in KEPT:
            return f"{_NOT_ON_RECORD}; such an event is never erased"
        place = bisect_right(self._spans, header.seq, key=lambda span: span.first)
        if place > 0 and header.seq <= self._spans[place - 1].last:
            span = self._spans[place - 1]
            return "" if header.time_us < span.before_us else _NOT_ON_RECORD
        return _NOT_ON_RECORD


_NOT_ON_RECORD = "its payload is gone and no erasure is on record"


def _spans(event: LogErased) -> list[Span]:
    """None where somebody made it something else; that the payload was changed is told elsewhere."""
    try:
        return [Span(int(first), int(last), int(event.before_us)) for first, last in event.ranges]
    except (TypeError, ValueError):
        return []


def _joined(spans: list[Span]) -> list[Span]:
    """In order, without gaps and overlaps of the same time. No number is erased by two sweeps."""
    joined: list[Span] = []
    for span in sorted(spans):
        before = joined[-1] if joined else None
        if before and before.before_us == span.before_us and span.first <= before.last + 1:
            joined[-1] = before._replace(last=max(before.last, span.last))
        else:
            joined.append(span)
    return joined
