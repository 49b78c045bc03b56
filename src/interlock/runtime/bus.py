"""Messages between processes: when to look for work, and text as it is streamed.

Nothing depends on it. Messages may be lost, late or duplicated: work and messages are in the store, and
each process polls every second or so. Without a bus (one process, or PostgreSQL alone) everything works,
only later.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import orjson


@dataclass(frozen=True, slots=True)
class WorkAvailable:
    """There may be work in this session, or something to cancel."""

    session_id: str


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """For the holder of this session only: something may have to be cancelled."""

    session_id: str


@dataclass(frozen=True, slots=True)
class TextAppended:
    """Text of the current answer, before it is stored. `offset` is its position in the turn's text."""

    session_id: str
    task_id: str
    turn: int
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class TextEnded:
    """The current answer of this session has ended: it is in the log, or was given up."""

    session_id: str
    task_id: str


@dataclass(frozen=True, slots=True)
class ResyncRequested:
    """A process missed the beginning of this session's answer; its producer must send it whole."""

    session_id: str


@dataclass(frozen=True, slots=True)
class LogAppended:
    """The log of this session has new events."""

    session_id: str


BusMessage = WorkAvailable | CancelRequested | TextAppended | TextEnded | ResyncRequested | LogAppended
BusHandler = Callable[[BusMessage], None]

_KINDS: dict[str, type[BusMessage]] = {
    "ring": WorkAvailable,
    "stir": CancelRequested,
    "piece": TextAppended,
    "silence": TextEnded,
    "wanted": ResyncRequested,
    "grown": LogAppended,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_NUMBERS = frozenset({"offset", "turn"})
# Generated ids contain nothing else. Messages on the bus are untrusted.
_IDENTITY = re.compile("[!-~]{1,64}")


def encode_message(signal: BusMessage) -> bytes:
    """Encode a message as one line."""
    return orjson.dumps([_NAMES[type(signal)], *(getattr(signal, name) for name in signal.__slots__)])


def decode_message(line: bytes) -> BusMessage | None:
    """Decode a message; None if unknown: another version of Interlock may send more kinds."""
    try:
        name, *fields = orjson.loads(line)
        kind = _KINDS[name]
        signal = kind(*fields)
    except (ValueError, TypeError, KeyError):
        return None
    return signal if all(_fits(field, getattr(signal, field)) for field in kind.__slots__) else None


def _fits(field: str, value: object) -> bool:
    if field in _NUMBERS:
        return type(value) is int and value >= 0
    return isinstance(value, str) and (field == "text" or _IDENTITY.fullmatch(value) is not None)


class Bus(Protocol):
    """A transport. `send` and `hear` run on one event loop. A process does not receive its own messages."""

    @property
    def has_others(self) -> bool:
        """Whether other processes may receive messages. Thread-safe."""

    def send(self, signal: BusMessage) -> None:
        """Send a message. Never waits and never fails; what cannot be sent is dropped."""

    def watch(self, session_id: str) -> None:
        """Receive this session's `TextAppended`, `TextEnded` and `LogAppended` from now on.

        The process that runs its task sends the whole text so far. Unwatched sessions may be received or
        not.
        """

    def unwatch(self, session_id: str) -> None: ...

    async def run(self, hear: BusHandler, has_room: Callable[[], bool]) -> None:
        """Run until cancelled, through every loss of the connection.

        `has_room` says whether this process could work on another session: a bus that delivers each
        notification to one process asks it first.
        """
