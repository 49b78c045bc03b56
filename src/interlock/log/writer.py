"""The write-ahead log and, with it, the only way to change the store.

A unit of work belongs to one stream, and may record to others as well (`Transaction.on`). Its changes and
the events that record them share a transaction, and many units share a commit.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.core.errors import SessionNotFound, StatementRefused, StoreError, StoreUnavailable
from interlock.db.database import Database
from interlock.db.driver import DbConnection, RetryTransaction
from interlock.db.group_commit import GroupCommitWriter, WriteUnit
from interlock.log.event import Event
from interlock.log.projections import Projections
from interlock.log.stream_appender import (
    NO_SCOPE,
    EventDraft,
    EventReceipt,
    EventScope,
    StreamAppender,
    StreamHead,
    WritePrecondition,
)
from interlock.redaction.redactor import Redactor

if TYPE_CHECKING:
    import asyncio

Result = TypeVar("Result")

MAX_CACHED_HEADS = 10_000
STREAM_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Transaction:
    """What one unit of work may do: query, change, and record what it changed."""

    def __init__(
        self,
        connection: DbConnection,
        ledger: StreamAppender,
        *,
        stream: str,
        token: int | None,
        redactor: Redactor,
        others: set[str],
    ) -> None:
        self.connection = connection
        self._ledger = ledger
        self._stream = stream
        self._token = token
        self._redactor = redactor
        self._others = others

    def on(self, stream: str) -> "Transaction":
        """The same transaction, recording to another stream: for a change that concerns several sessions.

        PostgreSQL: its head is locked after those of the group, so two such transactions can deadlock; the
        database aborts one of them, and it is run again.
        """
        self._others.add(stream)
        return Transaction(
            self.connection,
            self._ledger,
            stream=stream,
            token=None,
            redactor=self._redactor,
            others=self._others,
        )

    def open_stream(self) -> None:
        """Create the stream; fails if one of that name exists."""
        self._ledger.open_stream(self._stream)

    def next_seq(self) -> int:
        """The number of the next event. From here on no other writer can append to the stream."""
        return self._ledger.lock(self._stream).seq + 1

    def record(self, event: Event, scope: EventScope = NO_SCOPE) -> EventReceipt:
        draft = EventDraft(event, scope, self._redactor)
        recorded = self._ledger.add(self._stream, self._token, [draft], _raise)
        self._ledger.flush()
        return recorded[0]


def _raise(refusal: Exception) -> None:
    raise refusal


UnitOfWork = Callable[[Transaction], Result]
OnAppend = Callable[[set[str]], None]


class _Unit(WriteUnit):
    """Drafts to append, or work to run, on one stream. If `is_noted`, later units depend on it."""

    __slots__ = ("condition", "drafts", "is_noted", "others", "story", "stream", "token", "work")

    def __init__(
        self,
        stream: str,
        token: int | None,
        drafts: Sequence[EventDraft] = (),
        work: UnitOfWork[Any] | None = None,
        *,
        condition: WritePrecondition | None = None,
        is_seen_through: bool = False,
        is_noted: bool = False,
        on_full_disk: bool = False,
    ) -> None:
        super().__init__(is_seen_through=is_seen_through, on_full_disk=on_full_disk)
        self.condition = condition
        self.is_noted = is_noted
        self.story = 0
        # The other streams that the work records to.
        self.others: set[str] = set()
        self.stream = stream
        self.token = token
        self.drafts = drafts
        self.work = work


class EventLog:
    """Appends to streams and runs changes, durably and in groups."""

    def __init__(self, database: Database, redactor: Redactor, projections: Projections) -> None:
        self._redactor = redactor
        self._projections = projections
        self._heads: dict[str, StreamHead] = {}
        self._subscribers: tuple[OnAppend, ...] = ()
        # Deferred appends per lease. After one fails, later ones are rejected until the worker reloads from
        # the log.
        self._stories: dict[tuple[str, int], int] = {}
        self._torn: set[int] = set()
        self._numbers = itertools.count(1)
        self._writer: GroupCommitWriter[_Unit] = GroupCommitWriter(
            database.config.connect, self._apply, self._heads.clear, self._after, database.reserve
        )

    def listen(self, grown: OnAppend) -> Callable[[], None]:
        """Call `grown` with the streams this process has appended to; returns a function that stops that.

        It is called in the writer's thread, after each commit: it must be quick and must not raise.
        """
        self._subscribers = (*self._subscribers, grown)

        def stop() -> None:
            self._subscribers = tuple(
                subscriber for subscriber in self._subscribers if subscriber is not grown
            )

        return stop

    def clear_failed(self, stream: str, token: int) -> None:
        """Accept writes under this lease again, after its holder reloaded from the log."""
        self._torn.discard(self._stories.pop((stream, token), 0))

    def _queued(self, unit: _Unit, *, is_patient: bool = False) -> "asyncio.Future[Any]":
        if unit.token is not None:
            key = (unit.stream, unit.token)
            if key not in self._stories:
                if len(self._stories) >= MAX_CACHED_HEADS:
                    self.clear_failed(*next(iter(self._stories)))
                self._stories[key] = next(self._numbers)
            unit.story = self._stories[key]
        return self._writer.submit(unit, is_patient=is_patient)

    def _after(self, units: Sequence[_Unit]) -> None:
        """In the writer's thread, when a group is durable or has failed."""
        for unit in units:
            if unit.error is not None and unit.is_noted and unit.story:
                self._torn.add(unit.story)
        if self._subscribers:
            done = [unit for unit in units if unit.error is None]
            streams = {unit.stream for unit in done}.union(*(unit.others for unit in done))
            for subscriber in self._subscribers if streams else ():
                subscriber(streams)

    def queue_events(
        self,
        stream: str,
        *events: Event,
        scope: EventScope = NO_SCOPE,
        token: int | None = None,
    ) -> "asyncio.Future[list[EventReceipt]]":
        """Queue events, in the order of the calls; the future is done when they are on disk."""
        return self.queue_drafts(stream, *(self.draft(event, scope) for event in events), token=token)

    def queue_drafts(
        self, stream: str, *drafts: EventDraft, token: int | None = None
    ) -> "asyncio.Future[list[EventReceipt]]":
        _refuse_odd_names(stream)
        return self._queued(_Unit(stream, token, drafts))

    def note(
        self, stream: str, *drafts: EventDraft, token: int | None = None
    ) -> "asyncio.Future[list[EventReceipt]]":
        """Queue drafts whose commit can wait: they keep their order and share the next commit.

        It happens with the next unit that is not deferred, or after a moment; call `flush` before waiting
        for the future. If it fails, later writes under the same token are rejected until `clear_failed`:
        they would follow a gap.
        """
        _refuse_odd_names(stream)
        return self._queued(_Unit(stream, token, drafts, is_noted=True), is_patient=True)

    def flush(self) -> None:
        """Write deferred drafts now."""
        self._writer.flush()

    def draft(
        self,
        event: Event,
        scope: EventScope = NO_SCOPE,
        *,
        event_id: str | None = None,
    ) -> EventDraft:
        """A prepared event with its id, so that others can already name it as parent."""
        return EventDraft(event, scope, self._redactor, event_id)

    def see_through(
        self,
        stream: str,
        *drafts: EventDraft,
        token: int | None = None,
        condition: WritePrecondition | None = None,
    ) -> "asyncio.Future[list[EventReceipt]]":
        """Queue drafts to be recorded together; cancellation does not interrupt the waiter.

        If the condition is not met in the transaction that would write them, nothing is written, and the
        future raises `PreconditionFailed`.
        """
        _refuse_odd_names(stream)
        return self._queued(_Unit(stream, token, drafts, condition=condition, is_seen_through=True))

    async def append(
        self,
        stream: str,
        *events: Event,
        scope: EventScope = NO_SCOPE,
        token: int | None = None,
    ) -> list[EventReceipt]:
        """Record events; returns when they are on disk."""
        return await self.queue_events(stream, *events, scope=scope, token=token)

    async def transact(
        self, stream: str, work: UnitOfWork[Result], *, token: int | None = None, on_full_disk: bool = False
    ) -> Result:
        """Run `work` and record its events, all or nothing. It may be run again: no side effects.

        `on_full_disk` may use the reserve: only for work that ends or erases something.
        """
        _refuse_odd_names(stream)
        result: Result = await self._queued(_Unit(stream, token, work=work, on_full_disk=on_full_disk))
        return result

    def transact_uninterruptible(
        self, stream: str, work: UnitOfWork[Result], *, on_full_disk: bool = False
    ) -> "asyncio.Future[Result]":
        """Like `transact`, for a caller that must know the outcome: it is cancelled only afterwards."""
        _refuse_odd_names(stream)
        return self._queued(_Unit(stream, None, work=work, is_seen_through=True, on_full_disk=on_full_disk))

    def close(self) -> None:
        self._writer.close()

    def _apply(self, connection: DbConnection, units: Sequence[_Unit]) -> None:
        if len(self._heads) > MAX_CACHED_HEADS:
            self._heads.clear()
        ledger = StreamAppender(connection, self._heads, self._projections)
        ledger.lock_heads({unit.stream for unit in units})
        torn: set[int] = set()
        for unit in units:
            self._apply_unit(connection, ledger, unit, torn)
            if unit.error is not None and unit.is_noted:
                torn.add(unit.story)
        ledger.flush()

    def _apply_unit(
        self, connection: DbConnection, ledger: StreamAppender, unit: _Unit, torn: set[int]
    ) -> None:
        unit.error = None
        if unit.story and (unit.story in self._torn or unit.story in torn):
            unit.fail(StoreUnavailable("an earlier write of the same task has just failed"))
            return
        if unit.work is not None:
            # Flush what others queued first; if that fails, the whole group fails.
            ledger.flush()
        try:
            if unit.work is None:
                unit.result = ledger.add(unit.stream, unit.token, unit.drafts, unit.fail, unit.condition)
            else:
                unit.result = self._isolated(connection, ledger, unit, unit.work)
        except StatementRefused as error:
            unit.fail(error)
        except (StoreError, RetryTransaction):
            raise
        except Exception as error:  # noqa: BLE001 - it is this unit's own and goes to its caller
            unit.fail(error)

    def _isolated(
        self, connection: DbConnection, ledger: StreamAppender, unit: _Unit, work: UnitOfWork[Result]
    ) -> Result:
        """Run a unit in a savepoint: if it fails half-way, the rest of its group is kept."""
        connection.change("SAVEPOINT unit")
        unit.others.clear()
        transaction = Transaction(
            connection,
            ledger,
            stream=unit.stream,
            token=unit.token,
            redactor=self._redactor,
            others=unit.others,
        )
        try:
            if unit.token is not None:
                ledger.require_lease(unit.stream, unit.token)
            return work(transaction)
        except Exception:
            connection.change("ROLLBACK TO SAVEPOINT unit")
            for stream in (unit.stream, *unit.others):
                ledger.forget(stream)
            raise
        finally:
            connection.change("RELEASE SAVEPOINT unit")


def _refuse_odd_names(stream: str) -> None:
    """Refuse names that no session can have; they need no lookup."""
    if not STREAM_NAME.fullmatch(stream):
        raise SessionNotFound(f"there is no session {stream[:64]!r}")
