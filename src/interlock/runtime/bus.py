"""How processes hear of one another: when to look, and what is being said right now.

Nothing depends on it. Whatever goes over a wire may be lost, late or doubled: what there is to do and what
was said stand in the store, and whoever hears nothing looks by itself every second or so. Without a wire
(one process, or PostgreSQL alone) everything works, only later.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import orjson


@dataclass(frozen=True, slots=True)
class WorkAvailable:
    """There may be work in this session, or some of it is to stop."""

    session_id: str


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """For who holds this session alone: something of it may be to stop."""

    session_id: str


@dataclass(frozen=True, slots=True)
class TextAppended:
    """Text of a running answer, before it is stored. `offset` is where in the turn's text it begins."""

    session_id: str
    task_id: str
    turn: int
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class TextEnded:
    """The running answer of this session is over: the log has it, or nobody gives it any more."""

    session_id: str
    task_id: str


@dataclass(frozen=True, slots=True)
class ResyncRequested:
    """Somebody missed the beginning of this session's running answer; whoever gives it, tell it whole."""

    session_id: str


@dataclass(frozen=True, slots=True)
class LogAppended:
    """The log of this session has more than before."""

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
# No id that is given out has anything else in it. What a wire brings may come from anybody who is on it.
_IDENTITY = re.compile("[!-~]{1,64}")


def encode_message(signal: BusMessage) -> bytes:
    """On one line."""
    return orjson.dumps([_NAMES[type(signal)], *(getattr(signal, name) for name in signal.__slots__)])


def decode_message(line: bytes) -> BusMessage | None:
    """None for what is no signal: another version of Interlock may say more."""
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
    """`send` and `hear` are used on one event loop. A process does not hear what it sent itself."""

    @property
    def has_others(self) -> bool:
        """Whether anybody might hear; may be asked in any thread."""

    def send(self, signal: BusMessage) -> None:
        """Never waits and never fails; what cannot be sent is dropped."""

    def watch(self, session_id: str) -> None:
        """Receive this session's `TextAppended`, `TextEnded` and `LogAppended` from now on; the process
        that runs a task sends the whole text so far. What is not watched may be heard or not.
        """

    def unwatch(self, session_id: str) -> None: ...

    async def run(self, hear: BusHandler, has_room: Callable[[], bool]) -> None:
        """Until it is cancelled, through every loss of the connection.

        `has_room` says whether this process could take up another session: a wire that hands each ring to
        one process alone asks it before it takes one.
        """
