"""The graph of a workflow: nodes, edges, and the briefs of steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from interlock.config.modes import ToolMode
from interlock.policy.policy_fields import NO_RESTRICTION, ToolPolicy
from interlock.workflow.conditions import EdgeCondition

# The outcome of a step that has no choice.
DONE = "done"

# Default limits: visits of one node, and steps of one run.
DEFAULT_MAX_VISITS = 10
DEFAULT_MAX_STEPS = 100


class NodeKind(StrEnum):
    """A step is an agent's work; a decision follows from recorded values; a merge joins branches."""

    step = "step"
    decision = "decision"
    merge = "merge"
    end = "end"
    subworkflow = "subworkflow"


@dataclass(frozen=True, slots=True)
class StepBrief:
    """A step's own file. `outcomes` are its possible outcomes, besides the labels of its edges."""

    text: str
    agent: str | None = None
    mode: ToolMode | None = None
    outcomes: tuple[str, ...] = ()
    tools: ToolPolicy = NO_RESTRICTION


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowNode:
    name: str
    kind: NodeKind
    title: str = ""
    max_visits: int = DEFAULT_MAX_VISITS
    # For steps.
    brief: StepBrief | None = None
    # For subworkflows: the workflow's name.
    workflow: str = ""
    # For ends: the outcome of the run.
    outcome: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowEdge:
    """An edge. `number` counts the edges of the file from 0."""

    source: str
    target: str
    label: str = ""
    is_default: bool = False
    condition: EdgeCondition | None = None
    number: int = 0


@dataclass(frozen=True)
class Workflow:
    name: str
    description: str
    start: str
    nodes: Mapping[str, WorkflowNode]
    edges: tuple[WorkflowEdge, ...]
    # The agent of steps that name none.
    agent: str | None = None
    max_steps: int = DEFAULT_MAX_STEPS

    @cached_property
    def _ways(self) -> dict[str, tuple[WorkflowEdge, ...]]:
        found: dict[str, list[WorkflowEdge]] = {name: [] for name in self.nodes}
        for edge in self.edges:
            found.setdefault(edge.source, []).append(edge)
        return {name: tuple(edges) for name, edges in found.items()}

    def edges_from(self, node: str) -> tuple[WorkflowEdge, ...]:
        return self._ways.get(node, ())

    def agent_of(self, node: str) -> str | None:
        """The step's own agent, else the workflow's."""
        brief = self.nodes[node].brief
        return (brief.agent if brief else None) or self.agent

    def outcomes_of(self, node: str) -> tuple[str, ...]:
        """The possible outcomes of a step: the labels of its edges, else those its file lists."""
        labels = tuple(dict.fromkeys(edge.label for edge in self.edges_from(node) if edge.label))
        brief = self.nodes[node].brief
        return labels or (brief.outcomes if brief else ())

    @property
    def ends(self) -> tuple[str, ...]:
        """The possible outcomes of a run."""
        found = (node.outcome for node in self.nodes.values() if node.kind is NodeKind.end)
        return tuple(dict.fromkeys(found))

    @property
    def agents(self) -> tuple[str, ...]:
        steps = (node.name for node in self.nodes.values() if node.kind is NodeKind.step)
        return tuple(sorted({agent for step in steps if (agent := self.agent_of(step))}))

    @property
    def subworkflows(self) -> tuple[str, ...]:
        found = (node.workflow for node in self.nodes.values() if node.kind is NodeKind.subworkflow)
        return tuple(sorted(set(found)))
