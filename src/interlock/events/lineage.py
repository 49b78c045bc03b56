"""A session's tree of causes, hung under the processes in which it happened: which supervisor started which
worker, and which attempt at which task ran there.

A worker is known by its name: `worker.started` in the system stream and `task.started` in the session's
say the same. What somebody else did later about an attempt stands where it was done.
"""

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

from interlock.events.feed import COLUMNS, StoredEvent, stored_event
from interlock.events.processes import ProcessStarted, WorkerExited, WorkerSpawned, WorkerStarted
from interlock.events.tree import Node, build_tree, payload_of
from interlock.infra.records import dataclass
from interlock.store.driver import Connection

_KINDS = (ProcessStarted.kind, WorkerSpawned.kind, WorkerStarted.kind, WorkerExited.kind)
READ_PROCESSES = f"""
SELECT {COLUMNS} FROM events WHERE stream = 'system' AND kind IN ({", ".join("?" for _ in _KINDS)})
ORDER BY seq
"""  # noqa: S608 - the columns are a constant


@dataclass(slots=True)
class Unrecorded:
    """A process that the log tells nothing of but its name: a terminal, or a version from before."""

    worker: str
    children: list[Node] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {"worker": self.worker, "children": [child.as_json() for child in self.children]}


@dataclass(frozen=True, slots=True)
class Lineage:
    """What happened in no process that works; then the processes, each with what happened in it."""

    outside: list[Node]
    processes: list[Node]
    unrecorded: list[Unrecorded]

    def as_json(self) -> list[dict[str, Any]]:
        events = [root.as_json() for root in (*self.outside, *self.processes)]
        return [*events, *(process.as_json() for process in self.unrecorded)]


def read_processes(connection: Connection) -> list[StoredEvent]:
    """All that is told of workers and of who started them."""
    return [stored_event(row) for row in connection.query(READ_PROCESSES, _KINDS)]


def build_lineage(events: Iterable[StoredEvent], processes: Sequence[StoredEvent]) -> Lineage:
    """`events` are a session's, in order; of the processes only those remain that had a part in them."""
    roots = build_tree(processes)
    workers = _Workers(roots)
    nodes: dict[str, Node] = {}
    # The attempt that each event stands in, and the newest one at each task.
    attempt_of: dict[str, Node] = {}
    newest: dict[str, Node] = {}
    outside: list[Node] = []
    for stored in events:
        header = stored.header
        node = nodes[header.id] = Node(stored)
        if header.task and (home := workers.home_of(stored)) is not None:
            home.append(node)
            attempt_of[header.id] = newest[header.task] = node
            continue
        parent = nodes.get(header.parent) if header.parent else None
        attempt = attempt_of.get(parent.stored.header.id) if parent else None
        if attempt is not None and header.task and newest.get(header.task, attempt) is not attempt:
            # Whoever went on with the task did it.
            parent = attempt = newest[header.task]
        if attempt is not None:
            attempt_of[header.id] = attempt
        (parent.children if parent else outside).append(node)
    return Lineage(outside, _with_a_part(roots), list(workers.unrecorded.values()))


class _Workers:
    """Where the attempts of each worker stand."""

    def __init__(self, roots: Sequence[Node]) -> None:
        self._known = {
            name: node
            for root in roots
            for node in _all(root)
            if node.stored.header.kind == WorkerStarted.kind and (name := _worker(node.stored))
        }
        self.unrecorded: dict[str, Unrecorded] = {}

    def home_of(self, stored: StoredEvent) -> list[Node] | None:
        """None for what begins no attempt, or does not say any more in whose hands."""
        name = _worker(stored) if stored.header.kind == "task.started" else None
        if name is None:
            return None
        if name in self._known:
            return self._known[name].children
        return self.unrecorded.setdefault(name, Unrecorded(name)).children


def _worker(stored: StoredEvent) -> str | None:
    name = payload_of(stored).get("worker")
    return name if isinstance(name, str) and name else None


def _all(node: Node) -> Iterable[Node]:
    yield node
    for child in node.children:
        yield from _all(child)


def _with_a_part(nodes: Sequence[Node]) -> list[Node]:
    """Those with an attempt somewhere below; with a process also how it ended."""
    kept = []
    for node in nodes:
        if node.stored.header.kind == "task.started":
            kept.append(node)
            continue
        below = _with_a_part(node.children)
        if below:
            ends = [child for child in node.children if child.stored.header.kind == WorkerExited.kind]
            kept.append(Node(node.stored, [*below, *ends]))
    return kept
