"""The log of a session, read with all it takes to tell it."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import orjson

from interlock.agent.limits import LIMIT_NAMES
from interlock.events.catalog import merged
from interlock.events.chain import Header
from interlock.infra.records import dataclass
from interlock.models.provider import ModelFault
from interlock.session.models import Role
from interlock.store.driver import Connection, Row

_COLUMNS = """
    e.id, e.time_us, e.stream, e.seq, e.task, e.parent, e.kind, e.facts, e.content,
    e.content IS NULL AND e.content_hash IS NOT NULL, m.role, m.content, m.tool_calls, m.tool_call_id
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
SELECT facts FROM events WHERE stream = ? AND task = ? AND seq < ? AND kind = 'agent.failed'
ORDER BY seq DESC LIMIT 1
"""

LAST = 2**62


class EndCode(StrEnum):
    """Why a task ended without an answer."""

    LLM_ERROR = "LLM_ERROR"
    LIMIT_REACHED = "LIMIT_REACHED"
    CANCELLED = "CANCELLED"
    TASK_FAILED = "TASK_FAILED"


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
    code: EndCode = EndCode.TASK_FAILED
    # Its content was erased: `payload` has its facts alone.
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
    header, payload = Header(*row[:7]), merged(row[7], row[8])
    message = None if row[11] is None else _message(connection, header, row)
    code = EndCode.TASK_FAILED
    if header.kind == "task.finished" and payload.get("status") == "failed":
        code = _what_ended(connection, header)
    return Told(header, payload, message, code, is_erased=bool(row[9]))


def _message(connection: Connection, header: Header, row: Row) -> SaidMessage:
    role, content, calls, call_id = row[10:14]
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


def _what_ended(connection: Connection, header: Header) -> EndCode:
    rows = connection.query(ENDED_BY, (header.stream, header.task, header.seq))
    fault = merged(rows[0][0], None).get("error_class") if rows else None
    if fault in LIMIT_NAMES:
        return EndCode.LIMIT_REACHED
    is_models = fault in ModelFault.__members__ or fault == "content_filter"
    return EndCode.LLM_ERROR if is_models else EndCode.TASK_FAILED
