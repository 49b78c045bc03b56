"""Every kind of event, as frozen dataclasses; those of work are in `work.py`, those of
who came in are in `access.py`, those of answers in chats in `replies.py`.

docs/events.md lists them; a test keeps it complete.
A kind that has been released keeps its name, and its fields only grow: old rows stay readable. A reader
that meets a kind it does not know gets `UnknownEvent`.
"""

from dataclasses import field
from typing import Any

import orjson

from interlock.events.access import ACCESS_EVENTS
from interlock.events.base import Event, reader_of
from interlock.events.mcp import MCP_EVENTS
from interlock.events.processes import PROCESS_EVENTS
from interlock.events.replies import REPLY_EVENTS
from interlock.events.runs import RUN_EVENTS
from interlock.events.work import WORK_EVENTS
from interlock.infra.records import dataclass

SYSTEM_STREAM = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCreated(Event):
    kind = "session.created"
    session_kind: str
    title: str
    mode: str
    opened_by: str
    agent: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionModeChanged(Event):
    kind = "session.mode_changed"
    who: str
    from_mode: str
    to_mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionModelChanged(Event):
    """Empty is the model that every session has unless another was chosen for it."""

    kind = "session.model_changed"
    who: str
    from_model: str
    to_model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRenamed(Event):
    kind = "session.renamed"
    who: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionArchived(Event):
    kind = "session.archived"
    who: str
    archived: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDeleted(Event):
    """Everything said in the session up to `erased_through_seq` has been erased; the hashes stay."""

    kind = "session.deleted"
    who: str
    erased_through_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageAppended(Event):
    """Points at the transcript row with the same number and vouches for its content."""

    kind = "message.appended"
    outside = ()
    role: str
    content_hash: str
    tool_call_id: str | None = None
    redacted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChanged(Event):
    """`changes` maps each changed field to its old and new value; the hash vouches for the whole."""

    kind = "settings.changed"
    who: str
    version: int
    changes: dict[str, list[Any]]
    document_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityCompiled(Event):
    """What a digest stands for: `form` is the JSON text whose sha256 it is."""

    kind = "authority.compiled"
    digest: str
    mode: str
    allowed: list[str]
    form: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheckpoint(Event):
    """The heads of all streams that grew since the checkpoint before, as (stream, seq, hash)."""

    kind = "log.checkpoint"
    store_id: str
    previous_checkpoint_seq: int
    heads: list[list[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogErased(Event):
    """Payloads of the stream `of` were erased: the numbers in `ranges`, from first to last."""

    kind = "log.erased"
    outside = ()
    of: str
    before_us: int
    events: int
    messages: int
    ranges: list[list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEvent(Event):
    """What every event about a tool call carries."""

    call_id: str
    tool_name: str
    mode: str
    authority_digest: str
    redacted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted(ToolCallEvent):
    """The intent. It is durable before the tool has any effect."""

    kind = "tool_call.started"
    # The arguments were made safe before they were cut.
    outside = ("call_id", "requested_name")
    requested_name: str
    arguments: Any
    effect: str
    timeout_seconds: float
    sandbox: str = "none"
    # Where something in the arguments is masked: the hash of what is kept of them, as they were given.
    arguments_seal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallCompleted(ToolCallEvent):
    kind = "tool_call.completed"
    outside = ("call_id", "files")
    latency_ms: float
    exit_code: int
    truncated_lines: bool
    truncated_bytes: bool
    output_hash: str
    files: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallFailed(ToolCallEvent):
    kind = "tool_call.failed"
    requested_name: str
    error: str
    error_code: str
    error_class: str
    latency_ms: float
    next_action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDenied(ToolCallFailed):
    """Refused by a policy, before anything was intended, or found out by the tool while it ran."""

    kind = "tool_call.denied"
    layer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallInterrupted(ToolCallEvent):
    """An intent without an outcome, found after a crash: whether it took effect is unknown."""

    kind = "tool_call.interrupted"
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskUserEvent(Event):
    """What every event about a question carries. Its parent is the call that asked."""

    question_id: str
    call_id: str
    redacted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AskUserAsked(AskUserEvent):
    """A question was put; its call waits, without an outcome, until it is answered or closed."""

    kind = "ask_user.asked"
    widget: str
    question: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskUserAnswered(AskUserEvent):
    kind = "ask_user.answered"
    who: str
    answer: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskUserExpired(AskUserEvent):
    """It was closed without an answer."""

    kind = "ask_user.expired"
    who: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxProbed(Event):
    """What was tried against a sandbox; each row has a name, whether it holds, and a detail."""

    kind = "sandbox.probed"
    backend: str
    holds: bool
    rows: list[list[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoStarted(Event):
    """A person takes changes of files back; `of` is the session, task or call that made them."""

    kind = "undo.started"
    undo_id: str
    who: str
    of: str
    paths: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoFinished(Event):
    """`left` has the path and the reason of every change that was not taken back."""

    kind = "undo.finished"
    undo_id: str
    restored: list[str]
    left: list[list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownEvent(Event):
    """A kind of another version of Interlock, kept as it was written."""

    kind = "unknown"
    written_kind: str
    fields: dict[str, Any]


KINDS: dict[str, type[Event]] = {
    event.kind: event
    for event in (
        SessionCreated,
        SessionModeChanged,
        SessionModelChanged,
        SessionRenamed,
        SessionArchived,
        SessionDeleted,
        MessageAppended,
        SettingsChanged,
        AuthorityCompiled,
        LogCheckpoint,
        LogErased,
        ToolCallStarted,
        ToolCallCompleted,
        ToolCallFailed,
        ToolCallDenied,
        ToolCallInterrupted,
        AskUserAsked,
        AskUserAnswered,
        AskUserExpired,
        SandboxProbed,
        UndoStarted,
        UndoFinished,
        *WORK_EVENTS,
        *ACCESS_EVENTS,
        *PROCESS_EVENTS,
        *MCP_EVENTS,
        *REPLY_EVENTS,
        *RUN_EVENTS,
    )
}


def decode(kind: str, payload: str | bytes) -> Event:
    """The event a row holds; fields that this version does not know are left out."""
    try:
        stored = orjson.loads(payload)
    except orjson.JSONDecodeError:
        stored = payload
    event = KINDS.get(kind)
    if event is None or not isinstance(stored, dict):
        return UnknownEvent(written_kind=kind, fields={"payload": stored})
    known = {name: stored[name] for name in reader_of(event)[0] if name in stored}
    try:
        return event(**known)
    except TypeError:
        return UnknownEvent(written_kind=kind, fields=stored)
