"""Compares the usage table with the events that it counts."""

from collections.abc import Iterator

from interlock.db.driver import DbConnection
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.read import StoredEvent
from interlock.log.usage import COUNTED, CountedEvent, UsageRows, count_usage, rows_of_session

# A backup of an older schema is checked before it is upgraded.
IS_THERE = "SELECT 1 FROM sqlite_schema WHERE name = 'usage'"
OF_NO_STREAM = (
    "SELECT session_id FROM usage WHERE session_id NOT IN (SELECT stream FROM stream_heads) LIMIT 1"
)

Difference = tuple[int, str, str]


class UsageVerifier:
    """Counts one stream's events again."""

    def __init__(self) -> None:
        self._rows: UsageRows = {}

    def take(self, stored: StoredEvent) -> None:
        header = stored.header
        if header.kind in COUNTED:
            event = CountedEvent(header.stream, header.task, header.time_us, header.kind, stored.facts)
            count_usage(self._rows, event)

    def compare(self, connection: DbConnection, stream: str) -> Iterator[Difference]:
        """Where rows and events disagree: the event's number, broken or missing, and the detail."""
        if connection.dialect == "sqlite" and not connection.query(IS_THERE):
            return
        if stream == SYSTEM_STREAM:
            for (unknown,) in connection.query(OF_NO_STREAM):
                yield 0, "broken", f"usage of {unknown} is stored, which has no events"
        stored = rows_of_session(connection, stream)
        for key in sorted(stored.keys() | self._rows.keys()):
            counted, found = self._rows.get(key), stored.get(key)
            if counted != found:
                what = "missing" if found is None else "broken"
                yield 0, what, f"usage of {key.kind} {key.name}: {found} is stored, {counted} was counted"
