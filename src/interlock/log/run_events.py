"""The kinds of events that tell of runs: where a workflow has come to, who stopped it, who went on; and of
plans that became work."""

from dataclasses import dataclass, field

from interlock.log.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """The scope of all that happens in a run. `digest` names the files that it was begun with,
    `credential_id` the token or the browser that started it, if one did.
    """

    kind = "run.started"
    workflow: str
    digest: str
    mode: str
    who: str
    agents: dict[str, str] = field(default_factory=dict)
    credential_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPaused(Event):
    """By a person, or because a step did not get to an end: then `reason` says why."""

    kind = "run.paused"
    erasable = ("reason",)
    who: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed(Event):
    """`agents` are the hashes that a retry goes on with; empty where none was bound anew.
    `credential_id` is the token or the browser whose run it is from now on, if it is one's.
    """

    kind = "run.resumed"
    who: str
    agents: dict[str, str] = field(default_factory=dict)
    credential_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStopped(Event):
    """A person ended it for good. `reason` says why, where a token that started it was revoked."""

    kind = "run.stopped"
    who: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Event):
    """`status` is done or failed; `steps` is how many were completed."""

    kind = "run.finished"
    erasable = ("reason",)
    status: str
    outcome: str
    steps: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent(Event):
    """What every event about a node carries. `number` counts all nodes that the run came to."""

    number: int
    frame: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEntered(NodeEvent):
    """The run came to a node: the scope of what is done there."""

    kind = "node.entered"
    node_kind: str
    visit: int
    retry_of: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBegun(NodeEvent):
    """A step has its task now: at once, or when the run goes on."""

    kind = "node.begun"
    outside = ()
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDecided(NodeEvent):
    """What the step said it came to. The last one before its end counts."""

    kind = "node.decided"
    erasable = ("summary", "artifacts")
    outcome: str
    summary: str
    artifacts: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCompleted(NodeEvent):
    """`to` is the node that the run goes on to, and `label` that of the edge; an end has neither."""

    kind = "node.completed"
    outside = ()
    outcome: str
    to: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailed(NodeEvent):
    """`status` is failed, or cancelled where somebody stopped it."""

    kind = "node.failed"
    erasable = ("reason",)
    status: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBuildStarted(Event):
    """A person had an approved plan built: its question, and the task that it became the message of."""

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
