"""Every kind of event, as frozen dataclasses; those of work are in `task_events.py`, those of
who came in are in `auth_events.py`, those of answers in chats in `channel_events.py`.

docs/events.md lists them; a test keeps it complete.
A kind that has been released keeps its name, and its fields only grow: old rows stay readable. A reader
that meets a kind it does not know gets `UnknownEvent`.
"""

from dataclasses import dataclass, field
from typing import Any

import orjson

from interlock.log.auth_events import AUTH_EVENTS
from interlock.log.channel_events import CHANNEL_EVENTS
from interlock.log.event import Event, field_reader_of
from interlock.log.mcp_events import MCP_EVENTS
from interlock.log.process_events import PROCESS_EVENTS
from interlock.log.run_events import RUN_EVENTS
from interlock.log.task_events import TASK_EVENTS

SYSTEM_STREAM = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCreated(Event):
    kind = "session.created"
    erasable = ("title",)
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
    erasable = ("title",)
    who: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionArchived(Event):
    kind = "session.archived"
    who: str
    archived: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDeleted(Event):
    """The session is hidden: nothing lists it or goes on with it. Nothing of it is erased."""

    kind = "session.deleted"
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageAppended(Event):
    """Points at the transcript row with the same number and vouches for its content.

    The hash is erased with the row: it has no salt, and a short text could be guessed from it.
    """

    kind = "message.appended"
    erasable = ("content_hash",)
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
    """Content of the stream `of` was erased: of the numbers in `ranges`, from first to last.

    `who` is the operator, or `retention` where its age was the reason.
    """

    kind = "log.erased"
    outside = ()
    who: str
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
    erasable = ("requested_name", "arguments")
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
    erasable = ("output_hash", "files")
    outside = ("call_id", "files")
    latency_ms: float
    exit_code: int
    truncated_lines: bool
    truncated_bytes: bool
    output_hash: str
    files: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallFailed(ToolCallEvent):
    """Of a call that was refused it keeps the arguments; where it ran, `tool_call.started` has them."""

    kind = "tool_call.failed"
    erasable = ("requested_name", "error", "next_action", "arguments")
    # The arguments were made safe before they were cut.
    outside = ("call_id", "requested_name", "error", "next_action")
    requested_name: str
    error: str
    error_code: str
    error_class: str
    latency_ms: float
    next_action: str
    arguments: Any = None


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
class ToolCallRestored(ToolCallEvent):
    """The call's command changed protected names, and they were put back before its outcome.

    A path that could not be put back says so.
    """

    kind = "tool_call.restored"
    erasable = ("paths",)
    paths: list[str]


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
    erasable = ("question",)
    widget: str
    question: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskUserAnswered(AskUserEvent):
    kind = "ask_user.answered"
    erasable = ("answer",)
    who: str
    answer: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskUserExpired(AskUserEvent):
    """It was closed without an answer."""

    kind = "ask_user.expired"
    erasable = ("reason",)
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
class ProtectedRestored(Event):
    """A process was killed while something of it ran that had changed protected names; they were put back
    by another one. A path that could not be put back says so."""

    kind = "protected.restored"
    erasable = ("paths",)
    paths: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsUnavailable(Event):
    """A process started on a machine that lacks what these tools need: a program, or a working sandbox.

    `need` names it as tools declare it, `reason` says why it is missing and how to install it.
    """

    kind = "tools.unavailable"
    need: str
    reason: str
    tools: list[str]
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoStarted(Event):
    """A person takes changes of files back; `of` is the session, task or call that made them."""

    kind = "undo.started"
    erasable = ("paths",)
    undo_id: str
    who: str
    of: str
    paths: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoFinished(Event):
    """`left` has the path and the reason of every file that was not taken back."""

    kind = "undo.finished"
    erasable = ("restored", "left")
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
        ToolCallRestored,
        AskUserAsked,
        AskUserAnswered,
        AskUserExpired,
        SandboxProbed,
        ProtectedRestored,
        ToolsUnavailable,
        UndoStarted,
        UndoFinished,
        *TASK_EVENTS,
        *AUTH_EVENTS,
        *PROCESS_EVENTS,
        *MCP_EVENTS,
        *CHANNEL_EVENTS,
        *RUN_EVENTS,
    )
}


def merge_payload(facts: str | bytes, content: str | bytes | None) -> dict[str, Any]:
    """All fields that a row has left. What is not a JSON object is kept under the column's name."""
    fields: dict[str, Any] = {}
    for name, text in (("facts", facts), ("content", content)):
        if text is None:
            continue
        try:
            stored = orjson.loads(text)
        except orjson.JSONDecodeError:
            stored = text
        fields |= stored if isinstance(stored, dict) else {name: stored}
    return fields


def decode_event(kind: str, facts: str | bytes, content: str | bytes | None = None) -> Event:
    """The event a row holds; fields that this version does not know are left out."""
    stored = merge_payload(facts, content)
    event = KINDS.get(kind)
    if event is None:
        return UnknownEvent(written_kind=kind, fields=stored)
    known = dict.fromkeys(event.erasable)
    known |= {name: stored[name] for name in field_reader_of(event)[0] if name in stored}
    try:
        return event(**known)
    except TypeError:
        return UnknownEvent(written_kind=kind, fields=stored)
