"""The rows of runs and their node visits, and all SQL statements about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from hashlib import sha256

import orjson

from interlock.config.modes import ToolMode
from interlock.core.errors import UserError
from interlock.db.driver import DbConnection, Row
from interlock.log.event import Event
from interlock.log.hash_chain import EventHeader
from interlock.log.projections import ProjectedRow, Projection
from interlock.log.run_events import (
    NodeBegun,
    NodeCompleted,
    NodeDecided,
    NodeEntered,
    NodeFailed,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    RunStopped,
)
from interlock.workflow.directory import load_pinned_workflows
from interlock.workflow.graph import NodeKind, Workflow, WorkflowNode
from interlock.workflow.state_machine import (
    NodeInFrame,
    PastVisit,
    RunStateMachine,
    VisitStatus,
    WorkflowSet,
)


class RunNotFound(UserError):
    code = "RUN_NOT_FOUND"


class WrongRunStatus(UserError):
    """A run in this status cannot be paused, resumed, retried or stopped."""

    code = "RUN_STATUS"


class RunDefinitionChanged(UserError):
    """The stored workflow of a run is not the one it started with."""

    code = "RUN_CHANGED"


class RunStatus(StrEnum):
    running = "running"
    paused = "paused"
    done = "done"
    failed = "failed"
    stopped = "stopped"

    @property
    def is_end(self) -> bool:
        return self in {RunStatus.done, RunStatus.failed, RunStatus.stopped}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRun:
    """One run, with fields in the order of the selected columns. Its id is that of its session.

    `mode` is the ceiling of every step; `agents` are the hashes of the agents' files it continues with.
    """

    session_id: str
    workflow: str
    digest: str
    mode: ToolMode
    status: RunStatus
    agents: Mapping[str, str]
    definition: str | None
    input: str | None
    outcome: str | None = None
    reason: str | None = None
    started_by: str
    credential_id: str | None = None
    started_event: str
    created_us: int
    ended_us: int | None = None

    @property
    def book(self) -> WorkflowSet:
        if self.definition is None:
            raise WrongRunStatus(f"the content of run {self.session_id} has been erased")
        if sha256(self.definition.encode()).hexdigest() != self.digest:
            raise RunDefinitionChanged(
                f"the stored workflow of run {self.session_id} is not the one it started with; "
                "stop the run, find out who changed the store (interlock events verify), and "
                "start a new run"
            )
        return WorkflowSet(self.workflow, load_pinned_workflows(self.definition))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVisit:
    """One visit of a node by a run, with fields in the order of the selected columns."""

    session_id: str
    number: int
    frame: str
    node: str
    kind: NodeKind
    status: VisitStatus
    entered_event: str
    visit: int
    task_id: str | None = None
    outcome: str | None = None
    summary: str | None = None
    artifacts: Mapping[str, str] = field(default_factory=dict)
    next: str | None = None
    label: str | None = None
    reason: str | None = None
    retry_of: int | None = None
    entered_us: int
    ended_us: int | None = None

    @property
    def place(self) -> NodeInFrame:
        return NodeInFrame(self.frame, self.node)

    @property
    def is_subworkflow(self) -> bool:
        """Whether the node is a subworkflow, whose own nodes do the work."""
        return self.kind is NodeKind.subworkflow


@dataclass(frozen=True, slots=True)
class RunState:
    """A run with all its visits, in order."""

    run: WorkflowRun
    visits: tuple[NodeVisit, ...]

    @property
    def artifacts(self) -> dict[str, str]:
        """The artifacts of completed steps; the newest of each name."""
        found: dict[str, str] = {}
        for visit in self.visits:
            if visit.status is VisitStatus.completed:
                found |= visit.artifacts
        return found

    def walk(self, more: Mapping[str, str] | None = None) -> RunStateMachine:
        """The state machine of the run. `more` are artifacts of the running step."""
        seen = [PastVisit(visit.place, visit.status, visit.outcome or "") for visit in self.visits]
        return RunStateMachine(self.run.book, seen, self.artifacts | dict(more or {}))

    @property
    def steps(self) -> int:
        """The number of completed steps."""
        return sum(
            visit.kind is NodeKind.step and visit.status is VisitStatus.completed for visit in self.visits
        )

    def newest(self, place: NodeInFrame) -> NodeVisit:
        return next(visit for visit in reversed(self.visits) if visit.place == place)

    @property
    def at(self) -> NodeVisit | None:
        """The active or ready visit; in a paused run, the one that did not finish."""
        for visit in reversed(self.visits):
            if visit.status in {VisitStatus.ready, VisitStatus.active} and not visit.is_subworkflow:
                return visit
        if self.run.status is not RunStatus.paused:
            return None
        # There is one at most: a run continues only by retrying what failed. Clocks do not matter.
        retried = {visit.retry_of for visit in self.visits}
        unfinished = (v for v in self.visits if v.status in {VisitStatus.failed, VisitStatus.cancelled})
        left = (visit for visit in unfinished if visit.number not in retried)
        return max(left, key=lambda visit: visit.number, default=None)


@dataclass(frozen=True, slots=True)
class ActiveStep:
    """The step of a run's task, with what determines its prompt and Authority."""

    run_state: RunState
    visit: NodeVisit
    workflow: Workflow
    node: WorkflowNode

    @property
    def agent(self) -> str | None:
        return self.workflow.agent_of(self.node.name)


@dataclass(frozen=True, slots=True)
class NextStep:
    """A task to queue: its message, parent event and fixed mode."""

    task_id: str
    content: str
    mode: ToolMode
    parent: str
    who: str
    credential_id: str | None


_RUN_COLUMNS = tuple(member.name for member in fields(WorkflowRun))
_VISIT_COLUMNS = tuple(member.name for member in fields(NodeVisit))

_RUN = ", ".join(_RUN_COLUMNS)
_VISIT = ", ".join(_VISIT_COLUMNS)

# Runs of deleted sessions are hidden from people.
_IS_SHOWN = """
NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = runs.session_id AND s.deleted_us IS NOT NULL)
"""
READ_RUN = f"SELECT {_RUN} FROM runs WHERE session_id = ?"  # noqa: S608
READ_SHOWN = f"{READ_RUN} AND {_IS_SHOWN}"
READ_VISITS = f"SELECT {_VISIT} FROM run_nodes WHERE session_id = ? ORDER BY number"  # noqa: S608
LIST_RUNS = f"""
SELECT {_RUN} FROM runs WHERE {_IS_SHOWN} AND (1 = ? OR workflow = ?)
ORDER BY created_us DESC, session_id LIMIT ?
"""  # noqa: S608
RUN_OF_TASK = "SELECT session_id, number FROM run_nodes WHERE task_id = ?"


def read_run_state(connection: DbConnection, session_id: str, statement: str = READ_RUN) -> RunState:
    rows = connection.query(statement, (session_id,))
    if not rows:
        raise RunNotFound(f"there is no run {session_id[:64]}")
    visits = connection.query(READ_VISITS, (session_id,))
    return RunState(run_from_row(rows[0]), tuple(visit_from_row(row) for row in visits))


def run_from_row(row: Row) -> WorkflowRun:
    values = dict(zip(_RUN_COLUMNS, row, strict=True))
    values["mode"] = _mode(values["mode"])
    values["status"] = RunStatus(values["status"])
    values["agents"] = orjson.loads(values["agents"])
    return WorkflowRun(**values)


def visit_from_row(row: Row) -> NodeVisit:
    values = dict(zip(_VISIT_COLUMNS, row, strict=True))
    values["kind"] = NodeKind(values["kind"])
    values["status"] = VisitStatus(values["status"])
    values["artifacts"] = orjson.loads(values["artifacts"]) if values["artifacts"] else {}
    return NodeVisit(**values)


def _mode(stored: str) -> ToolMode:
    return ToolMode(stored) if stored in ToolMode.__members__ else ToolMode.chat_safe


def _evolve_run(row: ProjectedRow | None, event: Event, header: EventHeader) -> ProjectedRow | None:
    if isinstance(event, RunStarted):
        return dict.fromkeys(_RUN_COLUMNS) | {
            "session_id": header.stream,
            "workflow": event.workflow,
            "digest": event.digest,
            "mode": event.mode,
            "status": RunStatus.running.value,
            "agents": _encoded_agents(event.agents),
            "definition": event.definition,
            "input": event.input,
            "started_by": event.who,
            "credential_id": event.credential_id or None,
            "started_event": header.id,
            "created_us": header.time_us,
        }
    if row is None:
        return None
    match event:
        case RunPaused(reason=reason):
            return row | {"status": RunStatus.paused.value, "reason": reason or None}
        case RunResumed(agents=agents, credential_id=credential_id):
            pinned = {"agents": _encoded_agents(agents)} if agents else {}
            changes = {"reason": None, "credential_id": credential_id or None}
            return row | changes | pinned | {"status": RunStatus.running.value}
        case RunStopped(who=who, reason=reason):
            because = None if reason is None else f"stopped by {who}" + (f": {reason}" if reason else "")
            changes = {"status": RunStatus.stopped.value, "reason": because}
            return row | changes | {"ended_us": header.time_us}
        case RunFinished(status=status, outcome=outcome, reason=reason):
            changes = {"status": status, "outcome": outcome or None, "reason": reason or None}
            return row | changes | {"ended_us": header.time_us}
        case _:
            return row


def _evolve_visit(row: ProjectedRow | None, event: Event, header: EventHeader) -> ProjectedRow | None:
    if isinstance(event, NodeEntered):
        is_step = event.node_kind == NodeKind.step
        return dict.fromkeys(_VISIT_COLUMNS) | {
            "session_id": header.stream,
            "number": event.number,
            "frame": event.frame,
            "node": event.node,
            "kind": event.node_kind,
            "status": (VisitStatus.ready if is_step else VisitStatus.active).value,
            "entered_event": header.id,
            "visit": event.visit,
            "retry_of": event.retry_of,
            "entered_us": header.time_us,
        }
    # A visit that has ended never changes.
    if row is None or row["status"] not in {VisitStatus.ready, VisitStatus.active}:
        return row
    match event:
        case NodeBegun(task_id=task_id):
            return row | {"status": VisitStatus.active.value, "task_id": task_id}
        case NodeDecided(outcome=outcome, summary=summary, artifacts=artifacts):
            text = orjson.dumps(artifacts).decode() if artifacts else None
            return row | {"outcome": outcome, "summary": summary, "artifacts": text}
        case NodeCompleted(outcome=outcome):
            changes = {"outcome": outcome, "next": event.to or None, "label": event.label or None}
            return row | changes | {"status": VisitStatus.completed.value, "ended_us": header.time_us}
        case NodeFailed(status=status, reason=reason):
            return row | {"status": status, "reason": reason, "ended_us": header.time_us}
        case _:
            return row


def _encoded_agents(agents: Mapping[str, str]) -> str:
    return orjson.dumps(agents, option=orjson.OPT_SORT_KEYS).decode()


RUNS = Projection(
    table="runs",
    noun="run",
    key=("session_id",),
    columns=_RUN_COLUMNS[1:],
    kinds=(RunStarted, RunPaused, RunResumed, RunStopped, RunFinished),
    rows_of=lambda _event, header: [{"session_id": header.stream}],
    evolve=_evolve_run,
    stream_column="session_id",
    content=dict.fromkeys(("definition", "input", "reason")),
)
RUN_NODES = Projection(
    table="run_nodes",
    noun="node",
    key=("session_id", "number"),
    columns=_VISIT_COLUMNS[2:],
    kinds=(NodeEntered, NodeBegun, NodeDecided, NodeCompleted, NodeFailed),
    rows_of=lambda event, header: [{"session_id": header.stream, "number": event.number}],
    evolve=_evolve_visit,
    stream_column="session_id",
    content=dict.fromkeys(("summary", "artifacts", "reason")),
)
