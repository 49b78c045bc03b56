"""A session's tree of events, grouped by process: supervisor, worker, attempt at a task.

A worker is identified by its name: `worker.started` in the system stream and `task.started` in the
session's have the same. Later events about an attempt belong to the process that caused them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from interlock.db.driver import DbConnection
from interlock.log.event import IS_MILESTONE
from interlock.log.read import COLUMNS, StoredEvent, stored_event_from_row
from interlock.log.tree import EventNode, build_tree, payload_of
from interlock.log.worker_events import ProcessStarted, WorkerExited, WorkerSpawned, WorkerStarted

_KINDS = (ProcessStarted.kind, WorkerSpawned.kind, WorkerStarted.kind, WorkerExited.kind)
READ_PROCESSES = f"""
SELECT {COLUMNS} FROM events WHERE stream = 'system' AND kind IN ({", ".join("?" for _ in _KINDS)})
    AND {IS_MILESTONE}
ORDER BY seq
"""  # noqa: S608 - the columns are a constant


@dataclass(slots=True)
class UnrecordedProcess:
    """A process known only by its name: a terminal."""

    worker: str
    children: list[EventNode] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {"worker": self.worker, "children": [child.as_json() for child in self.children]}


@dataclass(frozen=True, slots=True)
class EventsByProcess:
    """The events outside of all workers; then the processes, each with its events."""

    outside: list[EventNode]
    processes: list[EventNode]
    unrecorded: list[UnrecordedProcess]

    def as_json(self) -> list[dict[str, Any]]:
        events = [root.as_json() for root in (*self.outside, *self.processes)]
        return [*events, *(process.as_json() for process in self.unrecorded)]


def read_process_events(connection: DbConnection) -> list[StoredEvent]:
    """All events about workers and their supervisors."""
    return [stored_event_from_row(row) for row in connection.query(READ_PROCESSES, _KINDS)]


def group_by_process(events: Iterable[StoredEvent], processes: Sequence[StoredEvent]) -> EventsByProcess:
    """`events` are a session's, in order; processes that had no part in them are dropped."""
    roots = build_tree(processes)
    workers = _Workers(roots)
    nodes: dict[str, EventNode] = {}
    # The attempt that each event belongs to, and the newest attempt at each task.
    attempt_of: dict[str, EventNode] = {}
    newest: dict[str, EventNode] = {}
    outside: list[EventNode] = []
    for stored in events:
        header = stored.header
        node = nodes[header.id] = EventNode(stored)
        if header.task and (home := workers.home_of(stored)) is not None:
            home.append(node)
            attempt_of[header.id] = newest[header.task] = node
            continue
        parent = nodes.get(header.parent) if header.parent else None
        attempt = attempt_of.get(parent.stored.header.id) if parent else None
        if attempt is not None and header.task and newest.get(header.task, attempt) is not attempt:
            # A later attempt caused this event.
            parent = attempt = newest[header.task]
        if attempt is not None:
            attempt_of[header.id] = attempt
        (parent.children if parent else outside).append(node)
    return EventsByProcess(outside, _with_a_part(roots), list(workers.unrecorded.values()))


class _Workers:
    """Finds the node for the attempts of each worker."""

    def __init__(self, roots: Sequence[EventNode]) -> None:
        self._known = {
            name: node
            for root in roots
            for node in _all(root)
            if node.stored.header.kind == WorkerStarted.kind and (name := _worker(node.stored))
        }
        self.unrecorded: dict[str, UnrecordedProcess] = {}

    def home_of(self, stored: StoredEvent) -> list[EventNode] | None:
        """The children of the attempt's worker; None if the event is no attempt or names no worker."""
        name = _worker(stored) if stored.header.kind == "task.started" else None
        if name is None:
            return None
        if name in self._known:
            return self._known[name].children
        return self.unrecorded.setdefault(name, UnrecordedProcess(name)).children


def _worker(stored: StoredEvent) -> str | None:
    name = payload_of(stored).get("worker")
    return name if isinstance(name, str) and name else None


def _all(node: EventNode) -> Iterable[EventNode]:
    yield node
    for child in node.children:
        yield from _all(child)


def _with_a_part(nodes: Sequence[EventNode]) -> list[EventNode]:
    """The nodes with an attempt below them; those of processes also keep their exit."""
    kept = []
    for node in nodes:
        if node.stored.header.kind == "task.started":
            kept.append(node)
            continue
        below = _with_a_part(node.children)
        if below:
            ends = [child for child in node.children if child.stored.header.kind == WorkerExited.kind]
            kept.append(EventNode(node.stored, [*below, *ends]))
    return kept
