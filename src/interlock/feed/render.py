"""Renders the log of a session as feed items: the same for live subscribers and for later readers.

Every event has at least one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from interlock.agent.events import shown_arguments
from interlock.feed.entries import EntryMessage, LogEntry, TaskEndCode
from interlock.feed.frames import (
    AskUserData,
    ErrorData,
    EventData,
    FeedItem,
    FeedItemData,
    FeedItemType,
    ReasoningChunk,
    StreamChunk,
    ToolCallData,
    ToolDeniedData,
    ToolResultData,
)
from interlock.sessions.models import Role
from interlock.sessions.transcript import is_subtask

_Part = tuple[FeedItemType, FeedItemData]


def render_entry(entry: LogEntry, shown: str = "") -> list[FeedItem]:
    """`shown` is the part of the answer that was published before it was stored."""
    parts, task, seq = list(_parts(entry, shown)), entry.header.task, entry.seq
    last = len(parts) - 1
    return [
        FeedItem(kind, data, task, seq, is_last=place == last) for place, (kind, data) in enumerate(parts)
    ]


def render_text(task_id: str, turn: int, offset: int, text: str) -> FeedItem:
    """Text that is not stored yet."""
    return FeedItem(FeedItemType.stream_chunk, _stream_chunk(text, turn, offset, task_id), task_id)


def render_reasoning(task_id: str, turn: int, offset: int, text: str, duration_ms: int | None) -> FeedItem:
    """Reasoning that is not stored yet."""
    data: ReasoningChunk = {
        "content": text,
        "task_id": task_id,
        "turn": turn,
        "offset": offset,
        "duration_ms": duration_ms,
    }
    return FeedItem(FeedItemType.reasoning_chunk, data, task_id)


def _parts(entry: LogEntry, shown: str) -> Iterator[_Part]:
    said, task = entry.message, entry.header.task
    if entry.is_erased or is_subtask(task):
        # Messages between two agents are no part of the conversation; the tree shows them.
        yield FeedItemType.event, event_data(entry)
        return
    if said is not None and entry.kind in {"turn.completed", "tool_call.completed", "tool_call.failed"}:
        yield FeedItemType.event, event_data(entry)
    match entry.kind:
        case "tool_call.denied":
            yield FeedItemType.tool_denied, _denial(entry.payload)
        case "ask_user.asked":
            yield FeedItemType.ask_user, _question(entry)
        case "task.finished" if entry.payload.get("status") == "done":
            ended = _stream_chunk("", 0, 0, task, done=True)
            ended["time_us"] = entry.header.time_us
            yield FeedItemType.stream_chunk, ended
        case "task.finished":
            yield _ended(entry, entry.code, entry.payload.get("reason") or "the task failed")
        case "task.cancelled":
            yield _ended(entry, TaskEndCode.CANCELLED, _cancelled_sentence(entry.payload))
        case _ if said is not None and said.role == Role.assistant:
            yield from _answer_parts(said, task, shown)
        case _ if said is not None and said.role == Role.tool:
            yield _result_part(entry, said)
        case _:
            yield FeedItemType.event, event_data(entry)


def _cancelled_sentence(payload: Mapping[str, Any]) -> str:
    """The actor, and the reason. Names of actors have no space after a colon, so the page can split it."""
    sentence = f"cancelled by {payload.get('who', '')}".strip()
    return f"{sentence}: {payload['reason']}" if payload.get("reason") else sentence


def _ended(entry: LogEntry, code: TaskEndCode, sentence: str) -> _Part:
    """A task's end without an answer."""
    header = entry.header
    data: ErrorData = {
        "code": code.value,
        "message": sentence,
        "task_id": header.task,
        "time_us": header.time_us,
    }
    return FeedItemType.error, data


def _answer_parts(said: EntryMessage, task: str | None, shown: str) -> Sequence[_Part]:
    """The part of the text that was not sent yet; if other text was sent, all of it."""
    offset = len(shown) if said.content.startswith(shown) else 0
    parts: list[_Part] = []
    if said.content or shown or not said.tool_calls:
        chunk = _stream_chunk(said.content[offset:], said.turn, offset, task)
        parts.append((FeedItemType.stream_chunk, chunk))
    for call in said.tool_calls:
        arguments = shown_arguments(str(call["arguments"]))
        data: ToolCallData = {
            "tool_name": str(call["name"]),
            "arguments": arguments,
            "call_id": str(call["id"]),
            "task_id": task,
            "turn": said.turn,
        }
        if "called_as" in call:
            data["called_as"] = str(call["called_as"])
        parts.append((FeedItemType.tool_call, data))
    return parts


def _result_part(entry: LogEntry, said: EntryMessage) -> _Part:
    if said.replaces_outcome:
        # The outcome was shown with its own result.
        return FeedItemType.event, event_data(entry)
    data: ToolResultData = {
        "tool_name": said.tool_name,
        "call_id": said.tool_call_id,
        "result": _envelope(said.content),
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


def _stream_chunk(
    content: str, turn: int, offset: int, task: str | None, *, done: bool = False
) -> StreamChunk:
    return {"content": content, "done": done, "task_id": task, "turn": turn, "offset": offset}


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
    if entry.message is not None and entry.kind in {"message.appended", "task.steered"}:
        data["message"] = {"role": entry.message.role, "content": entry.message.content}
    return data
