"""The write-ahead log and, with it, the only way to change the store.

A unit of work belongs to one stream, and may record to others as well (`Transaction.on`). Its changes and
the events that tell them share a transaction, and many units share a commit.
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
from interlock.log.stream_appender import (
    NO_SCOPE,
    EventDraft,
    EventReceipt,
    EventScope,
    RowFactory,
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
        """The same transaction, recording to another stream: one change that concerns several sessions.

        PostgreSQL: its head is locked after those of the group, so two such transactions can deadlock;
        the database ends one of them, and it is run again.
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
        """Begin a new stream; it fails if there is one of that name."""
        self._ledger.open_stream(self._stream)

    def next_seq(self) -> int:
        """The number the next event will have. From here on nobody else can append to the stream."""
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
    """Either drafts to append or work to carry out, on one stream. Others build on one that is noted."""

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
        # Streams that the work records to besides its own.
        self.others: set[str] = set()
        self.stream = stream
        self.token = token
        self.drafts = drafts
        self.work = work


class EventLog:
    """Appends to streams and carries out changes, durably and in groups."""

    def __init__(self, database: Database, redactor: Redactor) -> None:
        self._redactor = redactor
        self._heads: dict[str, StreamHead] = {}
        self._ears: tuple[OnAppend, ...] = ()
        # What a holder of a session tells is a story, until it begins anew from the log; some have a hole.
        self._stories: dict[tuple[str, int], int] = {}
        self._torn: set[int] = set()
        self._numbers = itertools.count(1)
        self._writer: GroupCommitWriter[_Unit] = GroupCommitWriter(
            database.config.connect, self._apply, self._heads.clear, self._after, database.reserve
        )

    def listen(self, grown: OnAppend) -> Callable[[], None]:
        """Have `grown` told which streams this process has added to; what it returns ends that.

        It is called in the writer's thread, after each commit: it must be quick and must not raise.
        """
        self._ears = (*self._ears, grown)

        def stop() -> None:
            self._ears = tuple(ear for ear in self._ears if ear is not grown)

        return stop

    def clear_failed(self, stream: str, token: int) -> None:
        """Whoever holds the session goes on from the log; what was noted and lost is over."""
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
        if self._ears:
            done = [unit for unit in units if unit.error is None]
            streams = {unit.stream for unit in done}.union(*(unit.others for unit in done))
            for ear in self._ears if streams else ():
                ear(streams)

    def queue_events(
        self,
        stream: str,
        *events: Event,
        scope: EventScope = NO_SCOPE,
        token: int | None = None,
    ) -> "asyncio.Future[list[EventReceipt]]":
        """Queue facts to be recorded, in the order of the calls; the future ends when they are on disk."""
        return self.queue_drafts(stream, *(self.draft(event, scope) for event in events), token=token)

    def queue_drafts(
        self, stream: str, *drafts: EventDraft, token: int | None = None
    ) -> "asyncio.Future[list[EventReceipt]]":
        _refuse_odd_names(stream)
        return self._queued(_Unit(stream, token, drafts))

    def note(
        self, stream: str, *drafts: EventDraft, token: int | None = None
    ) -> "asyncio.Future[list[EventReceipt]]":
        """Queue facts for which nobody waits: they keep their place and share the next commit.

        That is made when the next thing is queued that is waited for, or after a moment. Whoever waits for
        the future after all says `hurry` first. Where it cannot be made, nothing that follows is written
        under the same token until `mend`: a story with a hole in it would be told wrong when it goes on.
        """
        _refuse_odd_names(stream)
        return self._queued(_Unit(stream, token, drafts, is_noted=True), is_patient=True)

    def flush(self) -> None:
        """Write what was only noted."""
        self._writer.flush()

    def draft(
        self,
        event: Event,
        scope: EventScope = NO_SCOPE,
        *,
        beside: tuple[str, RowFactory] | None = None,
        event_id: str | None = None,
    ) -> EventDraft:
        """A fact made ready, with its id: another one can already stand under it."""
        return EventDraft(event, scope, self._redactor, beside, event_id)

    def see_through(
        self,
        stream: str,
        *drafts: EventDraft,
        token: int | None = None,
        condition: WritePrecondition | None = None,
    ) -> "asyncio.Future[list[EventReceipt]]":
        """Queue facts to be recorded together; whoever waits for it stays until they are, or cannot be.

        Where the condition is not met in the transaction that would write them, they are not written, and
        the future ends with `PreconditionFailed`.
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
        """Record facts; it returns when they are on disk."""
        return await self.queue_events(stream, *events, scope=scope, token=token)

    async def transact(
        self, stream: str, work: UnitOfWork[Result], *, token: int | None = None, on_full_disk: bool = False
    ) -> Result:
        """Run `work` and record what it says, all or nothing. It may be run again: no side effects.

        `on_full_disk` is for what ends or erases something, and for nothing else: it may use the reserve.
        """
        _refuse_odd_names(stream)
        result: Result = await self._queued(_Unit(stream, token, work=work, on_full_disk=on_full_disk))
        return result

    def transact_uninterruptible(
        self, stream: str, work: UnitOfWork[Result], *, on_full_disk: bool = False
    ) -> "asyncio.Future[Result]":
        """The same for who must know what it came to: cancelled meanwhile, they hear of that afterwards."""
        _refuse_odd_names(stream)
        return self._queued(_Unit(stream, None, work=work, is_seen_through=True, on_full_disk=on_full_disk))

    def close(self) -> None:
        self._writer.close()

    def _apply(self, connection: DbConnection, units: Sequence[_Unit]) -> None:
        if len(self._heads) > MAX_CACHED_HEADS:
            self._heads.clear()
        ledger = StreamAppender(connection, self._heads)
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
            # What others queued is settled first; if that fails, it is the whole group's failure.
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
        """A unit that fails half-way must not take the rest of its group along."""
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
    """A stream is named by a session's id; anything else cannot exist and need not be looked for."""
    if not STREAM_NAME.fullmatch(stream):
        raise SessionNotFound(f"there is no session {stream[:64]!r}")
