"""Sessions and messages, as all layers above the store see them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from interlock.db.driver import Row
from interlock.models.provider import Reasoning

MAX_TITLE_FROM_WORDS = 60


class SessionKind(StrEnum):
    """What the session is for. It shapes the prompt and is never a permission."""

    chat = "chat"
    agent = "agent"
    run = "run"


class SessionListFilter(StrEnum):
    """Where a session is listed: with the chats, or with those of single commands."""

    chats = "chats"
    commands = "commands"
    all = "all"


# The values of `Session.opened_by` for a session that a single command created for itself.
EXEC, TOOL_CALL = "exec", "tool call"


class Role(StrEnum):
    user = "user"
    assistant = "assistant"
    tool = "tool"


@dataclass(frozen=True, slots=True)
class Session:
    """`stored_mode` is the row's value; the effective mode is `SessionManager.get_mode`."""

    id: str
    kind: str
    title: str
    stored_mode: str
    opened_by: str
    created_us: int
    updated_us: int
    last_seq: int
    archived: bool
    # The session's agent; the model that a person chose for it.
    agent: str | None = None
    model: str | None = None

    @property
    def group(self) -> SessionListFilter:
        return (
            SessionListFilter.commands if self.opened_by in {EXEC, TOOL_CALL} else SessionListFilter.chats
        )


def session_from_row(row: Row) -> Session:
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
    # An assistant's, if its model gave any.
    reasoning: Reasoning | None = None
    # A person's, given to a task at work: the number at which it got it.
    taken_seq: int | None = None

    @property
    def is_steering(self) -> bool:
        """Whether it continues the request before it."""
        return self.taken_seq is not None


def title_from_message(words: str) -> str:
    """The title of an unnamed session: the beginning of its first message, in one line."""
    line = " ".join(words.split())
    return line if len(line) <= MAX_TITLE_FROM_WORDS else f"{line[: MAX_TITLE_FROM_WORDS - 1]}…"
