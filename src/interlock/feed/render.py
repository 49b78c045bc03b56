"""Renders the log of a session as feed items: the same for live subscribers and for later readers.

Every event has at least one.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NotRequired, TypedDict

import orjson

from interlock.agent.events import shown_arguments
from interlock.core.errors import ErrorClass, ErrorCode
from interlock.feed.entries import EntryMessage, LogEntry, TaskEndCode
from interlock.sessions.models import Role
from interlock.sessions.transcript import is_subtask


class FeedItemType(StrEnum):
    stream_chunk = "stream_chunk"
    tool_call = "tool_call"
    tool_result = "tool_result"
    tool_denied = "tool_denied"
    ask_user = "ask_user"
    error = "error"
    event = "event"


class StreamChunk(TypedDict):
    """Text of the running answer: it replaces everything from `offset` on. The last one has `time_us`."""

    content: str
    done: bool
    task_id: str | None
    offset: int
    time_us: NotRequired[int]


class ToolCallData(TypedDict):
    """`tool_name` is the tool's own; `called_as` is set if the model used an alias."""

    tool_name: str
    arguments: dict[str, Any] | str
    call_id: str
    task_id: str | None
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
    StreamChunk | ToolCallData | ToolResultData | ToolDeniedData | AskUserData | ErrorData | EventData
)

FEED_ITEM_DATA_TYPES: dict[FeedItemType, type[Any]] = {
    FeedItemType.stream_chunk: StreamChunk,
    FeedItemType.tool_call: ToolCallData,
    FeedItemType.tool_result: ToolResultData,
    FeedItemType.tool_denied: ToolDeniedData,
    FeedItemType.ask_user: AskUserData,
    FeedItemType.error: ErrorData,
    FeedItemType.event: EventData,
}

FeedItem = tuple[FeedItemType, FeedItemData]


def render_entry(entry: LogEntry, shown: str) -> Iterator[FeedItem]:
    said, task = entry.message, entry.header.task
    if entry.is_erased or is_subtask(task):
        # Messages between two agents are no part of the conversation; the tree shows them.
        yield FeedItemType.event, event_data(entry)
        return
    match entry.kind:
        case "message.appended" if said is not None and said.role == Role.assistant:
            yield from _answer_pieces(said, task, shown)
        case "message.appended" if said is not None and said.role == Role.tool:
            yield _result_piece(entry, said)
        case "tool_call.denied":
            yield FeedItemType.tool_denied, _denial(entry.payload)
        case "ask_user.asked":
            yield FeedItemType.ask_user, _question(entry)
        case "task.finished" if entry.payload.get("status") == "done":
            ended = make_stream_chunk("", 0, task, done=True)
            ended["time_us"] = entry.header.time_us
            yield FeedItemType.stream_chunk, ended
        case "task.finished":
            yield _ended(entry, entry.code, entry.payload.get("reason") or "the task failed")
        case "task.cancelled":
            yield _ended(entry, TaskEndCode.CANCELLED, _cancelled_sentence(entry.payload))
        case _:
            yield FeedItemType.event, event_data(entry)


def _cancelled_sentence(payload: Mapping[str, Any]) -> str:
    """The actor, and the reason. Names of actors have no space after a colon, so the page can split it."""
    sentence = f"cancelled by {payload.get('who', '')}".strip()
    return f"{sentence}: {payload['reason']}" if payload.get("reason") else sentence


def _ended(entry: LogEntry, code: TaskEndCode, sentence: str) -> FeedItem:
    """A task's end without an answer."""
    header = entry.header
    data: ErrorData = {
        "code": code.value,
        "message": sentence,
        "task_id": header.task,
        "time_us": header.time_us,
    }
    return FeedItemType.error, data


def _answer_pieces(said: EntryMessage, task: str | None, shown: str) -> Sequence[FeedItem]:
    """The part of the text that was not sent yet; if other text was sent, all of it."""
    offset = len(shown) if said.content.startswith(shown) else 0
    pieces: list[FeedItem] = []
    if said.content or shown or not said.tool_calls:
        pieces.append((FeedItemType.stream_chunk, make_stream_chunk(said.content[offset:], offset, task)))
    for call in said.tool_calls:
        arguments = shown_arguments(str(call["arguments"]))
        data: ToolCallData = {
            "tool_name": str(call["name"]),
            "arguments": arguments,
            "call_id": str(call["id"]),
            "task_id": task,
        }
        if "called_as" in call:
            data["called_as"] = str(call["called_as"])
        pieces.append((FeedItemType.tool_call, data))
    return pieces


def _result_piece(entry: LogEntry, said: EntryMessage) -> FeedItem:
    envelope = _envelope(said.content)
    if _is_denial(str(envelope.get("error_code", ""))):
        # The denial has an event of its own.
        return FeedItemType.event, event_data(entry)
    data: ToolResultData = {
        "tool_name": said.tool_name,
        "call_id": said.tool_call_id,
        "result": envelope,
        "task_id": entry.header.task,
    }
    return FeedItemType.tool_result, data


def _envelope(content: str) -> dict[str, Any]:
    try:
        decoded = orjson.loads(content or "{}")
    except orjson.JSONDecodeError:
        decoded = None
    if isinstance(decoded, dict) and "ok" in decoded:
        return decoded
    # A person's answer is the result by itself.
    return {"ok": True, "stdout": content}


def _is_denial(code: str) -> bool:
    return code in ErrorCode.__members__ and ErrorCode(code).error_class is ErrorClass.policy


def _denial(payload: dict[str, Any]) -> ToolDeniedData:
    """Six fields, with a value in each of them whatever the row has."""
    data: ToolDeniedData = {
        "call_id": str(payload.get("call_id") or "unknown"),
        "tool_name": str(payload.get("tool_name") or "unknown"),
        "mode": str(payload.get("mode") or "unknown"),
        "error_code": str(payload.get("error_code") or "unknown"),
        "message": str(payload.get("error") or "refused"),
        "next_action": str(payload.get("next_action") or "Continue without it."),
    }
    if (requested := payload.get("requested_name")) and requested != data["tool_name"]:
        data["called_as"] = str(requested)
    return data


def _question(entry: LogEntry) -> AskUserData:
    payload = entry.payload
    return {
        "question_id": str(payload.get("question_id", "")),
        "call_id": str(payload.get("call_id", "")),
        "task_id": entry.header.task,
        "question": payload.get("question") or {},
    }


def make_stream_chunk(content: str, offset: int, task: str | None, *, done: bool = False) -> StreamChunk:
    return {"content": content, "done": done, "task_id": task, "offset": offset}


def event_data(entry: LogEntry) -> EventData:
    header = entry.header
    data: EventData = {
        "kind": header.kind,
        "time_us": header.time_us,
        "task_id": header.task,
        "event_id": header.id,
        "parent": header.parent,
        "payload": entry.payload,
    }
    if entry.message is not None:
        data["message"] = {"role": entry.message.role, "content": entry.message.content}
    return data
