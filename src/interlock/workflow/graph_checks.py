"""Checks of a well-formed graph: dead ends, unreachable nodes, endless loops."""

import difflib
from collections.abc import Collection, Iterator, Mapping

from interlock.agent.definitions import DefinitionProblem
from interlock.core.text import safe_excerpt
from interlock.workflow.graph import DONE, NodeKind, Workflow, WorkflowEdge, WorkflowNode
from interlock.workflow.parser import GRAPH_FILE, NAME, SUFFIX

_PASSED = frozenset({NodeKind.decision, NodeKind.merge})


def graph_problems(workflow: Workflow) -> Iterator[DefinitionProblem]:
    """The problems of one workflow by itself, by line."""
    found = [*_shape(workflow), *_ways(workflow), *_ends(workflow), *_conditions(workflow)]
    yield from (DefinitionProblem(GRAPH_FILE, line, text) for line, text in sorted(set(found)))


def inner_problems(workflow: Workflow, inner: Mapping[str, Workflow]) -> Iterator[DefinitionProblem]:
    """Conditions on outcomes that a subworkflow never has. `inner` maps nodes to their workflows."""
    for name, run_there in inner.items():
        for edge in workflow.edges_from(name):
            if edge.label and edge.label not in run_there.ends:
                told = f"no end of {run_there.name} has the outcome '{edge.label}'"
                yield DefinitionProblem(GRAPH_FILE, edge.line, told + _hint(edge.label, run_there.ends))
    ends = {name: run_there.ends for name, run_there in inner.items()}
    for line, text in sorted(set(_never(workflow, ends))):
        yield DefinitionProblem(GRAPH_FILE, line, text)


def agent_problems(workflow: Workflow, agents: Collection[str]) -> Iterator[DefinitionProblem]:
    """Agents that are named but missing."""
    if workflow.agent is not None and workflow.agent not in agents:
        yield DefinitionProblem(GRAPH_FILE, workflow.agent_line, _no_agent(workflow.agent, agents))
    for node in workflow.nodes.values():
        brief = node.brief
        if brief is not None and brief.agent is not None and brief.agent not in agents:
            yield DefinitionProblem(
                f"{node.name}{SUFFIX}", brief.agent_line, _no_agent(brief.agent, agents)
            )


def _no_agent(name: str, agents: Collection[str]) -> str:
    near = difflib.get_close_matches(name, agents, n=1)
    return f"there is no agent {name}" + (f"; did you mean {near[0]}?" if near else "")


Line = tuple[int, str]


def _shape(workflow: Workflow) -> Iterator[Line]:
    for node in workflow.nodes.values():
        ways = workflow.edges_from(node.name)
        if node.kind is NodeKind.end:
            if ways:
                yield node.line, f"{node.name} is an end node and cannot have outgoing edges"
            continue
        if not ways:
            yield node.line, f"{node.name} has no outgoing edge and is not an end node"
        yield from _of_kind(node, ways, workflow)
    if (
        not any(node.kind is NodeKind.step for node in workflow.nodes.values())
        and not workflow.subworkflows
    ):
        yield 1, "the workflow has no step"


def _of_kind(node: WorkflowNode, ways: tuple[WorkflowEdge, ...], workflow: Workflow) -> Iterator[Line]:
    defaults = [edge for edge in ways if edge.is_default]
    if len(defaults) > 1:
        yield defaults[1].line, f"{node.name} has more than one default edge"
    labels: set[str] = set()
    for edge in ways:
        if edge.label in labels:
            yield edge.line, f"two edges from {node.name} have the label '{edge.label}'"
        labels |= {edge.label} if edge.label else set()
        if edge.is_default and edge.condition is not None:
            yield edge.line, "a default edge is taken when no condition holds; it cannot have a condition"
        if edge.label and node.kind not in {NodeKind.step, NodeKind.subworkflow}:
            yield edge.line, f"{node.name} is a {node.kind} and has no labels; write a condition"
    match node.kind:
        case NodeKind.merge if len(ways) != 1 or ways[0].condition is not None:
            yield (
                node.line,
                f"{node.name} is a merge: it needs exactly one outgoing edge, without a condition",
            )
        case NodeKind.decision:
            yield from _decision(node, ways, has_default=bool(defaults))
        case _:
            yield from _plain_edges(node, ways, workflow)


def _decision(node: WorkflowNode, ways: tuple[WorkflowEdge, ...], *, has_default: bool) -> Iterator[Line]:
    if not has_default:
        yield node.line, f"{node.name} needs a default edge for when no condition holds"
    for edge in ways:
        if edge.condition is None and not edge.is_default:
            yield edge.line, f"an edge from the decision {node.name} needs a condition, or default = true"


def _plain_edges(node: WorkflowNode, ways: tuple[WorkflowEdge, ...], workflow: Workflow) -> Iterator[Line]:
    """Several edges of a step must differ by a label, by a condition, or as the default."""
    plain = [edge for edge in ways if not edge.label and edge.condition is None and not edge.is_default]
    if plain and len(ways) > 1:
        yield (
            plain[0].line,
            f"{node.name} has several outgoing edges; give this one a label or a condition",
        )
    listed = node.brief.outcomes if node.brief else ()
    if listed and any(edge.label for edge in ways) and set(listed) != set(workflow.outcomes_of(node.name)):
        yield node.line, f"the outcomes in {node.name}{SUFFIX} do not match the labels of its edges"


def _conditions(workflow: Workflow) -> Iterator[Line]:
    """Comparisons with values that never occur."""
    kinds = frozenset({NodeKind.step, NodeKind.decision, NodeKind.merge})
    nodes = (node for node in workflow.nodes.values() if node.kind in kinds)
    yield from _never(workflow, {node.name: _outcomes(workflow, node) for node in nodes})
    for edge in workflow.edges:
        for first, second in edge.condition.names if edge.condition else ():
            if first == "artifacts" and not NAME.fullmatch(second):
                yield edge.line, f"condition: {safe_excerpt(second, 60)} is not a valid artifact name"


def _outcomes(workflow: Workflow, node: WorkflowNode) -> tuple[str, ...]:
    """All possible outcomes of a node."""
    match node.kind:
        case NodeKind.decision:
            return tuple(edge.target for edge in workflow.edges_from(node.name))
        case NodeKind.step:
            return (*workflow.outcomes_of(node.name), DONE)
        case _:
            return (DONE,)


def _never(workflow: Workflow, outcomes: Mapping[str, Collection[str]]) -> Iterator[Line]:
    """Conditions that compare a node's outcome with one it never has."""
    for edge in workflow.edges:
        for path, value in edge.condition.compared if edge.condition else ():
            node, what = path
            if what != "outcome" or node not in outcomes or value is None or value in outcomes[node]:
                continue
            word = safe_excerpt(str(value), 60)
            yield (
                edge.line,
                f"condition: {node} never has the outcome '{word}'{_hint(word, outcomes[node])}",
            )


def _hint(word: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else f" (valid: {', '.join(dict.fromkeys(known))})"


def _ways(workflow: Workflow) -> Iterator[Line]:
    if workflow.start not in workflow.nodes:
        return
    reached = _reach(workflow, {workflow.start})
    for node in workflow.nodes.values():
        if node.name not in reached:
            yield node.line, f"{node.name} cannot be reached from {workflow.start}"


def _ends(workflow: Workflow) -> Iterator[Line]:
    """A loop must have an exit, and a step in it."""
    ends = {name for name, node in workflow.nodes.items() if node.kind is NodeKind.end}
    if not ends:
        yield 1, "the workflow has no end node, so a run could never finish"
        return
    sources: dict[str, set[str]] = {name: set() for name in workflow.nodes}
    for edge in workflow.edges:
        sources[edge.target].add(edge.source)
    leading, looked = set(ends), set(ends)
    while looked:
        looked = {source for name in looked for source in sources[name]} - leading
        leading |= looked
    for node in workflow.nodes.values():
        if node.name not in leading and workflow.edges_from(node.name):
            yield node.line, f"no end node can be reached from {node.name}: its cycle has no exit"
        if node.kind in _PASSED and node.name in _passing(workflow, node.name):
            yield node.line, f"{node.name} can lead back to itself without a step in between"


def _reach(workflow: Workflow, names: set[str]) -> set[str]:
    reached, looked = set(names), set(names)
    while looked:
        looked = {edge.target for name in looked for edge in workflow.edges_from(name)} - reached
        reached |= looked
    return reached


def _passing(workflow: Workflow, name: str) -> set[str]:
    """The nodes reached from a node through decisions and merges alone."""
    reached: set[str] = set()
    looked = {edge.target for edge in workflow.edges_from(name)}
    while looked:
        reached |= looked
        passed = {each for each in looked if workflow.nodes[each].kind in _PASSED}
        looked = {edge.target for each in passed for edge in workflow.edges_from(each)} - reached
    return reached
