"""The kinds of events that tell of work: tasks, the agent's turns, and the limits that held."""

from dataclasses import dataclass

from interlock.log.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQueued(Event):
    """A message became work. `message_seq` is the message's number in the session.

    `mode` is the session's at that moment, or the step's in a workflow: it never starts in a looser one.
    `credential_id` is the token or the browser that sent it; empty where it came another way.
    """

    kind = "task.queued"
    task_id: str
    message_seq: int
    who: str
    mode: str
    credential_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted(Event):
    """A worker took it up, or went on with it: then `attempt` is more than 1."""

    kind = "task.started"
    outside = ()
    task_id: str
    mode: str
    worker: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWaiting(Event):
    """It waits for a person's answer and holds no worker."""

    kind = "task.waiting"
    outside = ()
    task_id: str
    question_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFinished(Event):
    """`status` is done or failed; a task that failed says why in one sentence."""

    kind = "task.finished"
    erasable = ("reason",)
    task_id: str
    status: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCancelled(Event):
    """`reason` says why, where the person did not cancel this one task: a revoked token, for example."""

    kind = "task.cancelled"
    task_id: str
    who: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStarted(Event):
    """The scope of everything that an agent does for one task."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted(Event):
    """One model call and what it asks for. `tool_choice` and the digest say what it was offered."""

    kind = "turn.started"
    outside = ()
    turn: int
    authority_digest: str
    model: str
    tool_choice: str
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCompletedEvent(Event):
    kind = "turn.completed"
    outside = ()
    turn: int
    finish_reason: str
    tool_calls: int
    input_tokens: int
    output_tokens: int
    latency_ms: float
    first_piece_ms: float | None = None
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompacted(Event):
    """Older messages are told to the model in short from here on. The transcript keeps them all."""

    kind = "context.compacted"
    outside = ()
    through_seq: int
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlLimitReached(Event):
    """A limit ended the task, or its tools where too many calls were refused: which one, how far the task
    went, and what the person reads."""

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
    """So many failures of one class in a row that the model, or the tool, is not tried for a while."""

    kind = "circuit.opened"
    error_class: str
    failures: int
    seconds: float
    # One of the two; older rows have neither.
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
    """A server refused a request with that `tool_choice` and took it with `auto`."""

    kind = "model.tool_choice_refused"
    erasable = ("error",)
    model: str
    tool_choice: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressStalled(Event):
    """The same call gave the same result again and again."""

    kind = "progress.stalled"
    tool_name: str
    times: int


TASK_EVENTS = (
    TaskQueued,
    TaskStarted,
    TaskWaiting,
    TaskFinished,
    TaskCancelled,
    AgentStarted,
    AgentCompleted,
    AgentFailed,
    TurnStarted,
    TurnCompletedEvent,
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
