"""What a session and a message are to everybody above the store."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class SessionKind(StrEnum):
    """What the conversation is for. It shapes the prompt and is never a permission."""

    chat = "chat"
    agent = "agent"
    run = "run"


class Role(StrEnum):
    user = "user"
    assistant = "assistant"
    tool = "tool"


@dataclass(frozen=True, slots=True)
class Session:
    """`stored_mode` is what the row says; what counts is `SessionManager.get_mode`."""

    id: str
    kind: str
    title: str
    stored_mode: str
    opened_by: str
    created_us: int
    updated_us: int
    last_seq: int
    archived: bool
    # The agent whose session it is; the model that a person chose for it.
    agent: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    seq: int
    role: Role
    content: str
    time_us: int
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
