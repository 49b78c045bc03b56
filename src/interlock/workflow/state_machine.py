"""Where a run goes next: computes moves from recorded visits and a step's outcome.

It knows no store and no clock: the same run gives the same moves. A run moves only along edges, and a
completed visit stays completed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from interlock.workflow.conditions import Value
from interlock.workflow.graph import DONE, NodeKind, Workflow, WorkflowEdge, WorkflowNode

ROOT = ""
MAX_MOVES = 10_000


class NodeInFrame(NamedTuple):
    """A node in a frame. A subworkflow visit has its own frame: `polish#2/` is its second visit."""

    frame: str
    node: str

    def inside(self, visit: int) -> str:
        return f"{self.frame}{self.node}#{visit}/"

    @property
    def is_inside(self) -> bool:
        return self.frame != ROOT

    def outside(self) -> "NodeInFrame":
        """The subworkflow node that contains this frame."""
        steps = self.frame.rstrip("/").split("/")
        return NodeInFrame("".join(f"{step}/" for step in steps[:-1]), steps[-1].partition("#")[0])


class VisitStatus(StrEnum):
    """The status of a visit. `ready`: entered but not started, because the run is paused."""

    ready = "ready"
    active = "active"
    completed = "completed"
    failed = "failed"
    cancelled = "cancelled"

    @property
    def counts(self) -> bool:
        """Whether it counts as a visit: failed and cancelled ones do not."""
        return self in {VisitStatus.ready, VisitStatus.active, VisitStatus.completed}


class PastVisit(NamedTuple):
    """One visit of a node, as far as it matters for the next move."""

    place: NodeInFrame
    status: VisitStatus
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class EnterNode:
    place: NodeInFrame
    visit: int


@dataclass(frozen=True, slots=True)
class CompleteNode:
    """Complete a node. `edge` is the edge taken; an end has none."""

    place: NodeInFrame
    outcome: str
    edge: WorkflowEdge | None


@dataclass(frozen=True, slots=True)
class WorkOnStep:
    """Run the step that was entered last."""

    place: NodeInFrame


@dataclass(frozen=True, slots=True)
class MarkNodeFailed:
    """The next node is unclear: the run waits here for a person."""

    place: NodeInFrame
    reason: str


@dataclass(frozen=True, slots=True)
class FinishRun:
    outcome: str


@dataclass(frozen=True, slots=True)
class AbandonRun:
    """A limit of the workflow was reached."""

    reason: str


Move = EnterNode | CompleteNode | WorkOnStep | MarkNodeFailed | FinishRun | AbandonRun
# A node to process: to be entered, or left with an outcome.
_Todo = tuple[NodeInFrame, str | None] | None


@dataclass(frozen=True, slots=True)
class WorkflowSet:
    """The workflows of a run by name, and the one it started with."""

    root: str
    workflows: Mapping[str, Workflow]

    def workflow_in(self, frame: str) -> Workflow:
        workflow = self.workflows[self.root]
        for step in frame.rstrip("/").split("/") if frame else ():
            workflow = self.workflows[workflow.nodes[step.partition("#")[0]].workflow]
        return workflow

    def node(self, place: NodeInFrame) -> WorkflowNode:
        return self.workflow_in(place.frame).nodes[place.node]


@dataclass(slots=True)
class RunStateMachine:
    """Computes the moves of a run: pass the recorded visits, then `begin`, or `advance` from a step."""

    book: WorkflowSet
    seen: Sequence[PastVisit] = ()
    artifacts: Mapping[str, str] = field(default_factory=dict)
    _visits: Counter[NodeInFrame] = field(default_factory=Counter)
    # Includes unfinished visits: each had its own frame.
    _entered: Counter[NodeInFrame] = field(default_factory=Counter)
    _outcomes: dict[NodeInFrame, str] = field(default_factory=dict)
    _steps: int = 0

    def __post_init__(self) -> None:
        for place, status, outcome in self.seen:
            self._entered[place] += 1
            if status.counts:
                self._visits[place] += 1
            if status is VisitStatus.completed:
                self._outcomes[place] = outcome
                self._steps += self._is_step(place)

    def begin(self) -> tuple[Move, ...]:
        return self._moves(NodeInFrame(ROOT, self.book.workflow_in(ROOT).start), None)

    def advance(self, done: NodeInFrame, outcome: str) -> tuple[Move, ...]:
        """The moves after a step with that outcome, which may be empty."""
        return self._moves(done, outcome)

    def reenter(self, place: NodeInFrame) -> tuple[Move, ...]:
        """The moves that enter an unfinished node again."""
        return self._moves(place, None)

    def refusal(self, place: NodeInFrame, outcome: str) -> str:
        """Why a step cannot have that outcome now; empty if it can."""
        workflow = self.book.workflow_in(place.frame)
        known = workflow.outcomes_of(place.node)
        if outcome not in (known or ("", DONE)):
            return (
                f"'{outcome}' is not an outcome of {place.node}" if outcome else "it must name its outcome"
            )
        found = self._way(place, outcome)
        return found if isinstance(found, str) else ""

    def allowed(self, place: NodeInFrame) -> tuple[str, ...]:
        """The outcomes that an edge accepts now."""
        known = self.book.workflow_in(place.frame).outcomes_of(place.node) or (DONE,)
        return tuple(outcome for outcome in known if not isinstance(self._way(place, outcome), str))

    # -- moving --

    def _moves(self, place: NodeInFrame, outcome: str | None) -> tuple[Move, ...]:
        """Move until a step is to be run, or nothing more can be done.

        Without an outcome, enter the node.
        """
        moves: list[Move] = []
        todo: _Todo = (place, outcome)
        while todo is not None:
            if len(moves) >= MAX_MOVES:
                moves.append(AbandonRun(f"it passed {MAX_MOVES} nodes without a step"))
                break
            place, outcome = todo
            todo = self._enter(place, moves) if outcome is None else self._leave(place, outcome, moves)
        return tuple(moves)

    def _enter(self, place: NodeInFrame, moves: list[Move]) -> _Todo:
        node = self.book.node(place)
        if stop := self._too_often(place, node):
            moves.append(AbandonRun(stop))
            return None
        self._visits[place] += 1
        self._entered[place] += 1
        moves.append(EnterNode(place, self._visits[place]))
        match node.kind:
            case NodeKind.subworkflow:
                inside = place.inside(self._entered[place])
                return NodeInFrame(inside, self.book.workflow_in(inside).start), None
            case NodeKind.step:
                moves.append(WorkOnStep(place))
                return None
            case NodeKind.end:
                return self._end(place, node, moves)
        return place, ""

    def _leave(self, place: NodeInFrame, outcome: str, moves: list[Move]) -> _Todo:
        way = self._way(place, outcome)
        if isinstance(way, str):
            moves.append(MarkNodeFailed(place, way))
            return None
        is_decision = self.book.node(place).kind is NodeKind.decision
        came_to = outcome or way.label or (way.target if is_decision else DONE)
        self._outcomes[place] = came_to
        self._steps += self._is_step(place)
        moves.append(CompleteNode(place, came_to, way))
        return NodeInFrame(place.frame, way.target), None

    def _end(self, place: NodeInFrame, node: WorkflowNode, moves: list[Move]) -> _Todo:
        self._outcomes[place] = node.outcome
        moves.append(CompleteNode(place, node.outcome, None))
        if place.is_inside:
            return place.outside(), node.outcome
        moves.append(FinishRun(node.outcome))
        return None

    def _too_often(self, place: NodeInFrame, node: WorkflowNode) -> str:
        if self._visits[place] >= node.max_visits:
            return f"{node.name} was visited {node.max_visits} times, the maximum"
        most = self.book.workflow_in(ROOT).max_steps
        if node.kind is NodeKind.step and self._steps >= most:
            return f"it took {most} steps, the maximum"
        return ""

    def _is_step(self, place: NodeInFrame) -> bool:
        return self.book.node(place).kind is NodeKind.step

    # -- choosing --

    def _way(self, place: NodeInFrame, outcome: str) -> WorkflowEdge | str:
        """The edge to take, or why there is none."""
        workflow = self.book.workflow_in(place.frame)
        ways, node = workflow.edges_from(place.node), workflow.nodes[place.node]
        is_step = node.kind is NodeKind.step
        listed = node.brief.outcomes if is_step and node.brief else ()
        if listed and not outcome and not any(edge.is_default for edge in ways):
            return f"{place.node} did not name its outcome (one of: {', '.join(listed)})"
        open_ways = [edge for edge in ways if self._holds(edge, place, outcome)]
        labelled = [edge for edge in open_ways if edge.label]
        for edge in labelled:
            if edge.label == outcome:
                return edge
        if outcome and is_step and any(edge.label for edge in ways):
            return f"no edge from {place.node} matches the outcome '{outcome}' now"
        holding = [edge for edge in open_ways if edge.condition is not None and not edge.label]
        if len(holding) > 1:
            targets = " and ".join(edge.target for edge in holding)
            return f"more than one condition holds at {place.node} (to {targets}); only one may hold"
        if holding:
            return holding[0]
        default = [edge for edge in open_ways if edge.is_default]
        if not default and len(ways) == 1 and not ways[0].label:
            default = open_ways
        if default:
            return default[0]
        named = ", ".join(edge.label for edge in labelled)
        return f"{place.node} did not choose an edge" + (f" (valid: {named})" if named else "")

    def _holds(self, edge: WorkflowEdge, place: NodeInFrame, outcome: str) -> bool:
        def lookup(path: tuple[str, ...]) -> Value:
            return self._lookup(path, place, outcome)

        return edge.condition is None or edge.condition.holds(lookup)

    def _lookup(self, path: tuple[str, ...], place: NodeInFrame, outcome: str) -> Value:
        first, second = path
        if first == "artifacts":
            return self.artifacts.get(second)
        if path == ("run", "steps"):
            return self._steps
        asked = NodeInFrame(place.frame, first)
        if second == "visits":
            return self._visits[asked]
        if asked == place and self.book.node(place).kind is not NodeKind.decision:
            # Only the outcome of this visit: an empty one does not repeat the earlier one.
            return outcome or None
        return self._outcomes.get(asked)
