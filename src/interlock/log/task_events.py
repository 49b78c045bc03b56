"""The kinds of events about tasks: their agents, turns, limits and retries."""

from dataclasses import dataclass
from typing import Any

from interlock.log.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQueued(Event):
    """A message became a task. `message_seq` is the message's number in the session.

    `mode` is the session's at that moment, or the step's in a workflow: the task never starts in a looser
    one. `credential_id` is the token or the browser that sent it, or empty.
    """

    kind = "task.queued"
    outside = ("who",)
    task_id: str
    message_seq: int
    who: str
    mode: str
    credential_id: str = ""
    # The task whose message it is, sent again.
    retry_of: str = ""
    # The task that is to get this message at its next turn, if it still works then.
    steers: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted(Event):
    """A worker started or resumed the task; resumed, `attempt` is more than 1."""

    kind = "task.started"
    outside = ()
    task_id: str
    mode: str
    worker: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWaiting(Event):
    """The task waits for a person's answer and occupies no worker."""

    kind = "task.waiting"
    outside = ()
    task_id: str
    question_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRequeued(Event):
    """Its worker stopped, or its question was closed before it could wait; another attempt follows."""

    kind = "task.requeued"
    outside = ()
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCancelRequested(Event):
    """A running task is to be cancelled. If it is not done before, `task.cancelled` follows."""

    kind = "task.cancel_requested"
    erasable = ("reason",)
    outside = ("who", "reason")
    task_id: str
    who: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFinished(Event):
    """`status` is done or failed; `reason` is one sentence for a failure."""

    kind = "task.finished"
    erasable = ("reason",)
    outside = ("reason",)
    task_id: str
    status: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCancelled(Event):
    """`reason` says why, if a person did not cancel this one task: a revoked token, for example."""

    kind = "task.cancelled"
    erasable = ("reason",)
    outside = ("who", "reason")
    task_id: str
    who: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSteered(Event):
    """The task ended unworked: the task `into` got its message, before its next turn.

    In the context of a model the message stands here, among those of that task.
    """

    kind = "task.steered"
    outside = ()
    task_id: str
    into: str
    message_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStarted(Event):
    """The scope of all events of an agent in one task."""

    kind = "agent.started"
    task_id: str
    agent: str
    agent_hash: str
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCompleted(Event):
    kind = "agent.completed"
    outside = ()
    turns: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFailed(Event):
    kind = "agent.failed"
    erasable = ("error",)
    turns: int
    error: str
    error_class: str
    agent: str = ""
    actor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCompletedEvent(Event):
    """The model answered: what it was offered, what it used, and its message, redacted by `make_storable`.

    The calls that it requests are below it: its id is made when the turn begins. `agent` and `actor`, for
    whom it works, may be empty. `reasoning` has the fields of `models.provider.Reasoning`.
    """

    kind = "turn.completed"
    erasable = ("content", "calls", "reasoning")
    outside = ("agent", "actor")
    turn: int
    authority_digest: str = ""
    tool_choice: str = "auto"
    messages: int = 0
    finish_reason: str
    tool_calls: int
    input_tokens: int
    output_tokens: int
    latency_ms: float
    first_piece_ms: float | None = None
    reasoning_ms: int | None = None
    model: str = ""
    agent: str = ""
    actor: str = ""
    redacted: bool = False
    content: str = ""
    calls: list[dict[str, Any]] | None = None
    reasoning: dict[str, str] | None = None

    @property
    def is_message(self) -> bool:
        return True

    @property
    def searchable_text(self) -> str:
        return self.content


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnInterrupted(Event):
    """The task was cancelled, out of time or left to another worker while the model answered.

    The tokens of what had arrived are estimated: a server reports them at the end of an answer.
    """

    kind = "turn.interrupted"
    outside = ("agent", "actor")
    turn: int
    model: str
    input_tokens: int
    output_tokens: int
    agent: str = ""
    actor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDiscarded(Event):
    """A model's answer broke off after part of it was shown. That part is void.

    The turn is asked again, or its task fails.

    Its tokens are estimated: a server reports them at the end of an answer.
    """

    kind = "turn.discarded"
    erasable = ("error",)
    outside = ("error", "agent", "actor")
    turn: int
    error_class: str
    error: str
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    agent: str = ""
    actor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFallback(Event):
    """A model failed, and the rest of the task uses the next one of its chain in MODELS."""

    kind = "model.fallback"
    erasable = ("error",)
    from_model: str
    to_model: str
    error_class: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompactRequested(Event):
    """A person wants older messages summarised. The next task begins with that."""

    kind = "context.compact_requested"
    outside = ("who",)
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompacted(Event):
    """The model gets older messages as a summary from here on. The transcript keeps them all.

    If a model wrote the summary, `model` names it, and the tokens are what that cost.
    """

    kind = "context.compacted"
    erasable = ("summary",)
    outside = ("agent", "actor")
    through_seq: int
    tokens_before: int
    tokens_after: int
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    # Of the task: usage is counted by them.
    agent: str = ""
    actor: str = ""
    # Redacted; empty if the messages were only cut.
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlLimitReached(Event):
    """A limit ended the task, or, after too many refused calls, its tools: the limit, the value reached,
    and the sentence for the person."""

    kind = "control.limit_reached"
    limit: str
    allowed: float
    reached: float
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled(Event):
    kind = "retry.scheduled"
    erasable = ("error",)
    attempt: int
    delay_seconds: float
    error_class: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryExhausted(Event):
    kind = "retry.exhausted"
    erasable = ("error",)
    attempts: int
    error_class: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitOpened(Event):
    """After so many failures of one class in a row, the model or tool is not called for a while."""

    kind = "circuit.opened"
    error_class: str
    failures: int
    seconds: float
    # One of the two is set.
    tool_name: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitHalfOpen(Event):
    kind = "circuit.half_open"
    error_class: str
    tool_name: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitClosed(Event):
    kind = "circuit.closed"
    error_class: str
    tool_name: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelToolChoiceRefused(Event):
    """A server refused a request with that `tool_choice` and accepted it with `auto`."""

    kind = "model.tool_choice_refused"
    erasable = ("error",)
    model: str
    tool_choice: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressStalled(Event):
    """The same call repeatedly gave the same result."""

    kind = "progress.stalled"
    tool_name: str
    times: int


TASK_EVENTS = (
    TaskQueued,
    TaskStarted,
    TaskWaiting,
    TaskRequeued,
    TaskCancelRequested,
    TaskFinished,
    TaskCancelled,
    TaskSteered,
    AgentStarted,
    AgentCompleted,
    AgentFailed,
    TurnCompletedEvent,
    TurnDiscarded,
    TurnInterrupted,
    ModelFallback,
    ContextCompactRequested,
    ContextCompacted,
    ControlLimitReached,
    ModelToolChoiceRefused,
    RetryScheduled,
    RetryExhausted,
    CircuitOpened,
    CircuitHalfOpen,
    CircuitClosed,
    ProgressStalled,
)
