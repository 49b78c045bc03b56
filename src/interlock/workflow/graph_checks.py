"""Checks of a well-formed graph: dead ends, unreachable nodes, endless loops.

Each problem begins with the path of its node or edge in `workflow.toml`.
"""

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from interlock.agent.front_matter import DefinitionProblem
from interlock.core.text import safe_excerpt
from interlock.workflow.graph import DONE, NodeKind, Workflow, WorkflowEdge, WorkflowNode
from interlock.workflow.parser import GRAPH_FILE, SUFFIX

_PASSED = frozenset({NodeKind.decision, NodeKind.merge})


def graph_problems(workflow: Workflow) -> list[DefinitionProblem]:
    """The problems of one workflow by itself."""
    kinds = frozenset({NodeKind.step, NodeKind.decision, NodeKind.merge})
    nodes = (node for node in workflow.nodes.values() if node.kind in kinds)
    outcomes = {node.name: _outcomes(workflow, node) for node in nodes}
    return _problems([*_shape(workflow), *_paths(workflow), *_never(workflow, outcomes)])


def inner_problems(workflow: Workflow, inner: Mapping[str, Workflow]) -> list[DefinitionProblem]:
    """Conditions on outcomes that a subworkflow never has. `inner` maps nodes to their workflows."""
    ends = {name: run_there.ends for name, run_there in inner.items()}
    labels = (
        f"edges[{edge.number}].label: no end of {inner[name].name} has the outcome '{edge.label}'"
        + _hint(edge.label, known)
        for name, known in ends.items()
        for edge in workflow.edges_from(name)
        if edge.label and edge.label not in known
    )
    return _problems([*labels, *_never(workflow, ends)])


def agent_problems(workflow: Workflow, agents: Collection[str]) -> list[DefinitionProblem]:
    """Agents that are named but missing."""
    named = [(GRAPH_FILE, workflow.agent)]
    named += [(node.name + SUFFIX, node.brief.agent) for node in workflow.nodes.values() if node.brief]
    problems = []
    for file, agent in named:
        if agent is not None and agent not in agents:
            near = difflib.get_close_matches(agent, agents, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            problems.append(DefinitionProblem(file, f"agent: there is no agent {agent}{hint}"))
    return problems


def _problems(texts: Iterable[str]) -> list[DefinitionProblem]:
    return [DefinitionProblem(GRAPH_FILE, text) for text in dict.fromkeys(texts)]


# -- edges of each node --------------------------------------------------------------------------------


def _shape(workflow: Workflow) -> Iterator[str]:
    for node in workflow.nodes.values():
        edges = workflow.edges_from(node.name)
        if node.kind is NodeKind.end:
            if edges:
                yield f"nodes.{node.name} is an end node and cannot have outgoing edges"
            continue
        if not edges:
            yield f"nodes.{node.name} has no outgoing edge and is not an end node"
        yield from _edges_of(node, edges)
    kinds = {node.kind for node in workflow.nodes.values()}
    if not kinds & {NodeKind.step, NodeKind.subworkflow}:
        yield "nodes: the workflow has no step"


def _edges_of(node: WorkflowNode, edges: tuple[WorkflowEdge, ...]) -> Iterator[str]:
    defaults = [edge for edge in edges if edge.is_default]
    if len(defaults) > 1:
        yield f"nodes.{node.name} has more than one default edge"
    labels: set[str] = set()
    for edge in edges:
        if edge.label in labels:
            yield f"edges[{edge.number}].label: two edges from {node.name} have the label '{edge.label}'"
        labels |= {edge.label} if edge.label else set()
        if edge.is_default and edge.condition is not None:
            yield (
                f"edges[{edge.number}].condition: a default edge is taken when no condition holds; "
                "it cannot have a condition"
            )
        if edge.label and node.kind not in {NodeKind.step, NodeKind.subworkflow}:
            yield (
                f"edges[{edge.number}].label: {node.name} is a {node.kind} and has no labels; "
                "write a condition"
            )
    yield from _edges_of_kind(node, edges)


def _edges_of_kind(node: WorkflowNode, edges: tuple[WorkflowEdge, ...]) -> Iterator[str]:
    plain = [edge for edge in edges if edge.condition is None and not edge.is_default]
    if node.kind is NodeKind.merge:
        if len(edges) != 1 or edges[0].condition is not None:
            yield f"nodes.{node.name} is a merge: it needs exactly one outgoing edge, without a condition"
    elif node.kind is NodeKind.decision:
        if not any(edge.is_default for edge in edges):
            yield f"nodes.{node.name} needs a default edge for when no condition holds"
        for edge in plain:
            yield (
                f"edges[{edge.number}]: an edge from the decision {node.name} needs a condition, "
                "or default = true"
            )
    else:
        # Several edges of a step must differ by a label, by a condition, or as the default.
        unlabelled = [edge for edge in plain if not edge.label]
        if unlabelled and len(edges) > 1:
            yield (
                f"edges[{unlabelled[0].number}]: {node.name} has several outgoing edges; "
                "give this one a label or a condition"
            )
        listed = set(node.brief.outcomes if node.brief else ())
        labels = {edge.label for edge in edges if edge.label}
        if listed and labels and listed != labels:
            yield f"nodes.{node.name}: the outcomes in its file do not match the labels of its edges"


# -- conditions that never hold ------------------------------------------------------------------------


def _outcomes(workflow: Workflow, node: WorkflowNode) -> tuple[str, ...]:
    """All possible outcomes of a node."""
    match node.kind:
        case NodeKind.decision:
            return tuple(edge.target for edge in workflow.edges_from(node.name))
        case NodeKind.step:
            return (*workflow.outcomes_of(node.name), DONE)
        case _:
            return (DONE,)


def _never(workflow: Workflow, outcomes: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Conditions that compare a node's outcome with one it never has."""
    for edge in workflow.edges:
        for (node, what), value in sorted(edge.condition.compared, key=repr) if edge.condition else ():
            if what == "outcome" and node in outcomes and value is not None and value not in outcomes[node]:
                word = safe_excerpt(str(value), 60)
                hint = _hint(word, outcomes[node])
                yield f"edges[{edge.number}].condition: {node} never has the outcome '{word}'{hint}"


def _hint(word: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else f" (valid: {', '.join(dict.fromkeys(known))})"


# -- paths ---------------------------------------------------------------------------------------------


def _paths(workflow: Workflow) -> Iterator[str]:
    """Every node must be reachable and lead to an end; a loop must have an exit, and a step in it."""

    def targets(name: str) -> list[str]:
        return [edge.target for edge in workflow.edges_from(name)]

    def passed(name: str) -> list[str]:
        return targets(name) if workflow.nodes[name].kind in _PASSED else []

    reached = _reach({workflow.start} & workflow.nodes.keys(), targets)
    ends = {name for name, node in workflow.nodes.items() if node.kind is NodeKind.end}
    if not ends:
        yield "nodes: the workflow has no end node, so a run could never finish"
    leading = _reach(ends, lambda name: [edge.source for edge in workflow.edges if edge.target == name])
    for name, node in workflow.nodes.items():
        if reached and name not in reached:
            yield f"nodes.{name} cannot be reached from {workflow.start}"
        if ends and name not in leading and targets(name):
            yield f"nodes.{name}: no end node can be reached from {name}: its cycle has no exit"
        if node.kind in _PASSED and name in _reach(targets(name), passed):
            yield f"nodes.{name} can lead back to itself without a step in between"


def _reach(names: Iterable[str], onward: Callable[[str], Iterable[str]]) -> set[str]:
    """These nodes and all that follow from them."""
    reached, looked = set[str](), set(names)
    while looked:
        reached |= looked
        looked = {each for name in looked for each in onward(name)} - reached
    return reached
