"""Which content may be missing: that of events named by a `log.erased` in the system stream."""

from bisect import bisect_right
from typing import NamedTuple

from interlock.db.driver import DbConnection
from interlock.log.event import IS_MILESTONE
from interlock.log.hash_chain import EventHeader
from interlock.log.kinds import LogErased, decode_event

ERASURES = f"SELECT facts FROM events WHERE stream = 'system' AND kind = 'log.erased' AND {IS_MILESTONE}"  # noqa: S608


class ErasedRange(NamedTuple):
    """The numbers `first` to `last`, as far as they are older than `before_us`."""

    first: int
    last: int
    before_us: int


class RecordedErasures:
    """All recorded erasures, read once."""

    def __init__(self, connection: DbConnection) -> None:
        self._spans: dict[str, list[ErasedRange]] = {}
        for (facts,) in connection.query(ERASURES):
            event = decode_event(LogErased.kind, facts)
            if isinstance(event, LogErased):
                self._spans.setdefault(event.of, []).extend(_spans(event))
        for spans in self._spans.values():
            spans.sort()

    def covers(self, header: EventHeader) -> bool:
        """Whether the content of this event was erased on record."""
        spans = self._spans.get(header.stream, [])
        # Nothing is erased twice, so no two spans overlap.
        place = bisect_right(spans, header.seq, key=lambda span: span.first)
        if place == 0:
            return False
        span = spans[place - 1]
        return header.seq <= span.last and header.time_us < span.before_us


def _spans(event: LogErased) -> list[ErasedRange]:
    """Empty where the record was changed into something else; the hash chain reports that."""
    try:
        return [ErasedRange(int(first), int(last), int(event.before_us)) for first, last in event.ranges]
    except (TypeError, ValueError):
        return []
