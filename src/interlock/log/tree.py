"""Rebuilds the tree of events from their parents."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from interlock.log.kinds import merge_payload
from interlock.log.read import StoredEvent


@dataclass(slots=True)
class EventNode:
    stored: StoredEvent
    children: list["EventNode"] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {**event_json(self.stored), "children": [child.as_json() for child in self.children]}

    def walk(self, depth: int = 0) -> Iterator[tuple[int, StoredEvent]]:
        yield depth, self.stored
        for child in self.children:
            yield from child.walk(depth + 1)


def build_tree(events: Iterable[StoredEvent]) -> list[EventNode]:
    """The roots, in order. An event whose parent is not among the given ones is a root.

    A parent may follow its children: processes write about each other.
    """
    nodes = {stored.header.id: EventNode(stored) for stored in events}
    roots: list[EventNode] = []
    for node in nodes.values():
        parent = nodes.get(node.stored.header.parent) if node.stored.header.parent else None
        (parent.children if parent else roots).append(node)
    return roots


def payload_of(stored: StoredEvent) -> dict[str, Any]:
    """Facts and content together; for erased content, the facts alone."""
    return merge_payload(stored.facts, stored.content)


def event_json(stored: StoredEvent) -> dict[str, Any]:
    """One event as the command line and the page show it; an export has what its hashes cover."""
    return {
        **header_json(stored),
        "payload": payload_of(stored),
        "is_erased": stored.is_erased,
        **hashes_json(stored),
    }


def header_json(stored: StoredEvent) -> dict[str, Any]:
    header = stored.header
    return {
        "id": header.id,
        "time_us": header.time_us,
        "stream": header.stream,
        "seq": header.seq,
        "task": header.task,
        "parent": header.parent,
        "kind": header.kind,
    }


def hashes_json(stored: StoredEvent) -> dict[str, Any]:
    return {
        "content_hash": None if stored.content_hash is None else stored.content_hash.hex(),
        "prev_hash": stored.prev_hash.hex(),
        "hash": stored.hash.hex(),
        "cursor": str(stored.cursor),
    }
