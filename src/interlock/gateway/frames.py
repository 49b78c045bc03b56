"""What the log of a session tells, as frames: the same for who is there now and for who comes later.

Every event brings at least one frame, and the last one that it brings carries its number.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from interlock.agent.events import shown_arguments
from interlock.events.chain import Header
from interlock.gateway.protocol import (
    AskUserData,
    Code,
    ErrorData,
    EventData,
    Frame,
    FrameType,
    SessionData,
    StreamChunk,
    ToolCallData,
    ToolDeniedData,
    ToolResultData,
    make_frame,
)
from interlock.infra.errors import ErrorClass, ErrorCode
from interlock.models.provider import ModelFault
from interlock.session.models import Role
from interlock.store.driver import Connection, Row

_COLUMNS = """
    e.id, e.time_us, e.stream, e.seq, e.task, e.parent, e.kind, e.payload,
    m.role, m.content, m.tool_calls, m.tool_call_id
"""
READ_AFTER = f"""
SELECT {_COLUMNS} FROM events e LEFT JOIN messages m ON m.session_id = e.stream AND m.seq = e.seq
WHERE e.stream = ? AND e.seq > ? AND e.seq <= ? ORDER BY e.seq LIMIT ?
"""  # noqa: S608 - the columns are a constant
HEAD = "SELECT seq FROM stream_heads WHERE stream = ?"
CALLS_BEFORE = """
SELECT tool_calls FROM messages
WHERE session_id = ? AND seq < ? AND role = 'assistant' AND tool_calls IS NOT NULL ORDER BY seq DESC LIMIT 5
"""
ENDED_BY = """
SELECT kind, payload FROM events WHERE stream = ? AND task = ? AND seq < ?
    AND kind IN ('agent.failed', 'control.limit_reached', 'progress.stalled')
ORDER BY seq DESC LIMIT 2
"""

LAST = 2**62


@dataclass(frozen=True, slots=True)
class SaidMessage:
    role: str
    content: str
    tool_calls: list[dict[str, Any]]
    tool_call_id: str | None
    # The tool that a result is of.
    tool_name: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """One event of a session, and what it takes to tell it."""

    header: Header
    payload: dict[str, Any]
    message: SaidMessage | None = None
    # For a task that failed: the code of what ended it.
    code: Code = Code.TASK_FAILED
    # What it told is gone; that it was there is all that can be said.
    is_erased: bool = False

    @property
    def seq(self) -> int:
        return self.header.seq

    @property
    def kind(self) -> str:
        return self.header.kind


def read_head(connection: Connection, session_id: str) -> int:
    rows = connection.query(HEAD, (session_id,))
    return int(rows[0][0]) if rows else 0


def read_heads(connection: Connection, session_ids: Sequence[str]) -> list[tuple[str, int]]:
    places = ", ".join("?" for _ in session_ids)
    sql = f"SELECT stream, seq FROM stream_heads WHERE stream IN ({places})"  # noqa: S608 - only marks
    return [(str(stream), int(seq)) for stream, seq in connection.query(sql, tuple(session_ids))]


def read_told(
    connection: Connection, session_id: str, *, after: int, through: int = LAST, limit: int
) -> list[Told]:
    rows = connection.query(READ_AFTER, (session_id, after, through, limit))
    return [_told(connection, row) for row in rows]


def _told(connection: Connection, row: Row) -> Told:
    header, payload = Header(*row[:7]), _decoded(row[7])
    message = None if row[9] is None else _message(connection, header, row)
    code = Code.TASK_FAILED
    if header.kind == "task.finished" and payload.get("status") == "failed":
        code = _what_ended(connection, header)
    return Told(header, payload, message, code, is_erased=row[7] is None)


def _message(connection: Connection, header: Header, row: Row) -> SaidMessage:
    role, content, calls, call_id = row[8:12]
    name = ""
    if role == Role.tool:
        name = _name_of_call(connection, header, call_id or "")
    return SaidMessage(role, content, orjson.loads(calls) if calls else [], call_id, name)


def _name_of_call(connection: Connection, header: Header, call_id: str) -> str:
    for (calls,) in connection.query(CALLS_BEFORE, (header.stream, header.seq)):
        for call in orjson.loads(calls):
            if call["id"] == call_id:
                return str(call["name"])
    return "unknown"


def _what_ended(connection: Connection, header: Header) -> Code:
    rows = connection.query(ENDED_BY, (header.stream, header.task, header.seq))
    if any(kind != "agent.failed" for kind, _ in rows):
        return Code.LIMIT_REACHED
    faults = {_decoded(payload).get("error_class") for _, payload in rows}
    is_models = any(fault in ModelFault.__members__ or fault == "content_filter" for fault in faults)
    return Code.LLM_ERROR if is_models else Code.TASK_FAILED


def _decoded(text: str | None) -> dict[str, Any]:
    try:
        value = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def frames_of(told: Told, shown: str = "") -> list[Frame]:
    """`shown` is the part of the running answer that was sent before it was stored."""
    pieces = list(_pieces(told, shown))
    session_id, task, last = told.header.stream, told.header.task, len(pieces) - 1
    return [
        make_frame(kind, data, session_id=session_id, seq=told.seq if place == last else None, task_id=task)
        for place, (kind, data) in enumerate(pieces)
    ]


Piece = tuple[FrameType, SessionData]


def _pieces(told: Told, shown: str) -> Iterator[Piece]:
    said, task = told.message, told.header.task
    if told.is_erased:
        yield FrameType.event, event_data(told)
        return
    match told.kind:
        case "message.appended" if said is not None and said.role == Role.assistant:
            yield from _answer_pieces(said, task, shown)
        case "message.appended" if said is not None and said.role == Role.tool:
            yield _result_piece(told, said)
        case "tool_call.denied":
            yield FrameType.tool_denied, _denial(told.payload)
        case "ask_user.asked":
            yield FrameType.ask_user, _question(told)
        case "task.finished" if told.payload.get("status") == "done":
            ended = _chunk("", 0, task, done=True)
            ended["time_us"] = told.header.time_us
            yield FrameType.stream_chunk, ended
        case "task.finished":
            yield _ended(told, told.code, told.payload.get("reason") or "the task failed")
        case "task.cancelled":
            yield _ended(told, Code.CANCELLED, f"cancelled by {told.payload.get('who', '')}".strip())
        case _:
            yield FrameType.event, event_data(told)


def _ended(told: Told, code: Code, sentence: str) -> Piece:
    """A task's end without an answer."""
    header = told.header
    data: ErrorData = {
        "code": code.value,
        "message": sentence,
        "task_id": header.task,
        "time_us": header.time_us,
    }
    return FrameType.error, data


def _answer_pieces(said: SaidMessage, task: str | None, shown: str) -> Sequence[Piece]:
    """What of the text was not sent yet; where something else was sent, all of it."""
    offset = len(shown) if said.content.startswith(shown) else 0
    pieces: list[Piece] = []
    if said.content or shown or not said.tool_calls:
        pieces.append((FrameType.stream_chunk, _chunk(said.content[offset:], offset, task)))
    for call in said.tool_calls:
        arguments = shown_arguments(str(call["arguments"]))
        data: ToolCallData = {
            "tool_name": str(call["name"]),
            "arguments": arguments,
            "call_id": str(call["id"]),
            "task_id": task,
        }
        pieces.append((FrameType.tool_call, data))
    return pieces


def _result_piece(told: Told, said: SaidMessage) -> Piece:
    envelope = _envelope(said.content)
    if _is_denial(str(envelope.get("error_code", ""))):
        # The denial itself was told by its own event.
        return FrameType.event, event_data(told)
    data: ToolResultData = {
        "tool_name": said.tool_name,
        "call_id": said.tool_call_id,
        "result": envelope,
        "task_id": told.header.task,
    }
    return FrameType.tool_result, data


def _envelope(content: str) -> dict[str, Any]:
    try:
        decoded = orjson.loads(content or "{}")
    except orjson.JSONDecodeError:
        decoded = None
    if isinstance(decoded, dict) and "ok" in decoded:
        return decoded
    # An answer of a person is the result by itself.
    return {"ok": True, "stdout": content}


def _is_denial(code: str) -> bool:
    return code in ErrorCode.__members__ and ErrorCode(code).error_class is ErrorClass.policy


def _denial(payload: dict[str, Any]) -> ToolDeniedData:
    """Six fields, and something in each of them whatever the row says."""
    return {
        "call_id": str(payload.get("call_id") or "unknown"),
        "tool_name": str(payload.get("tool_name") or "unknown"),
        "mode": str(payload.get("mode") or "unknown"),
        "error_code": str(payload.get("error_code") or "unknown"),
        "message": str(payload.get("error") or "refused"),
        "next_action": str(payload.get("next_action") or "Go on without it."),
    }


def _question(told: Told) -> AskUserData:
    payload = told.payload
    return {
        "question_id": str(payload.get("question_id", "")),
        "call_id": str(payload.get("call_id", "")),
        "task_id": told.header.task,
        "question": payload.get("question") or {},
    }


def _chunk(content: str, offset: int, task: str | None, *, done: bool = False) -> StreamChunk:
    return {"content": content, "done": done, "task_id": task, "offset": offset}


def live_frame(session_id: str, task_id: str, offset: int, text: str) -> Frame:
    """Text that is not stored yet."""
    data = _chunk(text, offset, task_id)
    return make_frame(FrameType.stream_chunk, data, session_id=session_id, task_id=task_id)


def event_data(told: Told) -> EventData:
    header = told.header
    data: EventData = {
        "kind": header.kind,
        "time_us": header.time_us,
        "task_id": header.task,
        "event_id": header.id,
        "parent": header.parent,
        "payload": told.payload,
    }
    if told.message is not None:
        data["message"] = {"role": told.message.role, "content": told.message.content}
    return data
