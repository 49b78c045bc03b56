"""Stores servers, their listed tools and classes, under the log's chain.

Each change is one transaction with its events, and one more row in `mcp_changes`: its number tells every
process whether its cached catalog is current.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from interlock.core.errors import UserError
from interlock.core.text import sanitize_text
from interlock.db.database import Database
from interlock.db.driver import DbConnection, Row
from interlock.log.hash_chain import now_us
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.mcp_events import (
    McpNameClash,
    McpServerAdded,
    McpServerRemoved,
    McpToolChanged,
    McpToolClassed,
    McpToolsListed,
)
from interlock.log.writer import EventLog, Transaction
from interlock.tools.mcp.server_config import McpServerConfig, UnknownServer
from interlock.tools.mcp.tool_classification import ToolClassification
from interlock.tools.mcp.tool_definitions import NAME_CLASH, ListedTool, McpToolDefinition
from interlock.tools.mcp.tool_names import exposed_name

MAX_SERVERS = 50
# The number of names in one event.
MAX_TOLD = 50

NEWEST = "SELECT version FROM mcp_changes ORDER BY version DESC LIMIT 1"
CHANGE = "INSERT INTO mcp_changes (version, server, changed_by, time_us) VALUES (?, ?, ?, ?)"
SERVERS = "SELECT id, definition, added_by, added_us FROM mcp_servers ORDER BY id"
SERVER = "SELECT id, definition, added_by, added_us FROM mcp_servers WHERE id = ?"
ADD_SERVER = "INSERT INTO mcp_servers (id, definition, added_by, added_us) VALUES (?, ?, ?, ?)"
_COLUMNS = "server, name, hash, definition, problem, is_listed, class"
TOOLS = f"SELECT {_COLUMNS} FROM mcp_tools ORDER BY server, name"  # noqa: S608
TOOLS_OF = f"SELECT {_COLUMNS} FROM mcp_tools WHERE server = ? ORDER BY name"  # noqa: S608
PUT_TOOL = f"""
INSERT INTO mcp_tools ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, 1, NULL)
ON CONFLICT (server, name) DO UPDATE SET
    hash = excluded.hash, definition = excluded.definition, problem = excluded.problem, is_listed = 1
"""  # noqa: S608
UNLIST = "UPDATE mcp_tools SET is_listed = 0 WHERE server = ? AND name = ?"
FORGET_TOOL = "DELETE FROM mcp_tools WHERE server = ? AND name = ?"
CLASS = "UPDATE mcp_tools SET class = ? WHERE server = ? AND name = ?"
REMOVE_TOOLS = "DELETE FROM mcp_tools WHERE server = ?"
REMOVE_SERVER = "DELETE FROM mcp_servers WHERE id = ?"


class ToolNotListed(UserError):
    code = "MCP_TOOL_NOT_FOUND"


class DefinitionChanged(UserError):
    code = "MCP_TOOL_CHANGED"


@dataclass(frozen=True, slots=True)
class StoredMcpTool:
    """A tool as last listed, and its class. The class applies while its hash is the definition's."""

    name: str
    hash: str
    definition: McpToolDefinition | None
    problem: str
    is_listed: bool
    given: ToolClassification | None

    @property
    def state(self) -> str:
        """The state in one word, as `mcp inspect` and the page show it."""
        if not self.is_listed:
            return "gone"
        if self.problem:
            return "unusable"
        if self.given is None:
            return "unclassed"
        return "classed" if self.given.hash == self.hash else "changed"


@dataclass(frozen=True, slots=True)
class StoredMcpServer:
    server: McpServerConfig
    added_by: str
    added_us: int
    tools: Mapping[str, StoredMcpTool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredMcpServers:
    """Everything stored, at one version."""

    version: int = 0
    servers: Mapping[str, StoredMcpServer] = field(default_factory=dict)

    def server(self, server_id: str) -> StoredMcpServer:
        if server_id not in self.servers:
            raise UnknownServer(
                f"there is no MCP server '{server_id}'; to list the servers: interlock mcp list"
            )
        return self.servers[server_id]


class McpRepository:
    def __init__(self, database: Database, log: EventLog) -> None:
        self._database = database
        self._log = log
        self._shelf = StoredMcpServers()

    async def catalog(self) -> StoredMcpServers:
        """The current catalog, cached by version: it is requested before every turn."""
        rows = await self._database.fetch(NEWEST)
        version = rows[0][0] if rows else 0
        if version != self._shelf.version:
            self._shelf = await self._database.read(read_catalog)
        return self._shelf

    async def add(self, server: McpServerConfig, *, who: str) -> None:
        def work(transaction: Transaction) -> None:
            _begin(transaction)
            connection = transaction.connection
            known = [row[0] for row in connection.query(SERVERS)]
            if server.id in known:
                raise UserError(
                    f"the MCP server '{server.id}' already exists; remove it first: interlock mcp "
                    f"remove {server.id}"
                )
            if len(known) >= MAX_SERVERS:
                raise UserError(f"there are already {MAX_SERVERS} MCP servers; remove one first")
            document = orjson.dumps(server.as_dict()).decode()
            connection.change(ADD_SERVER, (server.id, document, who, now_us()))
            transaction.record(
                McpServerAdded(
                    who=who, server=server.id, transport=server.transport, definition=server.as_dict()
                )
            )
            _changed(connection, server.id, who)

        await self._log.transact(SYSTEM_STREAM, work)

    async def remove(self, server_id: str, *, who: str) -> None:
        def work(transaction: Transaction) -> None:
            _begin(transaction)
            connection = transaction.connection
            _known(connection, server_id)
            connection.change(REMOVE_TOOLS, (server_id,))
            connection.change(REMOVE_SERVER, (server_id,))
            transaction.record(McpServerRemoved(who=who, server=server_id))
            _changed(connection, server_id, who)

        await self._log.transact(SYSTEM_STREAM, work, on_full_disk=True)

    async def seen(self, server_id: str, listed: Sequence[ListedTool]) -> None:
        """Record a server's list of tools. Writes nothing if it is unchanged."""
        before = (await self.catalog()).servers.get(server_id)
        if before is None or not _differs(before.tools, listed):
            return

        def work(transaction: Transaction) -> None:
            _begin(transaction)
            connection = transaction.connection
            if not connection.query(SERVER, (server_id,)):
                return
            known = _tools(connection.query(TOOLS_OF, (server_id,))).get(server_id, {})
            if _differs(known, listed):
                _store_listing(transaction, server_id, known, listed)
                _changed(connection, server_id, f"server:{server_id}")

        await self._log.transact(SYSTEM_STREAM, work)

    async def set_class(
        self, server_id: str, tool: str, given: ToolClassification | None, *, who: str
    ) -> None:
        """Set a tool's class. `given` must match the stored definition; None removes the class."""

        def work(transaction: Transaction) -> None:
            _begin(transaction)
            connection = transaction.connection
            known = _known(connection, server_id).tools.get(tool)
            if known is None:
                raise ToolNotListed(f"{server_id} has no tool '{sanitize_text(tool)[:100]}'")
            if given is not None and (known.hash != given.hash or not known.is_listed or known.problem):
                raise DefinitionChanged(f"{tool} has changed in the meantime; inspect it again")
            encoded = None if given is None else orjson.dumps(given.as_dict()).decode()
            connection.change(CLASS, (encoded, server_id, tool))
            if given is None and not known.is_listed:
                connection.change(FORGET_TOOL, (server_id, tool))
            transaction.record(_classed(server_id, tool, known, given, who))
            _changed(connection, server_id, who)

        await self._log.transact(SYSTEM_STREAM, work)


def _classed(
    server_id: str, tool: str, known: StoredMcpTool, given: ToolClassification | None, who: str
) -> McpToolClassed:
    taken_away: dict[str, Any] = {"group": "", "effect": "", "modes": []}
    shown = given.as_dict() if given is not None else taken_away
    return McpToolClassed(
        who=who,
        server=server_id,
        tool=tool,
        name=exposed_name(server_id, tool),
        group=shown["group"],
        effect=shown["effect"],
        modes=shown["modes"],
        definition_hash=known.hash,
        vouched=given is not None and given.is_vouched,
    )


# -- rows --


def read_catalog(connection: DbConnection) -> StoredMcpServers:
    newest = connection.query(NEWEST)
    tools = _tools(connection.query(TOOLS))
    servers = {row[0]: _server(row, tools.get(row[0], {})) for row in connection.query(SERVERS)}
    return StoredMcpServers(newest[0][0] if newest else 0, servers)


def _known(connection: DbConnection, server_id: str) -> StoredMcpServer:
    rows = connection.query(SERVER, (server_id,))
    if not rows:
        raise UnknownServer(f"there is no MCP server '{sanitize_text(server_id)[:40]}'")
    return _server(rows[0], _tools(connection.query(TOOLS_OF, (server_id,))).get(server_id, {}))


def _server(row: Row, tools: Mapping[str, StoredMcpTool]) -> StoredMcpServer:
    server_id, document, added_by, added_us = row
    return StoredMcpServer(
        McpServerConfig.from_dict(server_id, orjson.loads(document)), added_by, added_us, tools
    )


def _tools(rows: list[Row]) -> dict[str, dict[str, StoredMcpTool]]:
    found: dict[str, dict[str, StoredMcpTool]] = {}
    for server, name, digest, document, problem, is_listed, given in rows:
        found.setdefault(server, {})[name] = StoredMcpTool(
            name=name,
            hash=digest,
            definition=_definition(name, digest, document) if document else None,
            problem=problem,
            is_listed=bool(is_listed),
            given=ToolClassification.from_dict(orjson.loads(given)) if given else None,
        )
    return found


def _definition(name: str, digest: str, document: str) -> McpToolDefinition:
    stored = orjson.loads(document)
    return McpToolDefinition(
        name, stored["description"], stored["schema"], stored["output_schema"], stored["hints"], digest
    )


def _begin(transaction: Transaction) -> None:
    """Serialise changes: a second one waits here and builds on the first."""
    transaction.next_seq()


def _changed(connection: DbConnection, server_id: str, who: str) -> None:
    newest = connection.query(NEWEST)
    version = (newest[0][0] if newest else 0) + 1
    connection.change(CHANGE, (version, server_id, who, now_us()))


# -- a listing --


def _differs(known: Mapping[str, StoredMcpTool], listed: Sequence[ListedTool]) -> bool:
    present = {name: (tool.hash, tool.problem) for name, tool in known.items() if tool.is_listed}
    return present != {tool.name: (tool.hash, tool.problem) for tool in listed}


def _store_listing(
    transaction: Transaction,
    server_id: str,
    known: Mapping[str, StoredMcpTool],
    listed: Sequence[ListedTool],
) -> None:
    connection, fresh = transaction.connection, {tool.name: tool for tool in listed}
    gone = [name for name, tool in known.items() if tool.is_listed and name not in fresh]
    added = [name for name in fresh if name not in known or not known[name].is_listed]
    for name in gone:
        connection.change(UNLIST if known[name].given else FORGET_TOOL, (server_id, name))
    for tool in listed:
        document = None if tool.definition is None else orjson.dumps(tool.definition.as_dict()).decode()
        connection.change(PUT_TOOL, (server_id, tool.name, tool.hash, document, tool.problem))
    unusable = {name: tool.problem for name, tool in fresh.items() if tool.problem}
    transaction.record(
        McpToolsListed(
            server=server_id,
            added=added[:MAX_TOLD],
            gone=gone[:MAX_TOLD],
            unusable=dict(list(unusable.items())[:MAX_TOLD]),
        )
    )
    _record_changes(transaction, server_id, known, listed)


def _record_changes(
    transaction: Transaction,
    server_id: str,
    known: Mapping[str, StoredMcpTool],
    listed: Sequence[ListedTool],
) -> None:
    for tool in listed:
        before, name = known.get(tool.name), exposed_name(server_id, tool.name)
        if before is not None and before.hash != tool.hash:
            transaction.record(
                McpToolChanged(
                    server=server_id,
                    tool=tool.name,
                    name=name,
                    from_hash=before.hash,
                    to_hash=tool.hash,
                    was_classed=before.given is not None,
                )
            )
        if tool.problem == NAME_CLASH and (before is None or before.problem != NAME_CLASH):
            transaction.record(McpNameClash(server=server_id, tool=tool.name, name=name))
