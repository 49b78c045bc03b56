"""The write-ahead log and, with it, the only way to change the store.

A unit of work belongs to one stream, and may record to others as well (`Transaction.on`). Its changes and
the events that record them share a transaction, and many units share a commit.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.core.errors import (
    PreconditionFailed,
    SessionNotFound,
    StatementRefused,
    StoreConflict,
    StoreError,
)
from interlock.db.database import Database
from interlock.db.driver import DbConnection, RetryTransaction
from interlock.db.group_commit import GroupCommitWriter, WriteUnit
from interlock.log.event import Event
from interlock.log.projections import Projections
from interlock.log.stream_appender import (
    NO_SCOPE,
    AppendedEvent,
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
        appender: StreamAppender,
        *,
        stream: str,
        token: int | None,
        redactor: Redactor,
        others: set[str],
    ) -> None:
        self.connection = connection
        self._appender = appender
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
            self._appender,
            stream=stream,
            token=None,
            redactor=self._redactor,
            others=self._others,
        )

    def open_stream(self) -> None:
        """Create the stream; fails if one of that name exists."""
        self._appender.open_stream(self._stream)

    def next_seq(self) -> int:
        """The number of the next event. From here on no other writer can append to the stream."""
        return self._appender.lock(self._stream).seq + 1

    def record(self, event: Event, scope: EventScope = NO_SCOPE) -> EventReceipt:
        draft = EventDraft(event, scope, self._redactor)
        recorded = self._appender.add(self._stream, self._token, [draft], _raise)
        self._appender.flush()
        return recorded[0]


def _raise(refusal: Exception) -> None:
    raise refusal


UnitOfWork = Callable[[Transaction], Result]
# Gets the events of a commit, in order, in the writer's thread: it must be quick and must not raise.
OnCommit = Callable[[Sequence[AppendedEvent]], None]


class _LogUnit(WriteUnit):
    """Drafts to append, or work to run, on one stream. It fails if the unit it `follows` has failed."""

    __slots__ = ("condition", "drafts", "follows", "others", "stream", "token", "work")

    def __init__(
        self,
        stream: str,
        token: int | None,
        drafts: Sequence[EventDraft] = (),
        work: UnitOfWork[Any] | None = None,
        *,
        condition: WritePrecondition | None = None,
        follows: "_LogUnit | None" = None,
        uninterruptible: bool = False,
        on_full_disk: bool = False,
    ) -> None:
        super().__init__(uninterruptible=uninterruptible, on_full_disk=on_full_disk)
        self.condition = condition
        self.follows = follows
        # The other streams that the work records to.
        self.others: set[str] = set()
        self.stream = stream
        self.token = token
        self.drafts = drafts
        self.work = work

    @property
    def broken_by(self) -> Exception | None:
        """The error of the unit before. A condition that was not met leaves no gap."""
        error = None if self.follows is None else self.follows.error
        return None if isinstance(error, PreconditionFailed) else error


class EventLog:
    """Appends to streams and runs changes, durably and in groups.

    A write is queued by the call; the future is done when it is on disk. A caller that stops waiting does
    not stop the write; one that must know the outcome makes it `uninterruptible`.
    """

    def __init__(
        self,
        database: Database,
        redactor: Redactor,
        projections: Projections,
        on_commit: OnCommit | None = None,
    ) -> None:
        self._redactor = redactor
        self.projections = projections
        self._on_commit = on_commit
        self._heads: dict[str, StreamHead] = {}
        # The rows of the transaction that is open or was committed last.
        self._written: list[tuple[Any, ...]] = []
        self._writer: GroupCommitWriter[_LogUnit] = GroupCommitWriter(
            database.config.connect, self._apply, self._forget, self._after, database.reserve
        )

    def _forget(self) -> None:
        """The transaction was rolled back, or it is unknown whether it was committed."""
        self._heads.clear()
        self._written = []

    def _after(self, units: Sequence[_LogUnit]) -> None:
        """In the writer's thread, when a group is durable or has failed."""
        for unit in units:
            # Its outcome is known: do not keep all units of a task in memory.
            unit.follows = None
        # On a full disk a group may take several commits. Those before the last are not handed over:
        # readers find them in the log.
        written, self._written = self._written, []
        if self._on_commit is not None and written:
            self._on_commit([AppendedEvent._make(row[:9]) for row in written])

    def draft(
        self,
        event: Event,
        scope: EventScope = NO_SCOPE,
        *,
        event_id: str | None = None,
    ) -> EventDraft:
        """A prepared event with its id, so that others can already name it as parent."""
        return EventDraft(event, scope, self._redactor, event_id)

    def append(
        self,
        stream: str,
        *events: Event | EventDraft,
        scope: EventScope = NO_SCOPE,
        token: int | None = None,
        condition: WritePrecondition | None = None,
        uninterruptible: bool = False,
    ) -> "asyncio.Future[list[EventReceipt]]":
        """Record events, all or none. `scope` is that of events that are no drafts yet.

        If the condition is not met in the transaction that would write them, nothing is written, and the
        future raises `PreconditionFailed`.
        """
        _refuse_odd_names(stream)
        drafts = [each if isinstance(each, EventDraft) else self.draft(each, scope) for each in events]
        unit = _LogUnit(stream, token, drafts, condition=condition, uninterruptible=uninterruptible)
        return self._writer.submit(unit)

    def appender(self, stream: str, token: int | None = None) -> "TaskAppender":
        return TaskAppender(self._writer, stream, token)

    def transact(
        self,
        stream: str,
        work: UnitOfWork[Result],
        *,
        token: int | None = None,
        uninterruptible: bool = False,
        on_full_disk: bool = False,
    ) -> "asyncio.Future[Result]":
        """Run `work` and record its events, all or nothing. It may be run again: no side effects.

        `on_full_disk` may use the reserve: only for work that ends or erases something.
        """
        _refuse_odd_names(stream)
        unit = _LogUnit(
            stream, token, work=work, uninterruptible=uninterruptible, on_full_disk=on_full_disk
        )
        return self._writer.submit(unit)

    def close(self) -> None:
        self._writer.close()

    def _apply(self, connection: DbConnection, units: Sequence[_LogUnit]) -> None:
        if len(self._heads) > MAX_CACHED_HEADS:
            self._heads.clear()
        appender = StreamAppender(connection, self._heads, self.projections)
        self._written = appender.written
        appender.lock_heads({unit.stream for unit in units})
        for unit in units:
            self._apply_unit(connection, appender, unit)
        appender.flush()

    def _apply_unit(self, connection: DbConnection, appender: StreamAppender, unit: _LogUnit) -> None:
        unit.error = None
        if (gap := unit.broken_by) is not None:
            unit.fail(gap)
            return
        if unit.work is not None:
            # Flush what others queued first; if that fails, the whole group fails.
            appender.flush()
        try:
            if unit.work is None:
                unit.result = appender.add(unit.stream, unit.token, unit.drafts, unit.fail, unit.condition)
            else:
                unit.result = self._isolated(connection, appender, unit, unit.work)
        except StatementRefused as error:
            unit.fail(error)
        except (StoreError, RetryTransaction):
            raise
        except StoreConflict as error:
            if unit.work is None:
                # Adding drafts flushes what earlier units queued: the conflict is not this unit's own.
                raise
            unit.fail(error)
        except Exception as error:  # noqa: BLE001 - it is this unit's own and goes to its caller
            unit.fail(error)

    def _isolated(
        self, connection: DbConnection, appender: StreamAppender, unit: _LogUnit, work: UnitOfWork[Result]
    ) -> Result:
        """Run a unit in a savepoint: if it fails half-way, the rest of its group is kept."""
        connection.change("SAVEPOINT unit")
        unit.others.clear()
        # Everything before was flushed.
        written_before = len(appender.written)
        transaction = Transaction(
            connection,
            appender,
            stream=unit.stream,
            token=unit.token,
            redactor=self._redactor,
            others=unit.others,
        )
        try:
            if unit.token is not None:
                appender.require_lease(unit.stream, unit.token)
            return work(transaction)
        except Exception:
            connection.change("ROLLBACK TO SAVEPOINT unit")
            del appender.written[written_before:]
            for stream in (unit.stream, *unit.others):
                appender.forget(stream)
            raise
        finally:
            connection.change("RELEASE SAVEPOINT unit")


class TaskAppender:
    """The appends of one attempt at a task: each fails if one before it has failed, so that no gap is left.

    Drafts that are held back are recorded by the next append, before its own, whatever its condition says.
    """

    def __init__(self, writer: GroupCommitWriter[_LogUnit], stream: str, token: int | None) -> None:
        _refuse_odd_names(stream)
        self._writer = writer
        self._stream = stream
        self._token = token
        self._held: list[EventDraft] = []
        self._last: _LogUnit | None = None
        self._writing: asyncio.Future[list[EventReceipt]] | None = None

    def hold(self, *drafts: EventDraft) -> None:
        self._held += drafts

    def append(
        self, *drafts: EventDraft, condition: WritePrecondition | None = None
    ) -> "asyncio.Future[list[EventReceipt]]":
        """Queue them like `EventLog.append`, uninterruptibly. An error is that of later appends as well."""
        units = [self._next(self._held)] if self._held else []
        self._held = []
        if drafts:
            units.append(self._next(drafts, condition))
        self._writing = self._writer.submit(*units)
        # Retrieve the exception, so that asyncio does not log it if the caller does not wait.
        self._writing.add_done_callback(lambda done: done.exception())
        return self._writing

    async def flush(self) -> None:
        """Wait until everything is on disk."""
        if self._held:
            self.append()
        if self._writing is not None:
            await self._writing

    def _next(self, drafts: Sequence[EventDraft], condition: WritePrecondition | None = None) -> _LogUnit:
        self._last = _LogUnit(
            self._stream,
            self._token,
            drafts,
            condition=condition,
            follows=self._last,
            uninterruptible=True,
        )
        return self._last


def _refuse_odd_names(stream: str) -> None:
    """Refuse names that no session can have; they need no lookup."""
    if not STREAM_NAME.fullmatch(stream):
        raise SessionNotFound(f"there is no session {stream[:64]!r}")
