"""Workflows and runs as JSON, for the command line and the page."""

from dataclasses import fields
from enum import Enum
from typing import Any

from interlock.workflow.directory import WorkflowCheck
from interlock.workflow.graph import NodeKind, Workflow, WorkflowEdge, WorkflowNode
from interlock.workflow.run_rows import NodeVisit, RunState, WorkflowRun
from interlock.workflow.state_machine import VisitStatus

Json = dict[str, Any]


def workflow_json(workflow: Workflow) -> Json:
    """The graph for display: nodes and edges, in the order of the file."""
    return {
        "name": workflow.name,
        "description": workflow.description,
        "start": workflow.start,
        "agent": workflow.agent,
        "max_steps": workflow.max_steps,
        "nodes": [_node_json(workflow, node) for node in workflow.nodes.values()],
        "edges": [_edge_json(edge) for edge in workflow.edges],
    }


def workflow_check_json(checked: WorkflowCheck) -> Json:
    return {
        "name": checked.name,
        "description": checked.workflow.description if checked.workflow else "",
        "problems": [
            {"file": problem.file, "line": problem.line, "text": problem.text}
            for problem in checked.problems
        ],
    }


def run_json(run: WorkflowRun) -> Json:
    names = ("workflow", "digest", "mode", "status", "outcome", "reason", "input", "started_by")
    return {"run_id": run.session_id, **_values(run, *names, "created_us", "ended_us")}


def run_state_json(run_state: RunState) -> Json:
    """A run with its graph, all visits, and the current state of each node."""
    run = run_state.run
    known = run.definition is not None
    return {
        "run": run_json(run),
        "steps": run_state.steps,
        "workflows": {name: workflow_json(each) for name, each in run.book.workflows.items()}
        if known
        else {},
        "states": _states(run_state),
        "visits": [visit_json(visit) for visit in run_state.visits],
        "artifacts": run_state.artifacts,
    }


def visit_json(visit: NodeVisit) -> Json:
    hidden = {"session_id", "entered_event"}
    return _values(visit, *(each.name for each in fields(visit) if each.name not in hidden))


def _values(row: WorkflowRun | NodeVisit, *names: str) -> Json:
    values = ((name, getattr(row, name)) for name in names)
    return {name: value.value if isinstance(value, Enum) else value for name, value in values}


def _states(run_state: RunState) -> list[Json]:
    """Each visited node once, by frame and name: its newest status and number of completed visits."""
    newest: dict[tuple[str, str], NodeVisit] = {}
    times: dict[tuple[str, str], int] = {}
    for visit in run_state.visits:
        newest[visit.place] = visit
        times[visit.place] = times.get(visit.place, 0) + (visit.status is VisitStatus.completed)
    return [
        {"frame": frame, "node": node, "status": visit.status.value, "completed": times[frame, node]}
        for (frame, node), visit in newest.items()
    ]


def _node_json(workflow: Workflow, node: WorkflowNode) -> Json:
    told: Json = {"name": node.name, "kind": node.kind.value, "title": node.title}
    if node.kind is NodeKind.step and node.brief is not None:
        told |= {
            "agent": workflow.agent_of(node.name),
            "mode": node.brief.mode.value if node.brief.mode else None,
            "outcomes": list(workflow.outcomes_of(node.name)),
            "brief": node.brief.text,
        }
    if node.kind is NodeKind.subworkflow:
        told["workflow"] = node.workflow
    if node.kind is NodeKind.end:
        told["outcome"] = node.outcome
    return told


def _edge_json(edge: WorkflowEdge) -> Json:
    return {
        "from": edge.source,
        "to": edge.target,
        "label": edge.label,
        "default": edge.is_default,
        "condition": edge.condition.text if edge.condition else "",
    }
