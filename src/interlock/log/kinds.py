"""Every kind of event, as frozen dataclasses; the other `*_events.py` modules define a part of them.

docs/events.md lists them; a test keeps it complete.
A released kind keeps its name, and its fields only grow, so that events of earlier versions can be read. A
kind of a later version is an `UnknownEvent`.
"""

from dataclasses import dataclass, field
from typing import Any

import orjson

from interlock.log.auth_events import AUTH_EVENTS
from interlock.log.channel_events import CHANNEL_EVENTS
from interlock.log.event import Event, field_names
from interlock.log.mcp_events import MCP_EVENTS
from interlock.log.run_events import RUN_EVENTS
from interlock.log.task_events import TASK_EVENTS, TurnCompletedEvent
from interlock.log.worker_events import PROCESS_EVENTS

SYSTEM_STREAM = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCreated(Event):
    kind = "session.created"
    erasable = ("title",)
    outside = ("title", "opened_by")
    session_kind: str
    title: str
    mode: str
    opened_by: str
    agent: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionModeChanged(Event):
    kind = "session.mode_changed"
    outside = ("who",)
    who: str
    from_mode: str
    to_mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionModelChanged(Event):
    """An empty name is the default model."""

    kind = "session.model_changed"
    outside = ("who",)
    who: str
    from_model: str
    to_model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRenamed(Event):
    kind = "session.renamed"
    erasable = ("title",)
    outside = ("who", "title")
    who: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionArchived(Event):
    kind = "session.archived"
    outside = ("who",)
    who: str
    archived: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDeleted(Event):
    """The session is hidden: it is not listed and cannot continue. Nothing is erased."""

    kind = "session.deleted"
    outside = ("who",)
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageAppended(Event):
    """A message of the transcript that no turn and no outcome of a call has, redacted by `make_storable`.

    With the role `tool` it is the result of a call without an outcome, or, if it `replaces_outcome`, what
    the model is given in place of the outcome's result.
    """

    kind = "message.appended"
    erasable = ("content", "tool_calls")
    outside = ()
    role: str
    content: str
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    redacted: bool = False
    replaces_outcome: bool = False

    @property
    def is_message(self) -> bool:
        return True

    @property
    def searchable_text(self) -> str:
        return "" if self.role == "tool" else self.content


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChanged(Event):
    """`changes` maps each changed field to its old and new value; `document` is the whole version."""

    kind = "settings.changed"
    who: str
    version: int
    changes: dict[str, list[Any]]
    document: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityCompiled(Event):
    """The authority behind a digest: `form` is the JSON text whose sha256 it is."""

    kind = "authority.compiled"
    digest: str
    mode: str
    allowed: list[str]
    form: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheckpoint(Event):
    """The heads of all streams that grew since the previous checkpoint, as (stream, seq, hash).

    Together with the checkpoints before it, it covers every event up to the cursor `through`.
    """

    kind = "log.checkpoint"
    outside = ()
    store_id: str
    previous_checkpoint_seq: int
    heads: list[list[Any]]
    through: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSigned(Event):
    """The signature of the checkpoint with number `seq`, written with it. `key` is the public key."""

    kind = "log.signed"
    outside = ()
    seq: int
    key: str
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSigningKey(Event):
    """From here on this key signs checkpoints. `signature` is that of the key that it replaces.

    The first key of a store replaces none. No signature means that the replaced key was lost.
    """

    kind = "log.signing_key"
    outside = ()
    who: str
    public_key: str
    replaces: str
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRestoreAccepted(Event):
    """The operator said that an older backup was restored: `lost` is the last anchor signed before that."""

    kind = "log.restore_accepted"
    outside = ()
    who: str
    lost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogErased(Event):
    """Content of the stream `of` was erased: that of the events in `ranges`, from first to last.

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
    """The fields of every event about a tool call."""

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
    # The arguments were redacted before they were cut, the call's id when the model's reply was read
    # (`agent/model_turn.py`); the requested name is that of a tool.
    outside = ()
    requested_name: str
    arguments: Any
    effect: str
    timeout_seconds: float
    sandbox: str = "none"
    # If an argument is masked: the hash of the stored arguments before masking.
    arguments_seal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallOutcome(ToolCallEvent):
    """`result` is the tool's message in the transcript, redacted and bounded; None outside of a turn."""

    result: dict[str, Any] | None = None

    @property
    def is_message(self) -> bool:
        return self.result is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallCompleted(ToolCallOutcome):
    kind = "tool_call.completed"
    erasable = ("result", "output_hash", "files")
    outside = ("files",)
    latency_ms: float
    exit_code: int
    truncated_lines: bool
    truncated_bytes: bool
    output_hash: str
    files: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallFailed(ToolCallOutcome):
    """A refused call has its arguments here; of a call that ran, `tool_call.started` has them."""

    kind = "tool_call.failed"
    erasable = ("result", "requested_name", "error", "next_action", "arguments")
    # The arguments were redacted before they were cut.
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
    """Refused by a policy before the intent was recorded, or by the tool while it ran."""

    kind = "tool_call.denied"
    layer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallInterrupted(ToolCallEvent):
    """An intent without an outcome, found after a crash: whether it took effect is unknown."""

    kind = "tool_call.interrupted"
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedRestoredInCall(ToolCallEvent):
    """The call's command changed protected names, and they were restored before its outcome.

    A path that could not be restored says so.
    """

    kind = "tool_call.restored"
    erasable = ("paths",)
    paths: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskUserEvent(Event):
    """The fields of every event about a question. Its parent is the call that asked."""

    question_id: str
    call_id: str
    redacted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AskUserAsked(AskUserEvent):
    """A question was asked; its call has no outcome until it is answered or closed."""

    kind = "ask_user.asked"
    erasable = ("question",)
    outside = ("call_id", "question")
    tool_name: str
    mode: str
    authority_digest: str
    widget: str
    question: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskUserAnswered(AskUserEvent):
    kind = "ask_user.answered"
    erasable = ("answer",)
    outside = ("call_id", "who", "answer")
    who: str
    answer: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskUserExpired(AskUserEvent):
    """A question was closed without an answer."""

    kind = "ask_user.expired"
    erasable = ("reason",)
    outside = ("call_id", "who", "reason")
    who: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxProbed(Event):
    """The result of a sandbox probe; each row has a name, whether the check holds, and a detail."""

    kind = "sandbox.probed"
    backend: str
    holds: bool
    rows: list[list[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedRestoredAfterCrash(Event):
    """A process was killed while its child had changed protected names; another process restored them. A
    path that could not be restored says so."""

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
    """A person undoes file changes; `of` is the session, task or call that made them."""

    kind = "undo.started"
    erasable = ("paths",)
    undo_id: str
    who: str
    of: str
    paths: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoFinished(Event):
    """`left` has the path and the reason of every file that was not restored."""

    kind = "undo.finished"
    erasable = ("restored", "left")
    undo_id: str
    restored: list[str]
    left: list[list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownEvent(Event):
    """A kind of another version of Interlock, with its fields as written."""

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
        LogSigned,
        LogSigningKey,
        LogRestoreAccepted,
        LogErased,
        ToolCallStarted,
        ToolCallCompleted,
        ToolCallFailed,
        ToolCallDenied,
        ToolCallInterrupted,
        ProtectedRestoredInCall,
        AskUserAsked,
        AskUserAnswered,
        AskUserExpired,
        SandboxProbed,
        ProtectedRestoredAfterCrash,
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


# The events whose content can be a message of the transcript.
MESSAGE_KINDS = (
    MessageAppended.kind,
    TurnCompletedEvent.kind,
    ToolCallCompleted.kind,
    ToolCallFailed.kind,
    ToolCallDenied.kind,
)
# The SQL condition for a row of `events` that is a message, as `Event.is_message`.
IS_MESSAGE = """
content IS NOT NULL AND (kind IN ('message.appended', 'turn.completed')
    OR kind IN ('tool_call.completed', 'tool_call.failed', 'tool_call.denied')
        AND content LIKE '{"result":{%')
"""


def merge_payload(facts: str | bytes, content: str | bytes | None) -> dict[str, Any]:
    """All fields of a row that are not erased. A column that is no JSON object is kept under its name."""
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
    """The event of a row; fields unknown to this version are dropped."""
    stored = merge_payload(facts, content)
    event = KINDS.get(kind)
    if event is None:
        return UnknownEvent(written_kind=kind, fields=stored)
    known = dict.fromkeys(event.erasable)
    known |= {name: stored[name] for name in field_names(event) if name in stored}
    try:
        return event(**known)
    except TypeError:
        return UnknownEvent(written_kind=kind, fields=stored)
