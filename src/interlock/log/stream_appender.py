"""Chains events onto their streams inside one open transaction, many at a time.

Each stream's head advances by compare-and-set. Where a unit has a lease token, the same statement checks,
by the clock of leases (`db/driver.py`), that the lease is in force. Where a unit has a condition, the same
statement checks that as well.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from interlock.core.errors import PreconditionFailed, SessionFenced, SessionNotFound
from interlock.core.text import sanitize_text, to_json_value
from interlock.db.driver import DbConnection, RetryTransaction
from interlock.db.leases import IS_HELD, session_lease
from interlock.log.event import FREQUENT_KINDS, Event
from interlock.log.hash_chain import (
    GENESIS,
    chain_hash,
    encode_header,
    hash_content,
    new_event_id,
    new_salt,
    now_us,
)
from interlock.log.projections import Projections
from interlock.redaction.redactor import Redactor

READ_HEAD = "SELECT seq, hash FROM stream_heads WHERE stream = ? AND closed_us IS NULL {FOR_UPDATE}"

# PostgreSQL: all heads of a group are locked first, in one order and before any lease. Locked one by one,
# two groups of different processes could deadlock.
LOCK_HEADS = """
SELECT stream, seq, hash FROM stream_heads
WHERE stream = ANY(?) AND closed_us IS NULL ORDER BY stream FOR UPDATE
"""

OPEN_STREAM = "INSERT INTO stream_heads (stream, seq, hash, time_us) VALUES (?, 0, ?, ?)"

ADVANCE_HEAD = """
UPDATE stream_heads SET seq = ?, hash = ?
WHERE stream = ? AND seq = ? AND hash = ? AND closed_us IS NULL
"""
# Only for milestones: the index of sessions by their time is one more page for a commit to write.
ADVANCE_HEAD_AND_TIME = ADVANCE_HEAD.replace("hash = ?", "hash = ?, time_us = ?", 1)
# The lease row stays share-locked until the commit: no other worker can take the session over meanwhile.
UNDER_LEASE = {sql: f"{sql} AND EXISTS ({IS_HELD})" for sql in (ADVANCE_HEAD, ADVANCE_HEAD_AND_TIME)}

INSERT_EVENTS = """
INSERT INTO events
    (id, time_us, stream, seq, task, parent, kind, facts, content, salt, content_hash, prev_hash, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
INSERT_TEXTS = "INSERT INTO event_texts (stream, seq, text) VALUES (?, ?, ?)"


@dataclass(frozen=True, slots=True)
class EventScope:
    """The position of an event in the tree: its task and its parent event."""

    task: str | None = None
    parent: str | None = None

    def __post_init__(self) -> None:
        for name in ("task", "parent"):
            if (text := getattr(self, name)) is not None:
                object.__setattr__(self, name, sanitize_text(text))


NO_SCOPE = EventScope()


@dataclass(frozen=True, slots=True)
class WritePrecondition:
    """A condition on the store at the time of writing: a boolean SQL expression and its parameters."""

    sql: str
    parameters: tuple[Any, ...]


class AppendedEvent(NamedTuple):
    """An event as it was written: its header, and the facts and the content as JSON."""

    id: str
    time_us: int
    stream: str
    seq: int
    task: str | None
    parent: str | None
    kind: str
    facts: str
    content: str | None


class EventReceipt(NamedTuple):
    """The position and the hash of a recorded event."""

    id: str
    seq: int
    time_us: int
    hash: bytes


class EventDraft:
    """An event prepared in its caller's thread, so that the writer only has to chain it.

    `event_id` is an id that was handed out before the event existed. `seq` is set when it is written.
    """

    __slots__ = ("content", "content_hash", "facts", "id", "kind", "salt", "scope", "seq", "text")

    def __init__(
        self, event: Event, scope: EventScope, redactor: Redactor, event_id: str | None = None
    ) -> None:
        fields = event.payload()
        if event.outside is None:
            fields = redactor.value(fields)
        elif untrusted := {name: fields[name] for name in event.outside if fields[name]}:
            fields |= redactor.value(untrusted)
        content = {name: fields.pop(name) for name in event.erasable}
        self.id = event_id or new_event_id()
        self.facts = _encoded(fields, redactor)
        self.content = self.salt = self.content_hash = None
        if content:
            self.content = _encoded(content, redactor)
            self.salt = new_salt(self.id)
            self.content_hash = hash_content(self.salt, self.content)
        self.kind = event.kind
        self.scope = scope
        self.seq = 0
        self.text = event.searchable_text


def _encoded(fields: dict[str, Any], redactor: Redactor) -> bytes:
    try:
        return orjson.dumps(fields)
    except TypeError:
        # A fact is not lost because a value in it cannot be encoded.
        return orjson.dumps(redactor.value(to_json_value(fields)))


@dataclass(slots=True)
class StreamHead:
    seq: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class _DraftUnit:
    """One caller's drafts. `recorded` is filled again if the unit has to be chained a second time."""

    drafts: Sequence[EventDraft]
    condition: WritePrecondition | None
    refused: Callable[[Exception], None]
    recorded: list[EventReceipt] = field(default_factory=list)


@dataclass(slots=True)
class _Pending:
    """The next flush's rows for one stream. Its units share one token and at most one condition."""

    stream: str
    token: int | None
    before: StreamHead
    time_us: int
    condition: WritePrecondition | None = None
    units: list[_DraftUnit] = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    texts: list[tuple[str, int, str]] = field(default_factory=list)

    def takes(self, token: int | None, condition: WritePrecondition | None) -> bool:
        """Whether the same statement can write a unit with these."""
        return self.token == token and (
            condition is None or self.condition is None or condition == self.condition
        )

    def advance(self) -> tuple[str, tuple[Any, ...]]:
        """The statement that moves this stream's head, and its parameters."""
        last, old = self.rows[-1], self.before
        statement = ADVANCE_HEAD
        parameters: tuple[Any, ...] = (last[3], last[-1], self.stream, old.seq, old.hash)
        if any(row[6] not in FREQUENT_KINDS for row in self.rows):
            statement = ADVANCE_HEAD_AND_TIME
            parameters = (*parameters[:2], self.time_us, *parameters[2:])
        if self.token is not None:
            statement = UNDER_LEASE[statement]
            parameters += (session_lease(self.stream), self.token)
        if self.condition is not None:
            statement += f" AND ({self.condition.sql})"
            parameters += self.condition.parameters
        return statement, parameters


class StreamAppender:
    """The heads and the unwritten rows of one transaction."""

    def __init__(
        self, connection: DbConnection, heads: dict[str, StreamHead], projections: Projections
    ) -> None:
        self._connection = connection
        self._heads = heads
        self._projections = projections
        self._pending: dict[str, _Pending] = {}
        # The rows of the events that were flushed, in order.
        self.written: list[tuple[Any, ...]] = []

    def head(self, stream: str) -> StreamHead:
        head = self._heads.get(stream)
        if head is None:
            rows = self._connection.query(READ_HEAD, (stream,))
            if not rows:
                raise SessionNotFound(f"there is no session {stream}")
            head = self._heads[stream] = StreamHead(rows[0][0], bytes(rows[0][1]))
        return head

    def lock_heads(self, streams: Iterable[str]) -> None:
        """Lock all of them until the commit and cache their values. (SQLite has one writer anyway.)"""
        if self._connection.dialect == "postgresql":
            for stream, seq, chained in self._connection.query(LOCK_HEADS, (list(streams),)):
                self._heads[stream] = StreamHead(seq, bytes(chained))

    def open_stream(self, stream: str) -> None:
        self._connection.change(OPEN_STREAM, (stream, GENESIS, now_us()))
        self._heads[stream] = StreamHead(0, GENESIS)

    def lock(self, stream: str) -> StreamHead:
        """Read the head again; until the end of the transaction no other writer can move it."""
        self._heads.pop(stream, None)
        return self.head(stream)

    def require_lease(self, stream: str, token: int) -> None:
        self.lock(stream)
        if not self._connection.query(IS_HELD, (session_lease(stream), token)):
            raise _fenced(stream)

    def forget(self, stream: str) -> None:
        """Drop the cached state of a stream whose changes were rolled back."""
        self._heads.pop(stream, None)
        self._pending.pop(stream, None)

    def add(
        self,
        stream: str,
        token: int | None,
        drafts: Sequence[EventDraft],
        refused: Callable[[Exception], None],
        condition: WritePrecondition | None = None,
    ) -> list[EventReceipt]:
        """Chain the drafts onto the stream; the next flush writes or refuses them."""
        unit = _DraftUnit(drafts, condition, refused)
        self._add(stream, token, unit)
        return unit.recorded

    def _add(self, stream: str, token: int | None, unit: _DraftUnit) -> None:
        pending = self._pending.get(stream)
        if pending is not None and not pending.takes(token, unit.condition):
            self.flush()
            pending = None
        head = self.head(stream)
        if pending is None:
            pending = self._pending[stream] = _Pending(stream, token, head, now_us())
        pending.condition = pending.condition or unit.condition
        pending.units.append(unit)
        unit.recorded.clear()
        for draft in unit.drafts:
            head = _chain(head, draft, stream, pending)
            draft.seq = head.seq
            told = EventReceipt(draft.id, head.seq, pending.time_us, head.hash)
            unit.recorded.append(told)
            if draft.text:
                pending.texts.append((stream, head.seq, draft.text))
        self._heads[stream] = head

    def flush(self) -> None:
        """Move the heads and write the rows. Units without their lease or condition are refused alone."""
        waiting = [pending for pending in self._pending.values() if pending.rows]
        self._pending.clear()
        if not waiting:
            return
        moves: dict[str, list[tuple[Any, ...]]] = {}
        for pending in waiting:
            statement, parameters = pending.advance()
            moves.setdefault(statement, []).append(parameters)
        moved = sum(self._connection.change_many(statement, move) for statement, move in moves.items())
        if moved != len(waiting):
            waiting = [pending for pending in waiting if self._has_moved(pending)]
        rows = [row for pending in waiting for row in pending.rows]
        self._connection.change_many(INSERT_EVENTS, rows)
        self.written += rows
        if texts := [text for pending in waiting for text in pending.texts]:
            self._connection.change_many(INSERT_TEXTS, texts)
        self._projections.store(self._connection, rows)
        # Units that were chained again after a refused condition.
        self.flush()

    def _has_moved(self, pending: _Pending) -> bool:
        try:
            present = self.lock(pending.stream)
        except SessionNotFound as gone:
            refusal: Exception = gone
        else:
            if present.hash == pending.rows[-1][-1]:
                return True
            if present != pending.before:
                # Another process appended meanwhile: chain the whole group again.
                raise RetryTransaction(f"the head of {pending.stream} has moved")
            if pending.condition is not None and self._is_held(pending):
                self._refuse_conditional(pending)
                return False
            refusal = _fenced(pending.stream)
        for unit in pending.units:
            unit.refused(refusal)
        return False

    def _is_held(self, pending: _Pending) -> bool:
        lease = (session_lease(pending.stream), pending.token)
        return pending.token is None or bool(self._connection.query(IS_HELD, lease))

    def _refuse_conditional(self, pending: _Pending) -> None:
        """Nothing of the stream was written: chain the units without a condition again."""
        for unit in pending.units:
            if unit.condition is None:
                self._add(pending.stream, pending.token, unit)
            else:
                unit.refused(PreconditionFailed(f"the condition on session {pending.stream} is not met"))


def _fenced(stream: str) -> SessionFenced:
    return SessionFenced(f"the lease on session {stream} is no longer held; nothing was written")


def _chain(head: StreamHead, draft: EventDraft, stream: str, pending: _Pending) -> StreamHead:
    seq, scope = head.seq + 1, draft.scope
    header = (draft.id, pending.time_us, stream, seq, scope.task, scope.parent, draft.kind)
    chained = chain_hash(head.hash, encode_header(*header), draft.facts, draft.content_hash)
    content = None if draft.content is None else draft.content.decode()
    told = (draft.facts.decode(), content, draft.salt, draft.content_hash, head.hash, chained)
    pending.rows.append(header + told)
    return StreamHead(seq, chained)
