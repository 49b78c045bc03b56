"""Stores servers, their listed tools and classes, under the log's chain.

Each change is one transaction with its events, and one more row in `mcp_changes`: its number tells every
process whether its cached catalog is current.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from interlock.core.errors import UserError
from interlock.core.text import sanitize_text
from interlock.db.database import Database
from interlock.db.driver import DbConnection
from interlock.log.event import Event
from interlock.log.hash_chain import EventHeader, now_us
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.mcp_events import (
    McpNameClash,
    McpServerAdded,
    McpServerRemoved,
    McpToolChanged,
    McpToolClassed,
    McpToolListed,
    McpToolsListed,
)
from interlock.log.projections import ProjectedRow, Projection
from interlock.log.writer import EventLog, Transaction
from interlock.tools.mcp.definition import (
    CLASSIFICATION,
    NAME_CLASH,
    McpToolDefinition,
    StoredMcpTool,
    ToolClassification,
    exposed_name,
    make_definition,
)
from interlock.tools.mcp.server import McpServerConfig, UnknownServer

MAX_SERVERS = 50

NEWEST = "SELECT version FROM mcp_changes ORDER BY version DESC LIMIT 1"
CHANGE = "INSERT INTO mcp_changes (version, server, changed_by, time_us) VALUES (?, ?, ?, ?)"
SERVERS = "SELECT id, definition, added_by, added_us FROM mcp_servers ORDER BY id"
TOOLS = (
    "SELECT server, name, hash, definition, problem, is_listed, class FROM mcp_tools ORDER BY server, name"
)
STORE_DEFINITION = "UPDATE mcp_tools SET definition = ? WHERE server = ? AND name = ?"


class ToolNotListed(UserError):
    code = "MCP_TOOL_NOT_FOUND"


class DefinitionChanged(UserError):
    code = "MCP_TOOL_CHANGED"


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
                f"there is no MCP server '{sanitize_text(server_id)[:40]}'; to list the servers: interlock "
                "mcp list"
            )
        return self.servers[server_id]


class McpRepository:
    def __init__(self, database: Database, log: EventLog) -> None:
        self._database = database
        self._log = log
        self._cached = StoredMcpServers()

    async def catalog(self) -> StoredMcpServers:
        """The current catalog, cached by version: it is requested before every turn."""
        rows = await self._database.fetch(NEWEST)
        if (rows[0][0] if rows else 0) != self._cached.version:
            self._cached = await self._database.read(read_catalog)
        return self._cached

    async def add(self, server: McpServerConfig, *, who: str) -> None:
        def work(transaction: Transaction) -> None:
            known = _begin(transaction).servers
            if server.id in known:
                raise UserError(
                    f"the MCP server '{server.id}' already exists; remove it first: interlock mcp "
                    f"remove {server.id}"
                )
            if len(known) >= MAX_SERVERS:
                raise UserError(f"there are already {MAX_SERVERS} MCP servers; remove one first")
            transaction.record(
                McpServerAdded(
                    who=who, server=server.id, transport=server.transport, definition=server.as_dict()
                )
            )
            _changed(transaction.connection, server.id, who)

        await self._log.transact(SYSTEM_STREAM, work)

    async def remove(self, server_id: str, *, who: str) -> None:
        def work(transaction: Transaction) -> None:
            _begin(transaction).server(server_id)
            transaction.record(McpServerRemoved(who=who, server=server_id))
            _changed(transaction.connection, server_id, who)

        await self._log.transact(SYSTEM_STREAM, work, on_full_disk=True)

    async def record_listing(self, server_id: str, listed: Sequence[StoredMcpTool]) -> None:
        """Record a server's list of tools. Writes nothing if it is unchanged."""
        before = (await self.catalog()).servers.get(server_id)
        if before is None or not _differs(before.tools, listed):
            return

        def work(transaction: Transaction) -> None:
            known = _begin(transaction).servers.get(server_id)
            if known is not None and _differs(known.tools, listed):
                _store_listing(transaction, server_id, known.tools, listed)
                _changed(transaction.connection, server_id, f"server:{server_id}")

        await self._log.transact(SYSTEM_STREAM, work)

    async def set_classes(
        self,
        server: McpServerConfig,
        given: Mapping[str, ToolClassification | None],
        *,
        who: str,
        waiting: Collection[str] = (),
    ) -> None:
        """Set classes of tools, all or none; None removes one. A class that a tool has is not set again.

        Each must be of the stored definition, and the server be the one that they were made for. Those
        `waiting` must have no other class for that definition.
        """

        def work(transaction: Transaction) -> None:
            known = _begin(transaction).server(server.id)
            if known.server != server:
                raise DefinitionChanged(f"{server.id} was replaced in the meantime; inspect it again")
            _refuse_classified(known, {tool: given[tool] for tool in waiting})
            events = [_classed(known, tool, each, who) for tool, each in given.items()]
            for event in filter(None, events):
                transaction.record(event)
            if any(events):
                _changed(transaction.connection, server.id, who)

        await self._log.transact(SYSTEM_STREAM, work)


def _refuse_classified(server: StoredMcpServer, given: Mapping[str, ToolClassification | None]) -> None:
    """A proposal never replaces the class that another person gave meanwhile: it may be wider."""
    for name, proposed in given.items():
        tool = server.tools.get(name)
        if (
            tool is not None
            and tool.state == "classed"
            and tool.given
            and not tool.given.is_same_as(proposed)
        ):
            raise DefinitionChanged(
                f"{name} was classified by {tool.given.by} in the meantime; inspect it again"
            )


def _classed(
    server: StoredMcpServer, tool: str, given: ToolClassification | None, who: str
) -> McpToolClassed | None:
    known = server.tools.get(tool)
    if known is None:
        raise ToolNotListed(f"{server.server.id} has no tool '{sanitize_text(tool)[:100]}'")
    if given is not None and (known.hash != given.hash or not known.is_listed or known.problem):
        raise DefinitionChanged(f"{tool} has changed in the meantime; inspect it again")
    if given is not None and given.is_same_as(known.given):
        return None
    removed: dict[str, Any] = {"group": "", "effect": "", "modes": []}
    shown = given.as_dict() if given is not None else removed
    return McpToolClassed(
        who=who,
        server=server.server.id,
        tool=tool,
        name=exposed_name(server.server.id, tool),
        group=shown["group"],
        effect=shown["effect"],
        modes=shown["modes"],
        definition_hash=known.hash,
        vouched=given is not None and given.vouched,
    )


# -- rows --


def read_catalog(connection: DbConnection) -> StoredMcpServers:
    newest = connection.query(NEWEST)
    tools: dict[str, dict[str, StoredMcpTool]] = {}
    for server, name, digest, document, problem, is_listed, encoded in connection.query(TOOLS):
        stored = orjson.loads(document) if document else {}
        given = CLASSIFICATION.validate_json(encoded) if encoded else None
        reviewed = _definition(name, stored.get("reviewed"))
        tools.setdefault(server, {})[name] = StoredMcpTool(
            name=name,
            hash=digest,
            definition=_definition(name, stored, digest),
            problem=problem,
            is_listed=bool(is_listed),
            given=given,
            # It is shown as what was classified, so it must be that.
            reviewed=reviewed if given and reviewed and reviewed.hash == given.hash else None,
        )
    servers = {
        server_id: StoredMcpServer(
            McpServerConfig.from_dict(server_id, orjson.loads(document)),
            added_by,
            added_us,
            tools.get(server_id, {}),
        )
        for server_id, document, added_by, added_us in connection.query(SERVERS)
    }
    return StoredMcpServers(newest[0][0] if newest else 0, servers)


def _definition(name: str, stored: dict[str, Any] | None, digest: str = "") -> McpToolDefinition | None:
    """The stored definition, with the hash of its row if that is given."""
    if not stored or "schema" not in stored:
        return None
    made = make_definition(
        name,
        stored["description"],
        stored["schema"],
        stored["output_schema"],
        stored["hints"],
        stored.get("title", ""),
    )
    return replace(made, hash=digest) if digest else made


def _begin(transaction: Transaction) -> StoredMcpServers:
    """What is stored. Serialises changes: a second one waits here and builds on the first."""
    transaction.next_seq()
    return read_catalog(transaction.connection)


def _changed(connection: DbConnection, server_id: str, who: str) -> None:
    newest = connection.query(NEWEST)
    version = (newest[0][0] if newest else 0) + 1
    connection.change(CHANGE, (version, server_id, who, now_us()))


# -- a listing --


def _differs(known: Mapping[str, StoredMcpTool], listed: Sequence[StoredMcpTool]) -> bool:
    present = {name: (tool.hash, tool.problem) for name, tool in known.items() if tool.is_listed}
    return present != {tool.name: (tool.hash, tool.problem) for tool in listed}


def _store_listing(
    transaction: Transaction,
    server_id: str,
    known: Mapping[str, StoredMcpTool],
    listed: Sequence[StoredMcpTool],
) -> None:
    names = {tool.name for tool in listed}
    added = [tool.name for tool in listed if tool.name not in known or not known[tool.name].is_listed]
    transaction.record(
        McpToolsListed(
            server=server_id,
            added=added,
            gone=[name for name, tool in known.items() if tool.is_listed and name not in names],
            unusable={tool.name: tool.problem for tool in listed if tool.problem},
        )
    )
    for tool in listed:
        before, name = known.get(tool.name), exposed_name(server_id, tool.name)
        if before is None or _differs({tool.name: before}, [tool]):
            transaction.record(
                McpToolListed(
                    server=server_id, tool=tool.name, definition_hash=tool.hash, problem=tool.problem
                )
            )
        transaction.connection.change(STORE_DEFINITION, (_document(tool, before), server_id, tool.name))
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


def _document(tool: StoredMcpTool, before: StoredMcpTool | None) -> str | None:
    """The definition, with the one that was classified as long as it is another."""
    document = tool.definition.as_dict() if tool.definition is not None else {}
    if before is not None and before.given is not None and before.given.hash != tool.hash:
        reviewed = before.definition if before.given.hash == before.hash else before.reviewed
        if reviewed is not None:
            document["reviewed"] = reviewed.as_dict()
    return orjson.dumps(document).decode() if document else None


# -- projections --


def _evolve_server(
    _row: ProjectedRow | None, event: McpServerAdded | McpServerRemoved, header: EventHeader
) -> ProjectedRow | None:
    if isinstance(event, McpServerRemoved):
        return None
    return {
        "id": event.server,
        "definition": orjson.dumps(event.definition).decode(),
        "added_by": event.who,
        "added_us": header.time_us,
    }


def _tools_of(event: Event, _header: EventHeader) -> list[ProjectedRow]:
    match event:
        case McpToolsListed(server=server, gone=gone):
            return [{"server": server, "name": name} for name in gone]
        case McpToolListed(server=server, tool=tool) | McpToolClassed(server=server, tool=tool):
            return [{"server": server, "name": tool}]
        case McpServerRemoved(server=server):
            return [{"server": server}]
        case _:
            return []


def _evolve_tool(row: ProjectedRow | None, event: Event, _header: EventHeader) -> ProjectedRow | None:
    match event:
        case McpToolListed(server=server, tool=tool):
            listed = {"hash": event.definition_hash, "problem": event.problem, "is_listed": 1}
            return (row or {"server": server, "name": tool, "class": None}) | listed
        case McpToolsListed() if row is not None:
            # A tool that is gone keeps its class.
            return row | {"is_listed": 0} if row["class"] else None
        case McpToolClassed() if row is not None:
            given = _encoded_class(event) if event.modes else None
            return row | {"class": given} if given or row["is_listed"] else None
        case _:
            return None


def _encoded_class(event: McpToolClassed) -> str:
    given = {
        "group": event.group,
        "effect": event.effect,
        "modes": event.modes,
        "hash": event.definition_hash,
        "vouched": event.vouched,
        "by": event.who,
    }
    return orjson.dumps(given).decode()


MCP_SERVERS = Projection(
    table="mcp_servers",
    noun="MCP server",
    key=("id",),
    columns=("definition", "added_by", "added_us"),
    kinds=(McpServerAdded, McpServerRemoved),
    rows_of=lambda event, _header: [{"id": event.server}],
    evolve=_evolve_server,
)
# The definition is not covered, but its hash is.
MCP_TOOLS = Projection(
    table="mcp_tools",
    noun="MCP tool",
    key=("server", "name"),
    columns=("hash", "problem", "is_listed", "class"),
    kinds=(McpToolsListed, McpToolListed, McpToolClassed, McpServerRemoved),
    rows_of=_tools_of,
    evolve=_evolve_tool,
    outlasting=("problem",),
)
