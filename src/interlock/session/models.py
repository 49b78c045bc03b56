"""What a session and a message are to everybody above the store."""

from enum import StrEnum
from typing import Any

from interlock.infra.records import dataclass
from interlock.store.driver import Row


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


def session_of(row: Row) -> Session:
    """From the columns of `SessionManager`'s statements."""
    identity, kind, title, mode, opened_by, created_us, updated_us, seq, archived_us, agent, model = row
    return Session(
        *(identity, kind, title, mode, opened_by),
        *(created_us, updated_us, seq, archived_us is not None),
        *(agent, model),
    )


@dataclass(frozen=True, slots=True)
class Message:
    seq: int
    role: Role
    content: str
    time_us: int
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
