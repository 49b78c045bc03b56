"""What front ends show: items, each with the data of a frame. One typed dictionary for each frame type."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NotRequired, TypedDict


class FeedItemType(StrEnum):
    stream_chunk = "stream_chunk"
    reasoning_chunk = "reasoning_chunk"
    tool_call = "tool_call"
    tool_result = "tool_result"
    tool_denied = "tool_denied"
    ask_user = "ask_user"
    error = "error"
    event = "event"


class StreamChunk(TypedDict):
    """Text of a turn's answer: it replaces everything from `offset` on.

    The last one of a task has `time_us`, and turn 0.
    """

    content: str
    done: bool
    task_id: str | None
    turn: int
    offset: int
    time_us: NotRequired[int]


class ReasoningChunk(TypedDict):
    """What the model reasons before a turn's answer, live: it replaces everything from `offset` on.

    `turn.completed` has all of it once it is stored. `duration_ms` is null while it goes on.
    """

    content: str
    task_id: str
    turn: int
    offset: int
    duration_ms: int | None


class ToolCallData(TypedDict):
    """`tool_name` is the tool's own; `called_as` is set if the model used an alias."""

    tool_name: str
    arguments: dict[str, Any] | str
    call_id: str
    task_id: str | None
    turn: int
    called_as: NotRequired[str]


class ToolResultData(TypedDict):
    tool_name: str
    call_id: str | None
    result: dict[str, Any]
    task_id: str | None


class ToolDeniedData(TypedDict):
    """Six fields, none of them empty; `called_as` only if the model used an alias."""

    call_id: str
    tool_name: str
    mode: str
    error_code: str
    message: str
    next_action: str
    called_as: NotRequired[str]


class AskUserData(TypedDict):
    question_id: str
    call_id: str
    task_id: str | None
    question: dict[str, Any]


class ErrorData(TypedDict):
    """Of a request, or of a task that ended without an answer: then with its id and time."""

    code: str
    message: str
    task_id: NotRequired[str | None]
    time_us: NotRequired[int]


class MessageData(TypedDict):
    role: str
    content: str


class EventData(TypedDict):
    """Every other event of the log; an appended message comes with its content."""

    kind: str
    time_us: int
    task_id: str | None
    event_id: str
    parent: str | None
    payload: dict[str, Any]
    message: NotRequired[MessageData]


FeedItemData = (
    StreamChunk
    | ReasoningChunk
    | ToolCallData
    | ToolResultData
    | ToolDeniedData
    | AskUserData
    | ErrorData
    | EventData
)

FEED_ITEM_DATA_TYPES: dict[FeedItemType, type[Any]] = {
    FeedItemType.stream_chunk: StreamChunk,
    FeedItemType.reasoning_chunk: ReasoningChunk,
    FeedItemType.tool_call: ToolCallData,
    FeedItemType.tool_result: ToolResultData,
    FeedItemType.tool_denied: ToolDeniedData,
    FeedItemType.ask_user: AskUserData,
    FeedItemType.error: ErrorData,
    FeedItemType.event: EventData,
}


@dataclass(frozen=True, slots=True)
class FeedItem:
    """A part of an entry of the log, or text that is not stored yet: that has no number."""

    type: FeedItemType
    data: FeedItemData
    task_id: str | None
    seq: int | None = None
    # Everything of its entry came before it.
    is_last: bool = False
