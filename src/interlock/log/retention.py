"""Erases content that is older than the operator wants to keep.

The facts of an event and the hash of its content stay, so the chain still verifies (docs/decisions/0008).
The messages of a task are erased together or not at all, and so are the events of a question: neither a
model nor a check meets half of one.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from interlock.core.errors import InterlockError
from interlock.core.logging import StructuredLogger
from interlock.core.threads import DaemonThreadPool
from interlock.db.database import Database
from interlock.db.driver import DbConnection, Row
from interlock.log.event import IS_MILESTONE
from interlock.log.hash_chain import now_us
from interlock.log.kinds import (
    MESSAGE_KINDS,
    SYSTEM_STREAM,
    AskUserAnswered,
    AskUserAsked,
    AskUserExpired,
    LogErased,
    merge_payload,
)
from interlock.log.run_events import RUN_EVENTS
from interlock.log.task_events import TaskCancelled, TaskFinished
from interlock.log.writer import EventLog, Transaction

_log = StructuredLogger(__name__)

# The last one of a task has its reason.
_TASK_ENDS = frozenset(event.kind for event in (TaskFinished, TaskCancelled))
_QUESTION_KINDS = frozenset(event.kind for event in (AskUserAsked, AskUserAnswered, AskUserExpired))


def _listed(kinds: Iterable[str]) -> str:
    return ", ".join(f"'{kind}'" for kind in sorted(kinds))


QUESTIONS = _listed(_QUESTION_KINDS)
RUN_KINDS = _listed(event.kind for event in RUN_EVENTS)

# A task's events are as old as its end; other events are as old as themselves.
_OLD = """
FROM events e LEFT JOIN tasks t ON t.id = e.task AND t.session_id = e.stream
WHERE e.stream = ? AND e.content IS NOT NULL
    AND CASE WHEN t.id IS NULL THEN e.time_us ELSE t.ended_us END < ?
"""
HAS_OLD = f"SELECT 1 {_OLD} LIMIT 1"
OLD = f"""
SELECT e.seq, e.kind, e.parent, t.id {_OLD}
    AND NOT EXISTS (
        SELECT 1 FROM questions q WHERE q.intent_id = e.parent AND e.kind IN ({QUESTIONS})
            AND (q.status = 'open' OR q.closed_us >= ?))
ORDER BY e.seq
"""  # noqa: S608 - all are constants
STILL_THERE = """
SELECT seq FROM events WHERE stream = ? AND seq >= ? AND seq <= ? AND content IS NOT NULL
"""

# Messages that belong to no task: a person's, and the replies to it up to the next one.
_MESSAGES = ", ".join(f"'{kind}'" for kind in MESSAGE_KINDS)
LOOSE_MESSAGES = f"""
SELECT e.seq, e.facts, e.time_us FROM events e
LEFT JOIN tasks t ON t.id = e.task AND t.session_id = e.stream
WHERE e.stream = ? AND e.kind IN ({_MESSAGES}) AND e.content IS NOT NULL
    AND t.id IS NULL
ORDER BY e.seq
"""  # noqa: S608 - a constant

STREAMS = """
SELECT stream FROM stream_heads WHERE stream > ? AND closed_us IS NULL ORDER BY stream LIMIT ?
"""
IS_OPEN = "SELECT 1 FROM stream_heads WHERE stream = ? AND closed_us IS NULL"
IS_AT_WORK = """
SELECT 1 FROM tasks WHERE session_id = ? AND status IN ('queued', 'running', 'waiting') LIMIT 1
"""

# In the order in which a whole session is erased, so that the two cannot deadlock.
ERASE_TEXT = "DELETE FROM event_texts WHERE stream = ? AND seq = ?"
ERASE_QUESTION = """
UPDATE questions SET document = NULL, answer = NULL, close_reason = NULL
WHERE intent_id = ? AND session_id = ?
"""
ERASE_REASON = "UPDATE tasks SET reason = NULL WHERE id = ?"
# What a run goes on with is erased when it ended long enough ago, after the content of its last event.
RUN_IS_OLD = "SELECT 1 FROM runs WHERE session_id = ? AND ended_us < ?"
HAS_RUN_EVENTS = f"""
SELECT 1 FROM events
WHERE stream = ? AND kind IN ({RUN_KINDS}) AND {IS_MILESTONE} AND content IS NOT NULL LIMIT 1
"""  # noqa: S608
ERASE_RUN = (
    "UPDATE runs SET definition = NULL, input = NULL, reason = NULL WHERE session_id = ?",
    "UPDATE run_nodes SET summary = NULL, artifacts = NULL, reason = NULL WHERE session_id = ?",
)
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
                SYSTEM_STREAM, _erasing(stream, before_us, batch), on_full_disk=True
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
        to_do = [stream for stream in streams if connection.query(HAS_OLD, (stream, before_us))]
        return _Page(streams[-1] if streams else "", to_do)

    return read


def _planned(connection: DbConnection, stream: str, before_us: int) -> list[list[Row]]:
    """The rows of each transaction: the messages of whole tasks first, then everything else.

    The plan stays valid while others write: a task that has ended does not start again.
    """
    end = _end_of_loose(connection, stream, before_us)
    words: dict[str | None, list[Row]] = {}
    others: list[list[Row]] = []
    for row in connection.query(OLD, (stream, before_us, before_us)):
        seq, kind, _, task = row
        if kind not in MESSAGE_KINDS and kind not in _QUESTION_KINDS:
            others.append([row])
        elif task is not None or kind not in MESSAGE_KINDS or seq < end:
            words.setdefault(task, []).append(row)
    batches: list[list[Row]] = [[]]
    for whole in (*words.values(), *others):
        batches[-1].extend(whole)
        if len(batches[-1]) >= BATCH:
            batches.append([])
    return [batch for batch in batches if batch]


def _erasing(
    stream: str, before_us: int, batch: Sequence[Row]
) -> Callable[[Transaction], LogErased | None]:
    """The work of one transaction, with the one event that records it; None if nothing is left to do.

    The event is in the system stream: in the session's own it would make the session look used.
    """

    def work(transaction: Transaction) -> LogErased | None:
        # This serialises concurrent sweeps.
        transaction.next_seq()
        connection = transaction.connection
        rows = _still_there(connection, stream, batch)
        if not rows:
            return None
        messages = [(stream, seq) for seq, kind, *_ in rows if kind in MESSAGE_KINDS]
        intents = sorted({parent for _, kind, parent, _ in rows if kind in _QUESTION_KINDS})
        connection.change_many(ERASE_TEXT, messages)
        connection.change_many(ERASE_QUESTION, [(intent, stream) for intent in intents])
        connection.change_many(ERASE_REASON, [(task,) for _, kind, _, task in rows if kind in _TASK_ENDS])
        connection.change_many(ERASE_CONTENT, [(stream, seq) for seq, *_ in rows])
        if connection.query(RUN_IS_OLD, (stream, before_us)) and not connection.query(
            HAS_RUN_EVENTS, (stream,)
        ):
            for erase in ERASE_RUN:
                connection.change(erase, (stream,))
        told = LogErased(
            who=BY_AGE,
            of=stream,
            before_us=before_us,
            events=len(rows),
            messages=len(messages),
            ranges=number_ranges(sorted(seq for seq, *_ in rows)),
        )
        transaction.record(told)
        return told

    return work


def _still_there(connection: DbConnection, stream: str, batch: Sequence[Row]) -> list[Row]:
    if connection.query(IS_AT_WORK, (stream,)) or not connection.query(IS_OPEN, (stream,)):
        return []
    numbers = [int(row[0]) for row in batch]
    left = {row[0] for row in connection.query(STILL_THERE, (stream, min(numbers), max(numbers)))}
    return [row for row in batch if row[0] in left]


def _end_of_loose(connection: DbConnection, stream: str, before_us: int) -> int:
    """The seq of the first exchange that is not old as a whole."""
    rows = connection.query(LOOSE_MESSAGES, (stream,))
    place = next((place for place, row in enumerate(rows) if row[2] >= before_us), None)
    if place is None:
        return _NEVER
    while place > 0 and merge_payload(rows[place][1], None).get("role") != "user":
        place -= 1
    return int(rows[place][0])


def number_ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Sorted numbers as [first, last] ranges."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges
