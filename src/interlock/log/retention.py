"""Erases content that is older than the operator wants to keep.

The facts of an event and the hash of its content stay, so the chain still verifies (docs/decisions/0008).
All content of a task is erased together or not at all, and so is that of a run, of a question, and of an
exchange without a task: neither a model nor a check meets half of one. Rows lose the same content.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from interlock.core.errors import InterlockError
from interlock.core.logging import StructuredLogger
from interlock.core.threads import DaemonThreadPool
from interlock.db.database import Database
from interlock.db.driver import DbConnection, Row
from interlock.log.erasure import number_ranges
from interlock.log.event import IS_MILESTONE, Event
from interlock.log.hash_chain import now_us
from interlock.log.kinds import (
    IS_MESSAGE,
    SYSTEM_STREAM,
    AskUserAnswered,
    AskUserAsked,
    AskUserExpired,
    LogErased,
    merge_payload,
)
from interlock.log.projections import Projections
from interlock.log.run_events import RUN_EVENTS, RunFinished, RunStopped
from interlock.log.task_events import TaskCancelled, TaskFinished, TaskQueued, TaskSteered
from interlock.log.writer import EventLog, Transaction

_log = StructuredLogger(__name__)


def _listed(*kinds: type[Event]) -> str:
    return ", ".join(f"'{event.kind}'" for event in kinds)


_QUESTION_KINDS = frozenset(event.kind for event in (AskUserAsked, AskUserAnswered, AskUserExpired))
_RUN_KINDS = frozenset(event.kind for event in RUN_EVENTS)

TASK_ENDS = f"""
SELECT task, max(CASE WHEN kind <> '{TaskQueued.kind}' THEN time_us END) AS ended_us FROM events
WHERE stream = ? AND {IS_MILESTONE}
    AND kind IN ({_listed(TaskQueued, TaskFinished, TaskCancelled, TaskSteered)})
GROUP BY task
"""  # noqa: S608 - all are constants
# If the run has ended: when it had its last event.
RUN_ENDED = f"""
SELECT CASE WHEN count(CASE WHEN kind IN ({_listed(RunFinished, RunStopped)}) THEN 1 END) > 0
    THEN max(time_us) END
FROM events WHERE stream = ? AND kind IN ({_listed(*RUN_EVENTS)}) AND {IS_MILESTONE}
"""  # noqa: S608
QUESTION_CLOSED = f"""
SELECT max(c.time_us) FROM events c
WHERE c.stream = e.stream AND c.parent = e.parent
    AND c.kind IN ({_listed(AskUserAnswered, AskUserExpired)}) AND {IS_MILESTONE}
"""  # noqa: S608
# An event is as old as the end of what it belongs to: a run, a task or a question; others as themselves.
_OLD = f"""
FROM events e LEFT JOIN ({TASK_ENDS}) t ON t.task = e.task
WHERE e.stream = ? AND e.content IS NOT NULL AND CASE
    WHEN e.kind IN ({_listed(*RUN_EVENTS)}) THEN ({RUN_ENDED})
    WHEN t.task IS NOT NULL THEN t.ended_us
    WHEN e.kind IN ({_listed(AskUserAsked, AskUserAnswered, AskUserExpired)}) THEN ({QUESTION_CLOSED})
    ELSE e.time_us END < ?
"""
HAS_OLD = f"SELECT 1 {_OLD} LIMIT 1"
OLD = f"SELECT e.seq, e.kind, e.parent, t.task, ({IS_MESSAGE}) {_OLD} ORDER BY e.seq"
# Header and facts, as `Projections.erase_old` reads them.
STILL_THERE = """
SELECT id, time_us, stream, seq, task, parent, kind, facts FROM events
WHERE stream = ? AND seq >= ? AND seq <= ? AND content IS NOT NULL ORDER BY seq
"""

# Messages that belong to no task: a person's, and the replies to it up to the next one.
LOOSE_MESSAGES = f"""
SELECT e.seq, e.facts, e.time_us FROM events e LEFT JOIN ({TASK_ENDS}) t ON t.task = e.task
WHERE e.stream = ? AND t.task IS NULL AND {IS_MESSAGE} ORDER BY e.seq
"""  # noqa: S608

STREAMS = """
SELECT stream FROM stream_heads WHERE stream > ? AND closed_us IS NULL ORDER BY stream LIMIT ?
"""
IS_OPEN = "SELECT 1 FROM stream_heads WHERE stream = ? AND closed_us IS NULL"

ERASE_TEXT = "DELETE FROM event_texts WHERE stream = ? AND seq = ?"
ERASE_CONTENT = "UPDATE events SET content = NULL, salt = NULL WHERE stream = ? AND seq = ?"

BATCH = 500
_STREAMS_AT_ONCE = 100
_DAY_US = 86_400_000_000
_HOUR_SECONDS = 3600.0
_NEVER = 2**63 - 1
# Replaces the actor where content was erased for its age.
BY_AGE = "retention"


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The counts of a sweep. Content older than `before_us` was erased."""

    before_us: int
    streams: int = 0
    events: int = 0
    messages: int = 0

    def with_stream(self, events: int, messages: int) -> "SweepReport":
        if not events:
            return self
        return SweepReport(self.before_us, self.streams + 1, self.events + events, self.messages + messages)


class RetentionSweeper:
    """Erases content older than `days`, at midnight UTC."""

    def __init__(
        self,
        log: EventLog,
        database: Database,
        days: int,
        clock_us: Callable[[], int] = now_us,
        *,
        forget_before: Callable[[int], None] = lambda _time_us: None,
    ) -> None:
        """`forget_before` drops the unmasked copies that are kept outside the store."""
        self._forget_before = forget_before
        self._threads = DaemonThreadPool("interlock-retention")
        self._events = log
        self._database = database
        self._days = days
        self._clock_us = clock_us
        self._swept_before_us = 0

    @property
    def before_us(self) -> int:
        return (self._clock_us() - self._days * _DAY_US) // _DAY_US * _DAY_US

    async def sweep(self) -> SweepReport:
        """Erase all that is old enough. The next sweep finishes an interrupted one."""
        before_us, after = self.before_us, ""
        swept = SweepReport(before_us)
        while (page := await self._database.read(_page(after, before_us))).last:
            for stream in page.to_do:
                swept = swept.with_stream(*await self._sweep_stream(stream, before_us))
            after = page.last
        await self.forget_local_files()
        self._swept_before_us = before_us
        return swept

    async def forget_local_files(self) -> None:
        """Only the files that this machine keeps outside the store. Each machine cleans up its own."""
        before_us = self.before_us
        await self._threads.start(lambda: self._forget_before(before_us))

    async def run_hourly(self) -> None:
        """Run until cancelled. A sweep that fails is retried in the next hour."""
        while True:
            if self.before_us != self._swept_before_us:
                try:
                    swept = await self.sweep()
                    _log.info("events_swept", streams=swept.streams, events=swept.events)
                except InterlockError as error:
                    _log.warning("events_not_swept", error=str(error))
            await asyncio.sleep(_HOUR_SECONDS)

    async def _sweep_stream(self, stream: str, before_us: int) -> tuple[int, int]:
        events, messages = 0, 0
        for batch in await self._database.read(lambda db: _planned(db, stream, before_us)):
            told = await self._events.transact(
                SYSTEM_STREAM,
                _erasing(self._events.projections, stream, before_us, batch),
                on_full_disk=True,
            )
            if told is not None:
                events += told.events
                messages += told.messages
        return events, messages


@dataclass(frozen=True, slots=True)
class _Page:
    last: str
    to_do: Sequence[str]


def _page(after: str, before_us: int) -> Callable[[DbConnection], _Page]:
    """The next streams, and which of them have something to erase."""

    def read(connection: DbConnection) -> _Page:
        streams = [str(row[0]) for row in connection.query(STREAMS, (after, _STREAMS_AT_ONCE))]
        to_do = [stream for stream in streams if connection.query(HAS_OLD, (*[stream] * 3, before_us))]
        return _Page(streams[-1] if streams else "", to_do)

    return read


def _planned(connection: DbConnection, stream: str, before_us: int) -> list[list[Row]]:
    """The rows of each transaction. What is erased together is in one.

    The plan stays valid while others write: a task or a run that has ended does not start again.
    """
    end = _end_of_loose(connection, stream, before_us)
    units: dict[object, list[Row]] = {}
    for row in connection.query(OLD, (stream, stream, stream, before_us)):
        seq, kind, parent, task, is_message = row
        if kind in _RUN_KINDS:
            unit: object = _RUN_KINDS
        elif task is not None:
            unit = task
        elif kind in _QUESTION_KINDS:
            unit = parent
        elif is_message and seq >= end:
            continue
        else:
            unit = None if is_message else seq
        units.setdefault(unit, []).append(row)
    batches: list[list[Row]] = [[]]
    for whole in units.values():
        batches[-1].extend(whole)
        if len(batches[-1]) >= BATCH:
            batches.append([])
    return [batch for batch in batches if batch]


def _erasing(
    projections: Projections, stream: str, before_us: int, batch: Sequence[Row]
) -> Callable[[Transaction], LogErased | None]:
    """The work of one transaction, with the one event that records it; None if nothing is left to do.

    The event is in the system stream: in the session's own it would make the session look used.
    """
    planned = {int(row[0]): bool(row[-1]) for row in batch}

    def work(transaction: Transaction) -> LogErased | None:
        # This serialises concurrent sweeps.
        transaction.next_seq()
        connection = transaction.connection
        if projections.is_at_work(connection, stream) or not connection.query(IS_OPEN, (stream,)):
            return None
        there = connection.query(STILL_THERE, (stream, min(planned), max(planned)))
        rows = [row for row in there if row[3] in planned]
        if not rows:
            return None
        erased = [(stream, row[3]) for row in rows]
        texts = [each for each in erased if planned[each[1]]]
        connection.change_many(ERASE_TEXT, texts)
        projections.erase_old(connection, rows)
        connection.change_many(ERASE_CONTENT, erased)
        told = LogErased(
            who=BY_AGE,
            of=stream,
            # An event may be newer than the end of its task: a reply that failed, another clock.
            before_us=max(before_us, max(row[1] for row in rows) + 1),
            events=len(rows),
            messages=len(texts),
            ranges=number_ranges(seq for _, seq in erased),
        )
        transaction.record(told)
        return told

    return work


def _end_of_loose(connection: DbConnection, stream: str, before_us: int) -> int:
    """The seq of the first exchange that is not old as a whole."""
    rows = connection.query(LOOSE_MESSAGES, (stream, stream))
    place = next((place for place, row in enumerate(rows) if row[2] >= before_us), None)
    if place is None:
        return _NEVER
    while place > 0 and merge_payload(rows[place][1], None).get("role") != "user":
        place -= 1
    return int(rows[place][0])
