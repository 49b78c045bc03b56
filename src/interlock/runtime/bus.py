"""Publish and subscribe: the notifications within a process, forwarded to other processes by a transport.

Nothing depends on it. Messages may be lost, late or duplicated: work, text and events are in the store, and
each process polls every second or so. Without a transport (one process, or PostgreSQL alone) everything
works, only later.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

import orjson

from interlock.core.logging import StructuredLogger
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.stream_appender import AppendedEvent

_log = StructuredLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkAvailable:
    """There may be work in this session, or something to cancel."""

    session_id: str


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """For the holder of this session only: something may have to be cancelled."""

    session_id: str


class TextPart(StrEnum):
    """Of which text of a turn. The reasoning comes before the answer."""

    reasoning = "reasoning"
    answer = "answer"


@dataclass(frozen=True, slots=True)
class TextAppended:
    """Text of the current turn, before it is stored. `offset` is its position in that part.

    One with offset 0 begins the text anew, or repeats all of it for a process that missed the beginning.
    """

    session_id: str
    task_id: str
    turn: int
    offset: int
    text: str
    part: TextPart = TextPart.answer
    # How long the model reasoned, once that is over.
    duration_ms: int = 0
    # Another process sent it.
    is_remote: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class ResyncRequested:
    """A process missed the beginning of this session's turn; its producer must send it whole."""

    session_id: str


@dataclass(frozen=True, slots=True)
class LogAppended:
    """The log of this session has new events. Within the process that wrote them, they come with it."""

    session_id: str
    events: Sequence[AppendedEvent] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class SessionChanged:
    """A list of sessions shows this one in another way now, by the event with this number."""

    session_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class ProgressReported:
    """A running call reports progress. It is not stored, and stays within the process."""

    session_id: str
    call_id: str
    text: str


BusMessage = (
    WorkAvailable
    | CancelRequested
    | TextAppended
    | ResyncRequested
    | LogAppended
    | SessionChanged
    | ProgressReported
)
MessageHandler = Callable[[Any], None]

_KINDS: dict[str, type[BusMessage]] = {
    "work": WorkAvailable,
    "cancel": CancelRequested,
    "text": TextAppended,
    "resync": ResyncRequested,
    "log": LogAppended,
    "session": SessionChanged,
}
# The events that change how a list shows their session.
SESSION_CHANGES = frozenset(
    {
        *("session.created", "session.renamed", "session.archived", "session.deleted"),
        *("session.mode_changed", "session.model_changed"),
        *("task.queued", "task.started", "task.waiting", "task.requeued"),
        *("task.finished", "task.cancelled", "task.steered"),
        *("run.started", "run.paused", "run.resumed", "run.stopped", "run.finished"),
    }
)
_NAMES = {kind: name for name, kind in _KINDS.items()}
_LOCAL_FIELDS = frozenset({"is_remote", "events"})
_SENT_FIELDS = {
    kind: tuple(name for name in kind.__slots__ if name not in _LOCAL_FIELDS) for kind in _NAMES
}
_NUMBERS = frozenset({"offset", "seq", "turn", "duration_ms"})
# Generated ids contain nothing else. Messages on the bus are untrusted.
_IDENTITY = re.compile("[!-~]{1,64}")


def encode_message(message: BusMessage) -> bytes:
    """Encode a message as one line."""
    kind = type(message)
    return orjson.dumps([_NAMES[kind], *(getattr(message, name) for name in _SENT_FIELDS[kind])])


def decode_message(line: bytes) -> BusMessage | None:
    """Decode a message; None if unknown: another version of Interlock may send more kinds."""
    try:
        name, *values = orjson.loads(line)
        kind = _KINDS[name]
    except (ValueError, TypeError, KeyError):
        return None
    fields = _SENT_FIELDS[kind]
    if len(values) != len(fields) or not all(map(_fits, fields, values)):
        return None
    message = kind(*values)
    if isinstance(message, TextAppended):
        return replace(message, part=TextPart(message.part), is_remote=True)
    return message


def _fits(field_name: str, value: object) -> bool:
    if field_name in _NUMBERS:
        return type(value) is int and value >= 0
    if field_name == "part":
        return value in list(TextPart)
    return isinstance(value, str) and (field_name == "text" or _IDENTITY.fullmatch(value) is not None)


class BusTransport(Protocol):
    """Carries messages between processes. Everything runs on one event loop.

    A process does not receive its own messages.
    """

    @property
    def has_others(self) -> bool:
        """Whether other processes may receive messages. Thread-safe."""

    def send(self, message: BusMessage) -> None:
        """Send a message. Never waits and never fails; what cannot be sent is dropped."""

    def watch(self, session_id: str) -> None:
        """Receive this session's `TextAppended` and `LogAppended` from now on.

        The process that runs its task sends the whole text so far. Unwatched sessions may be received or
        not.
        """

    def unwatch(self, session_id: str) -> None: ...

    def watch_changes(self) -> None:
        """Receive `SessionChanged` of all sessions. Called before `run`."""

    async def run(self, receive: MessageHandler, has_room: Callable[[], bool]) -> None:
        """Run until cancelled, through every loss of the connection.

        `has_room` says whether this process could work on another session: a transport that delivers each
        `WorkAvailable` to one process asks it first.
        """


class Bus:
    """The bus of one process, on one event loop. Without a transport, it ends at the process."""

    def __init__(self, transport: BusTransport | None = None) -> None:
        self._transport = transport
        # By kind and session; None means all sessions.
        self._handlers: dict[tuple[type[BusMessage], str | None], tuple[MessageHandler, ...]] = {}
        # The number of subscriptions to each session.
        self._watched: dict[str, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def has_others(self) -> bool:
        """Whether other processes may receive messages. Thread-safe."""
        return self._transport is not None and self._transport.has_others

    def subscribe(
        self, handler: MessageHandler, *kinds: type[BusMessage], session_id: str | None = None
    ) -> Callable[[], None]:
        """Call `handler` with each message of these kinds, of one session or of all.

        It must not block. Returns a function that ends the subscription.
        """
        with suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()
        for kind in kinds:
            self._handlers[kind, session_id] = (*self._handlers.get((kind, session_id), ()), handler)
        if session_id is not None:
            self._watch(session_id)
        elif SessionChanged in kinds and self._transport is not None:
            self._transport.watch_changes()

        def unsubscribe() -> None:
            for kind in kinds:
                left = tuple(each for each in self._handlers[kind, session_id] if each is not handler)
                if left:
                    self._handlers[kind, session_id] = left
                else:
                    del self._handlers[kind, session_id]
            if session_id is not None:
                self._unwatch(session_id)

        return unsubscribe

    def publish(self, message: BusMessage) -> None:
        """Deliver a message to the subscribers here and in other processes. Never waits and never fails."""
        self._deliver(message)
        if self._transport is not None and not isinstance(message, ProgressReported):
            self._transport.send(message)

    def publish_committed(self, events: Sequence[AppendedEvent]) -> None:
        """Publish events that were just written, in order. Called in the writer's thread."""
        loop = self._loop
        is_wanted = any(kind in {LogAppended, SessionChanged} for kind, _ in tuple(self._handlers))
        if loop is not None and (is_wanted or self.has_others):
            # A loop that has ended has no subscribers.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._publish_appended, events)

    async def run(self, has_room: Callable[[], bool] = lambda: False) -> None:
        """Connect to other processes, until cancelled."""
        self._loop = asyncio.get_running_loop()
        if self._transport is None:
            await self._loop.create_future()
        else:
            await self._transport.run(self._deliver, has_room)

    def _publish_appended(self, events: Sequence[AppendedEvent]) -> None:
        by_stream: dict[str, list[AppendedEvent]] = {}
        for event in events:
            by_stream.setdefault(event.stream, []).append(event)
        for stream, of_stream in by_stream.items():
            self._deliver(LogAppended(stream, of_stream))
            if self._transport is not None and stream != SYSTEM_STREAM:
                self._transport.send(LogAppended(stream))
            changes = [event.seq for event in of_stream if event.kind in SESSION_CHANGES]
            if changes:
                self.publish(SessionChanged(stream, changes[-1]))

    def _deliver(self, message: BusMessage) -> None:
        kind = type(message)
        for session_id in (None, message.session_id):
            for handler in self._handlers.get((kind, session_id), ()):
                try:
                    handler(message)
                except Exception as error:  # noqa: BLE001 - one subscriber's fault is not that of the others
                    _log.error("message_not_handled", kind=kind.__name__, exc_info=error)

    def _watch(self, session_id: str) -> None:
        self._watched[session_id] = self._watched.get(session_id, 0) + 1
        if self._watched[session_id] == 1 and self._transport is not None:
            self._transport.watch(session_id)

    def _unwatch(self, session_id: str) -> None:
        self._watched[session_id] -= 1
        if not self._watched[session_id]:
            del self._watched[session_id]
            if self._transport is not None:
                self._transport.unwatch(session_id)
