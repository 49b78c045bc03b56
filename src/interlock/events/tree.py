"""Rebuilds the tree of causes from the log: who enclosed what."""

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any

import orjson

from interlock.events.feed import StoredEvent
from interlock.infra.records import dataclass


@dataclass(slots=True)
class Node:
    stored: StoredEvent
    children: list["Node"] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {**event_json(self.stored), "children": [child.as_json() for child in self.children]}

    def walk(self, depth: int = 0) -> Iterator[tuple[int, StoredEvent]]:
        yield depth, self.stored
        for child in self.children:
            yield from child.walk(depth + 1)


def build_tree(events: Iterable[StoredEvent]) -> list[Node]:
    """The roots, in order. An event whose parent is not among the given ones is a root itself.

    Processes tell of one another: there what stands under an event may have been written before it.
    """
    nodes = {stored.header.id: Node(stored) for stored in events}
    roots: list[Node] = []
    for node in nodes.values():
        parent = nodes.get(node.stored.header.parent) if node.stored.header.parent else None
        (parent.children if parent else roots).append(node)
    return roots


def payload_of(stored: StoredEvent) -> Any:
    """What the row says; where somebody made it something else than JSON, the raw text."""
    if stored.payload is None:
        return None
    try:
        return orjson.loads(stored.payload)
    except orjson.JSONDecodeError:
        return {"not_json": stored.payload}


def event_json(stored: StoredEvent) -> dict[str, Any]:
    """One event as the command line, exports and frames show it."""
    header = stored.header
    return {
        "id": header.id,
        "time_us": header.time_us,
        "stream": header.stream,
        "seq": header.seq,
        "task": header.task,
        "parent": header.parent,
        "kind": header.kind,
        "payload": payload_of(stored),
        "payload_hash": stored.payload_hash.hex(),
        "prev_hash": stored.prev_hash.hex(),
        "hash": stored.hash.hex(),
        "cursor": str(stored.cursor),
    }
