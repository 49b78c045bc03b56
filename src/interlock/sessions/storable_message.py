"""A message before it is stored: redacted once, and written as an event."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from interlock.core.errors import SessionNotFound
from interlock.core.text import sanitize_text
from interlock.db.driver import DbConnection
from interlock.log.kinds import MessageAppended
from interlock.log.stream_appender import NO_SCOPE, EventScope
from interlock.log.writer import Transaction
from interlock.models.provider import Reasoning
from interlock.redaction.redactor import Redactor
from interlock.sessions.models import Message, Role

IS_THERE = "SELECT 1 FROM sessions WHERE id = ? AND deleted_us IS NULL"


@dataclass(frozen=True, slots=True)
class StorableMessage:
    """Redacted and storable: it is read back exactly as drafted."""

    role: Role
    content: str
    tool_calls: list[dict[str, Any]] | None
    tool_call_id: str | None
    redacted: bool
    reasoning: Reasoning | None = None

    def write(self, transaction: Transaction, scope: EventScope = NO_SCOPE) -> Message:
        """Record it within a transaction on the session's stream."""
        recorded = transaction.record(self.event(), scope)
        return self.message(recorded.seq, recorded.time_us)

    def message(self, seq: int = 0, time_us: int = 0) -> Message:
        """As it will be read back; before it is written it has no number."""
        return Message(
            *(seq, self.role, self.content, time_us),
            *(self.tool_calls, self.tool_call_id, self.reasoning),
        )

    def reasoning_fields(self) -> dict[str, str] | None:
        """As an event stores it."""
        thought = self.reasoning
        if thought is None:
            return None
        return {"text": thought.text, "model": thought.model, "opaque": thought.opaque}

    def event(self) -> MessageAppended:
        return MessageAppended(
            role=self.role.value,
            content=self.content,
            tool_calls=self.tool_calls,
            tool_call_id=self.tool_call_id,
            redacted=self.redacted,
        )


def make_storable(
    redactor: Redactor,
    role: Role,
    content: str,
    *,
    tool_calls: Sequence[dict[str, Any]] | None = None,
    tool_call_id: str | None = None,
    reasoning: Reasoning | None = None,
) -> StorableMessage:
    given = sanitize_text(content)
    thought = _redacted_reasoning(redactor, reasoning) if reasoning else None
    text = _result_text(redactor, given) if role is Role.tool else redactor.text(given)
    calls = redactor.checked(list(tool_calls)) if tool_calls else None
    return StorableMessage(
        role=role,
        content=text,
        tool_calls=calls.value if calls else None,
        tool_call_id=redactor.text(sanitize_text(tool_call_id)) if tool_call_id else None,
        redacted=text != given or (calls is not None and calls.changed) or thought != reasoning,
        reasoning=thought,
    )


def _redacted_reasoning(redactor: Redactor, reasoning: Reasoning) -> Reasoning:
    """A provider verifies its signature over the text that it wrote: with another text it is void."""
    text, opaque = redactor.text(sanitize_text(reasoning.text)), reasoning.opaque
    is_same = text == reasoning.text and redactor.text(opaque) == opaque
    return replace(reasoning, text=text, opaque=opaque if is_same else "")


def _result_text(redactor: Redactor, content: str) -> str:
    """Redact a result as a structure, so that it stays valid JSON: in its JSON text a quote that is never
    closed would mask everything behind it."""
    try:
        result = orjson.loads(content)
    except orjson.JSONDecodeError:
        return redactor.text(content)
    if not isinstance(result, dict):
        return redactor.text(content)
    safe = redactor.checked(result)
    return orjson.dumps(safe.value).decode() if safe.changed else content


def require_session(connection: DbConnection, session_id: str) -> None:
    if not connection.query(IS_THERE, (session_id,)):
        raise SessionNotFound(f"there is no session {session_id}")
