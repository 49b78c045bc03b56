"""The entries of a session's log, with everything needed to render them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import orjson

from interlock.agent.limits import LIMIT_NAMES
from interlock.db.driver import DbConnection, Row
from interlock.log.event import IS_MILESTONE
from interlock.log.hash_chain import EventHeader
from interlock.log.kinds import MESSAGE_KINDS, MessageAppended, merge_payload
from interlock.log.read import FROM_TASK
from interlock.log.stream_appender import AppendedEvent
from interlock.log.task_events import TaskSteered, TurnCompletedEvent
from interlock.models.provider import ModelFault
from interlock.sessions.models import Role
from interlock.sessions.transcript import read_message

READ_AFTER = """
SELECT id, time_us, stream, seq, task, parent, kind, facts, content,
    content IS NULL AND content_hash IS NOT NULL
FROM events WHERE stream = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?
"""
HEAD = "SELECT seq FROM stream_heads WHERE stream = ?"
# Back from a message to the beginning of its task.
CALLS_BEFORE = f"""
SELECT content FROM (
    SELECT stream AS of_stream, seq AS before_seq, min(coalesce((
        SELECT min(seq) FROM events WHERE stream = m.stream AND task = m.task AND {IS_MILESTONE}
        ), 0)) AS first_seq
    FROM events m WHERE stream = ? AND seq = ? GROUP BY stream, seq) AS span
CROSS JOIN events
WHERE stream = of_stream AND seq >= first_seq AND seq < before_seq
    AND kind = 'turn.completed' AND content LIKE '%"calls":[%'
ORDER BY seq DESC LIMIT 5
"""  # noqa: S608 - a constant
ENDED_BY = f"""
SELECT facts FROM events
WHERE stream = ? AND task = ? AND seq < ? AND kind = 'agent.failed' AND {IS_MILESTONE}
ORDER BY seq DESC LIMIT 1
"""  # noqa: S608 - a constant
TURN_BEFORE = f"SELECT facts {FROM_TASK} AND seq < ? AND kind = 'turn.completed' ORDER BY seq DESC LIMIT 1"

LAST = 2**62


class TaskEndCode(StrEnum):
    """Why a task ended without an answer."""

    LLM_ERROR = "LLM_ERROR"
    LIMIT_REACHED = "LIMIT_REACHED"
    CANCELLED = "CANCELLED"
    TASK_FAILED = "TASK_FAILED"


@dataclass(frozen=True, slots=True)
class EntryMessage:
    role: str
    content: str
    tool_calls: list[dict[str, Any]]
    tool_call_id: str | None
    # The tool of a result.
    tool_name: str = ""
    # The turn that an answer belongs to.
    turn: int = 0
    # For the model only: people were shown the result of the call's outcome.
    replaces_outcome: bool = False


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One event of a session, with the data to render it."""

    header: EventHeader
    payload: dict[str, Any]
    message: EntryMessage | None = None
    # For a failed task: why it ended.
    code: TaskEndCode = TaskEndCode.TASK_FAILED
    # The content was erased: `payload` has the facts alone.
    is_erased: bool = False

    @property
    def seq(self) -> int:
        return self.header.seq

    @property
    def kind(self) -> str:
        return self.header.kind


def read_head(connection: DbConnection, session_id: str) -> int:
    rows = connection.query(HEAD, (session_id,))
    return int(rows[0][0]) if rows else 0


def read_heads(connection: DbConnection, session_ids: Sequence[str]) -> list[tuple[str, int]]:
    places = ", ".join("?" for _ in session_ids)
    sql = f"SELECT stream, seq FROM stream_heads WHERE stream IN ({places})"  # noqa: S608 - only marks
    return [(str(stream), int(seq)) for stream, seq in connection.query(sql, tuple(session_ids))]


def read_entries(
    connection: DbConnection, session_id: str, *, after: int, through: int = LAST, limit: int
) -> list[LogEntry]:
    rows = connection.query(READ_AFTER, (session_id, after, through, limit))
    return [_entry_from_row(connection, row) for row in rows]


def entry_of_event(event: AppendedEvent) -> LogEntry | None:
    """The entry of an event that was just written; None if it takes a look at earlier events."""
    header, payload = EventHeader(*event[:7]), merge_payload(event.facts, event.content)
    if _takes_earlier_events(header.kind, payload):
        return None
    is_message = header.kind in MESSAGE_KINDS and event.content is not None
    return LogEntry(header, payload, _message(header, payload) if is_message else None)


def _takes_earlier_events(kind: str, payload: dict[str, Any]) -> bool:
    if kind == MessageAppended.kind:
        return bool(payload["role"] != Role.user)
    if kind == TaskSteered.kind:
        return True
    return kind == "task.finished" and bool(payload["status"] == "failed")


def _entry_from_row(connection: DbConnection, row: Row) -> LogEntry:
    header, payload = EventHeader(*row[:7]), merge_payload(row[7], row[8])
    message, code = None, TaskEndCode.TASK_FAILED
    if header.kind in MESSAGE_KINDS and row[8] is not None:
        message = _message(header, payload)
        if header.kind == MessageAppended.kind and message is not None:
            message = _with_earlier_events(connection, header, message)
    elif header.kind == TaskSteered.kind:
        said = read_message(connection, header.stream, payload["message_seq"])
        message = EntryMessage(Role.user, said.content, [], None) if said is not None else None
    elif header.kind == "task.finished" and payload.get("status") == "failed":
        code = _what_ended(connection, header)
    return LogEntry(header, payload, message, code, is_erased=bool(row[9]))


def _message(header: EventHeader, payload: dict[str, Any]) -> EntryMessage | None:
    """The message that an event appended. The payload keeps the facts: the rest is the message's."""
    if header.kind == TurnCompletedEvent.kind:
        said, calls = payload.pop("content", ""), payload.pop("calls", None) or []
        if isinstance(reasoning := payload.get("reasoning"), dict):
            # The part that only its provider can read.
            reasoning.pop("opaque", None)
        return EntryMessage(Role.assistant, said, calls, None, turn=payload["turn"])
    if header.kind != MessageAppended.kind:
        result = payload.pop("result", None)
        if result is None:
            return None
        content = orjson.dumps(result).decode()
        return EntryMessage(Role.tool, content, [], payload["call_id"], payload["tool_name"])
    content, calls = payload.pop("content"), payload.pop("tool_calls") or []
    replaces = bool(payload.pop("replaces_outcome", False))
    return EntryMessage(payload["role"], content, calls, payload["tool_call_id"], replaces_outcome=replaces)


def _with_earlier_events(
    connection: DbConnection, header: EventHeader, message: EntryMessage
) -> EntryMessage:
    """With the name of the tool whose result it is, or the turn of a text that no turn completed."""
    if message.role == Role.tool:
        name = _name_of_call(connection, header, message.tool_call_id or "")
        return replace(message, tool_name=name)
    if message.role != Role.assistant:
        return message
    turns = connection.query(TURN_BEFORE, (header.stream, header.task, header.seq))
    return replace(message, turn=merge_payload(turns[0][0], None)["turn"] + 1 if turns else 1)


def _name_of_call(connection: DbConnection, header: EventHeader, call_id: str) -> str:
    for (content,) in connection.query(CALLS_BEFORE, (header.stream, header.seq)):
        for call in merge_payload("{}", content)["calls"]:
            if call["id"] == call_id:
                return str(call["name"])
    return "unknown"


def _what_ended(connection: DbConnection, header: EventHeader) -> TaskEndCode:
    rows = connection.query(ENDED_BY, (header.stream, header.task, header.seq))
    fault = merge_payload(rows[0][0], None).get("error_class") if rows else None
    if fault in LIMIT_NAMES:
        return TaskEndCode.LIMIT_REACHED
    is_models = fault in ModelFault.__members__ or fault == "content_filter"
    return TaskEndCode.LLM_ERROR if is_models else TaskEndCode.TASK_FAILED
