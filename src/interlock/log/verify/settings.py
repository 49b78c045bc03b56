"""Compares the rows of MCP servers with their events."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from interlock.db.driver import DbConnection
from interlock.log.event import Event
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.mcp_events import McpServerAdded, McpServerRemoved, McpToolClassed
from interlock.log.read import StoredEvent

SERVERS = "SELECT id, definition FROM mcp_servers ORDER BY id"
CLASSES = "SELECT server, name, class FROM mcp_tools WHERE class IS NOT NULL ORDER BY server, name"
# A backup of an older schema is checked before it is upgraded.
IS_THERE = "SELECT 1 FROM sqlite_schema WHERE name = ?"

Difference = tuple[int, str, str]
_OF_SERVERS = frozenset(event.kind for event in (McpServerAdded, McpServerRemoved, McpToolClassed))


@dataclass(slots=True)
class _Server:
    seq: int
    definition: dict[str, Any]
    # By the tools' names: the event's number, and the class.
    classes: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)


class SettingsVerifier:
    """Collects servers from the events of the `system` stream."""

    def __init__(self) -> None:
        self._servers: dict[str, _Server] = {}

    def take(self, stored: StoredEvent) -> None:
        header = stored.header
        if header.stream != SYSTEM_STREAM:
            return
        if header.kind in _OF_SERVERS:
            self._take(header.seq, stored.event())

    def _take(self, seq: int, event: Event) -> None:
        match event:
            case McpServerAdded(server=server, definition=definition):
                self._servers[server] = _Server(seq, definition)
            case McpServerRemoved(server=server):
                self._servers.pop(server, None)
            case McpToolClassed() if (known := self._servers.get(event.server)) is not None:
                known.classes.pop(event.tool, None)
                if event.modes:
                    known.classes[event.tool] = (seq, _given(event))
            case _:
                pass

    def compare(self, connection: DbConnection, stream: str) -> Iterator[Difference]:
        """Where rows and events disagree: the event's number, broken or missing, and the detail."""
        if stream != SYSTEM_STREAM:
            return
        if _is_there(connection, "mcp_tools"):
            yield from self._of_servers({str(row[0]): row[1] for row in connection.query(SERVERS)})
            yield from self._of_classes(
                {(str(row[0]), str(row[1])): orjson.loads(row[2]) for row in connection.query(CLASSES)}
            )

    def _of_servers(self, rows: dict[str, str]) -> Iterator[Difference]:
        for name, told in self._servers.items():
            if name not in rows:
                yield told.seq, "missing", f"the row of the MCP server {name} is missing"
            elif orjson.loads(rows[name]) != told.definition:
                yield told.seq, "broken", f"the MCP server {name} was changed"
        for name in sorted(rows.keys() - self._servers.keys()):
            yield 0, "broken", f"no event describes the MCP server {name}"

    def _of_classes(self, rows: dict[tuple[str, str], dict[str, Any]]) -> Iterator[Difference]:
        told = {
            (server, tool): given
            for server, known in self._servers.items()
            for tool, given in known.classes.items()
        }
        for (server, tool), (seq, given) in told.items():
            row = rows.get((server, tool))
            if row is None:
                yield seq, "missing", f"the class of {tool} of the MCP server {server} is missing"
            elif {name: row.get(name) for name in given} != given:
                yield seq, "broken", f"the class of {tool} of the MCP server {server} was changed"
        for server, tool in sorted(rows.keys() - told.keys()):
            yield 0, "broken", f"no event describes the class of {tool} of the MCP server {server}"


def _is_there(connection: DbConnection, table: str) -> bool:
    return connection.dialect != "sqlite" or bool(connection.query(IS_THERE, (table,)))


def _given(event: McpToolClassed) -> dict[str, Any]:
    return {
        "group": event.group,
        "effect": event.effect,
        "modes": event.modes,
        "hash": event.definition_hash,
        "vouched": event.vouched,
    }
