"""Events of the agent loop, as frozen dataclasses. Front ends `match` on them.

Deltas of text are emitted before they are stored, as (turn, offset). Every other event is on disk first.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import orjson

CUT_OFF = "The model's answer was cut off because it reached the maximum length."
# Arguments nested deeper than this are passed on as text: not every reader could decode them.
MAX_DEPTH = 50


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A delta of the current answer, redacted. `offset` is its position in the turn's text."""

    turn: int
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A delta of what the model reasons before its answer, like `TextDelta`. The last has the time."""

    turn: int
    offset: int
    text: str
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ToolCallInfo:
    """The model requests a call. Its result follows under the same `call_id`.

    `called_as` is the name that the model used, if it is an alias of the tool.
    """

    call_id: str
    tool_name: str
    arguments: dict[str, Any] | str
    called_as: str = ""


@dataclass(frozen=True, slots=True)
class ToolDenied:
    """A policy denied the call, which did not run: exactly these six fields, none empty."""

    call_id: str
    tool_name: str
    mode: str
    error_code: str
    message: str
    next_action: str


@dataclass(frozen=True, slots=True)
class ToolResultInfo:
    call_id: str
    tool_name: str
    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolProgress:
    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class AskUser:
    """The task waits for a person's answer and ends here; the answer resumes it."""

    call_id: str
    question_id: str


@dataclass(frozen=True, slots=True)
class SteeringMessage:
    """The task got a message that a person sent meanwhile."""

    text: str


@dataclass(frozen=True, slots=True)
class RetryAnnounced:
    """The model request failed and will be repeated after so many seconds, or by another model at once."""

    delay_seconds: float
    sentence: str

    @classmethod
    def by_another(cls, error: str, model: str) -> Self:
        return cls(0, f"{error}; continuing with the model '{model}'")


@dataclass(frozen=True, slots=True)
class TurnCompleted:
    """One model call and all its tool calls are complete."""

    turn: int
    text: str
    tool_calls: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """The last event, unless a question is open. `sentence` says why, if the task is not done."""

    status: str
    sentence: str = ""
    # The limit that ended it, if any.
    limit: str = ""


AgentEvent = (
    TextDelta
    | ReasoningDelta
    | ToolCallInfo
    | ToolDenied
    | ToolResultInfo
    | ToolProgress
    | AskUser
    | SteeringMessage
    | RetryAnnounced
    | TurnCompleted
    | TaskEnded
)


Emit = Callable[[AgentEvent], None]


class EventQueue:
    """Passes events from the task that emits them to one reader."""

    def __init__(self) -> None:
        self._events: list[AgentEvent] = []
        self._is_closed = False
        # Waits for events, and for the reader to have taken them.
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None

    def emit(self, event: AgentEvent) -> None:
        self._events.append(event)
        self._wake_reader()

    def close(self, *_: object) -> None:
        self._is_closed = True
        self._wake_reader()

    async def take(self) -> list[AgentEvent]:
        """All events that were emitted since the last call, as soon as there is one; none after the end."""
        if not self._events and not self._is_closed:
            if self._writer is not None and not self._writer.done():
                self._writer.set_result(None)
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        events, self._events = self._events, []
        return events

    async def taken(self) -> None:
        """Wait until the reader has taken every event and asks for more."""
        if self._events or self._reader is None or self._reader.done():
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


def shown_arguments(arguments: str) -> dict[str, Any] | str:
    """A call's arguments for `ToolCallInfo`: decoded, or as the model wrote them."""
    try:
        decoded = orjson.loads(arguments or "{}")
    except orjson.JSONDecodeError:
        return arguments
    return decoded if isinstance(decoded, dict) and not is_deep(decoded) else arguments


def is_deep(value: dict[str, Any]) -> bool:
    """Whether it is nested too deeply to be passed on decoded."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        items = [item for each in level for item in (each.values() if isinstance(each, dict) else each)]
        level = [item for item in items if isinstance(item, dict | list)]
        if not level:
            return False
    return True
