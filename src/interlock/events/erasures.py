"""Which payloads may be missing: those that an event on record says were erased."""

from bisect import bisect_right

from interlock.events.catalog import LogErased, SessionDeleted, decode
from interlock.store.driver import Connection

DELETIONS = """
SELECT payload FROM events WHERE stream = ? AND kind = 'session.deleted' AND payload IS NOT NULL
"""
SWEEPS = (
    "SELECT payload FROM events WHERE stream = 'system' AND kind = 'log.erased' AND payload IS NOT NULL"
)


class Erasures:
    """All sweeps, read once; the deletion of a session when that session is looked at."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ranges: dict[str, list[tuple[int, int]]] = {}
        for (payload,) in connection.query(SWEEPS):
            event = decode(LogErased.kind, payload)
            if isinstance(event, LogErased):
                self._ranges.setdefault(event.of, []).extend(_spans(event))
        self._ranges = {stream: _joined(ranges) for stream, ranges in self._ranges.items()}

    def of(self, stream: str) -> "ErasedNumbers":
        through = 0
        for (payload,) in self._connection.query(DELETIONS, (stream,)):
            event = decode(SessionDeleted.kind, payload)
            if isinstance(event, SessionDeleted):
                through = max(through, event.erased_through_seq)
        return ErasedNumbers(through, self._ranges.get(stream, []))


class ErasedNumbers:
    """Those of one stream."""

    def __init__(self, through: int, ranges: list[tuple[int, int]]) -> None:
        self._through = through
        self._ranges = ranges

    def __contains__(self, seq: int) -> bool:
        if seq <= self._through:
            return True
        place = bisect_right(self._ranges, seq, key=lambda span: span[0])
        return place > 0 and seq <= self._ranges[place - 1][1]


def _spans(event: LogErased) -> list[tuple[int, int]]:
    """None where somebody made it something else; that the payload was changed is told elsewhere."""
    try:
        return [(int(first), int(last)) for first, last in event.ranges]
    except (TypeError, ValueError):
        return []


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined
