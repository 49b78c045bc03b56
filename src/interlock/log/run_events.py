"""The kinds of events about workflow runs and the nodes they entered, and about plans that were built."""

from dataclasses import dataclass, field

from interlock.log.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """The scope of all events in a run. `digest` identifies the files it was started with: it is the sha256
    of `definition`. `credential_id` is the token or browser that started it, if any."""

    kind = "run.started"
    erasable = ("definition", "input")
    # A definition with a secret in it is refused before.
    outside = ("who", "input")
    workflow: str
    definition: str
    input: str
    digest: str
    mode: str
    who: str
    agents: dict[str, str] = field(default_factory=dict)
    credential_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPaused(Event):
    """Paused by a person, or because a step did not finish: then `reason` says why."""

    kind = "run.paused"
    erasable = ("reason",)
    outside = ("who", "reason")
    who: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed(Event):
    """`agents` are the hashes that a retry continues with; empty if none was bound again.

    `credential_id` is the token or browser that owns the run from now on, if any.
    """

    kind = "run.resumed"
    outside = ("who",)
    who: str
    agents: dict[str, str] = field(default_factory=dict)
    credential_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStopped(Event):
    """A person ended it for good. `reason` says why, if a token that started it was revoked."""

    kind = "run.stopped"
    erasable = ("reason",)
    outside = ("who", "reason")
    who: str
    reason: str | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Event):
    """`status` is done or failed; `steps` counts the completed ones."""

    kind = "run.finished"
    erasable = ("reason",)
    outside = ("outcome", "reason")
    status: str
    outcome: str
    steps: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent(Event):
    """The fields of every event about a node. `number` counts all nodes that the run entered."""

    number: int
    frame: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEntered(NodeEvent):
    """The run entered a node: the scope of the node's events."""

    kind = "node.entered"
    outside = ()
    node_kind: str
    visit: int
    retry_of: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBegun(NodeEvent):
    """A step got its task: at once, or when the run was resumed."""

    kind = "node.begun"
    outside = ()
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDecided(NodeEvent):
    """The step's reported outcome. The last one before its end counts."""

    kind = "node.decided"
    erasable = ("summary", "artifacts")
    outside = ("outcome", "summary", "artifacts")
    outcome: str
    summary: str
    artifacts: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCompleted(NodeEvent):
    """`to` is the next node, and `label` that of the edge; an end has neither."""

    kind = "node.completed"
    outside = ()
    outcome: str
    to: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailed(NodeEvent):
    """`status` is failed, or cancelled if a person stopped it."""

    kind = "node.failed"
    erasable = ("reason",)
    outside = ("reason",)
    status: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBuildStarted(Event):
    """A person started the build of an approved plan: its question, and the task made from it."""

    kind = "plan.build_started"
    question_id: str
    task_id: str
    who: str


RUN_EVENTS = (
    PlanBuildStarted,
    RunStarted,
    RunPaused,
    RunResumed,
    RunStopped,
    RunFinished,
    NodeEntered,
    NodeBegun,
    NodeDecided,
    NodeCompleted,
    NodeFailed,
)
