"""Compares the rows of runs and their nodes with the events about runs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import orjson

from interlock.db.driver import DbConnection
from interlock.log.event import Event
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

RUN = """
SELECT workflow, digest, mode, credential_id, status, outcome, agents, definition FROM runs
WHERE session_id = ?
"""
NODES = """
SELECT number, frame, node, status, outcome, summary, artifacts FROM run_nodes
WHERE session_id = ? ORDER BY number
"""
# A backup of an older schema is checked before it is upgraded.
IS_THERE = "SELECT 1 FROM sqlite_schema WHERE name = 'run_nodes'"


@dataclass(slots=True)
class _Run:
    seq: int
    started: RunStarted
    status: str = "running"
    outcome: str | None = None
    # None: in an older log `run.resumed` does not name the agents that a retry continued with.
    agents: dict[str, str] | None = None
    credential_id: str = ""
    was_silent: bool = False


@dataclass(slots=True)
class _Node:
    seq: int
    frame: str
    node: str
    status: str
    outcome: str | None = None
    summary: str | None = None
    artifacts: dict[str, str] = field(default_factory=dict)

    @property
    def values(self) -> tuple[Any, ...]:
        return self.frame, self.node, self.status, self.outcome, self.summary, self.artifacts


class RunVerifier:
    """Collects the run of one stream from its events."""

    def __init__(self) -> None:
        self._run: _Run | None = None
        self._nodes: dict[int, _Node] = {}

    def take(self, seq: int, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._run = _Run(seq, event, agents=dict(event.agents), credential_id=event.credential_id)
        elif self._run is not None:
            self._take_of_run(self._run, seq, event)
            self._take_of_node(self._run, seq, event)

    def _take_of_run(self, run: _Run, seq: int, event: Event) -> None:
        match event:
            case RunPaused():
                run.seq, run.status = seq, "paused"
            case RunResumed(agents=agents, credential_id=credential_id):
                run.credential_id = credential_id
                run.seq, run.status, run.was_silent = seq, "running", not agents
                run.agents = agents or run.agents
            case RunStopped():
                run.seq, run.status = seq, "stopped"
            case RunFinished(status=status, outcome=outcome):
                run.seq, run.status, run.outcome = seq, status, outcome or None

    def _take_of_node(self, run: _Run, seq: int, event: Event) -> None:
        if isinstance(event, NodeEntered):
            status = "ready" if event.node_kind == "step" else "active"
            self._nodes[event.number] = _Node(seq, event.frame, event.node, status)
            if event.retry_of is not None and run.was_silent and run.agents:
                run.agents = None
            return
        if not isinstance(event, NodeBegun | NodeDecided | NodeCompleted | NodeFailed):
            return
        if (node := self._nodes.get(event.number)) is None:
            return
        node.seq = seq
        match event:
            case NodeBegun():
                node.status = "active"
            case NodeDecided(outcome=outcome, summary=summary, artifacts=artifacts):
                node.outcome, node.summary, node.artifacts = outcome, summary, dict(artifacts or {})
            case NodeCompleted(outcome=outcome):
                node.status, node.outcome = "completed", outcome
            case NodeFailed(status=status):
                node.status = status

    def compare(self, connection: DbConnection, stream: str) -> Iterator[tuple[int, str, str]]:
        """Where rows and events disagree: the event's number, broken or missing, and the detail."""
        if connection.dialect == "sqlite" and not connection.query(IS_THERE):
            return
        rows = connection.query(RUN, (stream,))
        run = self._run
        if run is None:
            if rows:
                yield 0, "broken", "no event describes its run"
            return
        if not rows:
            yield run.seq, "missing", "the row of its run is missing"
            return
        yield from _of_run(run, rows[0])
        yield from self._of_nodes(connection.query(NODES, (stream,)))

    def _of_nodes(self, rows: list[tuple[Any, ...]]) -> Iterator[tuple[int, str, str]]:
        found = {int(row[0]): (*row[1:6], _parsed(row[6])) for row in rows}
        for number, told in self._nodes.items():
            if number not in found:
                yield told.seq, "missing", f"the row of node {number} of its run is missing"
            elif found[number] != told.values:
                yield told.seq, "broken", f"node {number} of its run was changed"
        for number in found.keys() - self._nodes.keys():
            yield 0, "broken", f"no event describes node {number} of its run"


def _of_run(run: _Run, row: tuple[Any, ...]) -> Iterator[tuple[int, str, str]]:
    workflow, digest, mode, credential_id, status, outcome, agents, definition = row
    began = run.started
    started = (began.workflow, began.digest, began.mode, run.credential_id)
    if (workflow, digest, mode, credential_id or "") != started:
        yield run.seq, "broken", "its run is not the one that was started"
    elif definition is not None and sha256(definition.encode()).hexdigest() != began.digest:
        yield run.seq, "broken", "the workflow of its run was changed"
    elif (status, outcome) != (run.status, run.outcome):
        yield run.seq, "broken", "the outcome of its run was changed"
    elif run.agents is not None and orjson.loads(agents) != run.agents:
        yield run.seq, "broken", "the agents of its run were changed"


def _parsed(text: str | None) -> Any:
    return orjson.loads(text) if text else {}
