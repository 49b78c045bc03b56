"""Operations on servers, and their tools in the registry.

The rows are the source; `refresh` updates the registry whenever they changed, in every process by the same
rule. So schemas, verdicts and displays follow from one version.
"""

import asyncio
from collections.abc import Sequence

from interlock.config.modes import ToolMode
from interlock.core.errors import BadUsage, StoreError
from interlock.core.logging import StructuredLogger
from interlock.redaction.redactor import Redactor
from interlock.tools.mcp.definition import (
    NAME_CLASH,
    ClassifyRequest,
    McpToolDefinition,
    StoredMcpTool,
    ToolClassification,
    check_listing,
    exposed_name,
    make_tool_class,
)
from interlock.tools.mcp.launch import first_unreadable_path
from interlock.tools.mcp.pool import McpConnectionPool, library_missing
from interlock.tools.mcp.repository import (
    DefinitionChanged,
    McpRepository,
    StoredMcpServer,
    StoredMcpServers,
    ToolNotListed,
)
from interlock.tools.mcp.server import AddServerRequest, McpServerConfig, McpServerError, make_server
from interlock.tools.mcp.tool import McpTool
from interlock.tools.registry import ToolRegistry
from interlock.tools.tool import mcp_server

# The minimum interval at which a server that announces changes is listed again.
LOOK_AGAIN_SECONDS = 5.0
# So that an unreviewed definition is not classified by accident.
MIN_HASH_CHARS = 12

_log = StructuredLogger(__name__)


class McpService:
    def __init__(
        self,
        repository: McpRepository,
        pool: McpConnectionPool,
        registry: ToolRegistry,
        redactor: Redactor,
    ) -> None:
        self.repository = repository
        self.pool = pool
        self._registry = registry
        self._redactor = redactor
        self._made: dict[tuple[str, str], tuple[tuple[McpServerConfig, StoredMcpTool, str], McpTool]] = {}
        self._version = 0
        self._allowed: frozenset[str] | None = None
        self._refreshing = asyncio.Lock()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._looks: set[asyncio.Task[None]] = set()
        pool.on_listing_changed = self._look_again_soon

    # -- registry --

    async def refresh(self, allowed: frozenset[str] | None = None, *, newest: int | None = None) -> None:
        """Update the registry from the store, and stop servers that are not `allowed` (None: all are).

        `newest` is the stored version, if the caller has read it already.
        """
        version = (await self.repository.catalog()).version if newest is None else newest
        if version == self._version and allowed == self._allowed:
            return
        # One at a time: two would build two objects of one tool, and an Authority identifies tools by
        # object.
        async with self._refreshing:
            await self._bring_to(await self.repository.catalog(), allowed)

    async def _bring_to(self, catalog: StoredMcpServers, allowed: frozenset[str] | None) -> None:
        self._allowed = allowed
        tools = [
            await self._tool(known.server, tool, await self._why_unavailable(known.server, tool))
            for known in catalog.servers.values()
            for tool in known.tools.values()
            # Not with a clashing name, nor if unusable and never classified.
            if tool.problem != NAME_CLASH and (tool.given is not None or tool.state == "unclassed")
        ]
        self._made = {key: made for key, made in self._made.items() if made[1] in tools}
        for name, fault in self._registry.replace_foreign(tools).items():
            _log.error("mcp_tool_not_registered", tool_name=name, fault=fault)
        kept = {name: known.server for name, known in catalog.servers.items()}
        self.pool.keep_only({name: kept[name] for name in kept if allowed is None or name in allowed})
        self._version = catalog.version

    async def _tool(self, server: McpServerConfig, known: StoredMcpTool, unavailable: str) -> McpTool:
        """The same object while nothing about it changed: an Authority identifies its tools by object."""
        key, content = (server.id, known.name), (server, known, unavailable)
        if key not in self._made or self._made[key][0] != content:
            # In a thread: its schemas are checked.
            made = await asyncio.to_thread(McpTool, server, known, unavailable, self)
            self._made[key] = (content, made)
        return self._made[key][1]

    async def _why_unavailable(self, server: McpServerConfig, tool: StoredMcpTool) -> str:
        if tool.state == "changed":
            return (
                "its definition changed since it was classified; interlock mcp inspect "
                f"{server.id} shows it, interlock mcp allow classifies it again"
            )
        if tool.state == "gone":
            return f"the server {server.id} no longer offers it"
        return tool.problem or await self.why_not(server, tool)

    async def why_not(self, server: McpServerConfig, tool: StoredMcpTool | None = None) -> str:
        """Why a server cannot be used on this machine; empty if it can."""
        if reason := library_missing() or self.pool.ceiling.why_not(server):
            return reason
        if not server.is_local:
            return ""
        sandbox = await self.pool.sandbox.choice()
        if sandbox.backend is None:
            return f"its server cannot be confined ({sandbox.reason})"
        given = tool.given if tool is not None else None
        if given and not sandbox.is_confined and not given.vouched and given.modes - {ToolMode.coding}:
            return f"its server cannot be kept from writing ({sandbox.reason})"
        return ""

    # -- listings --

    async def record_listing(
        self, server_id: str, found: Sequence[McpToolDefinition], *, anew: bool = False
    ) -> None:
        """Record a listing. `anew`: also check unchanged tools, since what is refused may have changed."""
        known = (await self.repository.catalog()).servers.get(server_id)
        if known is not None and not anew:
            # It is compared before every call, and not checked again.
            before = {tool.name: tool.hash for tool in known.tools.values() if tool.is_listed}
            if len(before) == len(found) and before == {each.name: each.hash for each in found}:
                return
        own = [entry.tool for entry in self._registry if mcp_server(entry.tool) is None]
        taken = [name for tool in own for name in (tool.name, *tool.aliases)]
        # Two hundred large schemas take a while to check.
        listed = await asyncio.to_thread(check_listing, server_id, found, self._redactor, taken)
        await self.repository.record_listing(server_id, listed)

    def _look_again_soon(self, server_id: str) -> None:
        def look_again() -> None:
            self._timers.pop(server_id, None)
            looking = asyncio.ensure_future(self._look(server_id))
            self._looks.add(looking)
            looking.add_done_callback(self._looks.discard)

        if server_id not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[server_id] = loop.call_later(LOOK_AGAIN_SECONDS, look_again)

    async def _look(self, server_id: str) -> None:
        try:
            known = (await self.repository.catalog()).servers.get(server_id)
            connection = self.pool.running(known.server) if known is not None else None
            if connection is not None:
                await self.record_listing(server_id, await connection.tools())
        except (McpServerError, StoreError) as error:
            _log.info("mcp_server_not_listed", server=server_id, reason=str(error))

    # -- operations --

    async def add(self, request: AddServerRequest, *, who: str) -> tuple[McpServerConfig, str]:
        """Add a server; returns it, and a path it will not be able to read, if known beforehand."""
        server = make_server(request, self._redactor)
        if reason := self.pool.ceiling.tampering_risk(server):
            raise BadUsage(reason)
        missing = first_unreadable_path(server, self.pool.ceiling) if server.is_local else None
        await self.repository.add(server, who=who)
        return server, str(missing) if missing is not None else ""

    async def inspect(self, server_id: str) -> tuple[StoredMcpServer, str, str]:
        """List the server's tools; returns what is stored then, its own name, and its instructions."""
        server = (await self.repository.catalog()).server(server_id).server
        async with self.pool.using(server) as (connection, state):
            await self.record_listing(server_id, await connection.tools(), anew=True)
            state.failures = 0
            about = connection.calls_itself, connection.instructions
        return (await self.repository.catalog()).server(server_id), *about

    async def classify(
        self, server_id: str, requests: Sequence[tuple[str, ClassifyRequest]], *, who: str
    ) -> list[str]:
        """Classify tools as last listed, all or none of them; returns their names."""
        known = (await self.repository.catalog()).server(server_id)
        made = [_made_class(known, name, request, who) for name, request in requests]
        given = dict(made)
        if len(given) < len(requests):
            raise BadUsage("a tool can be classified only once in one step")
        waiting = [
            tool for (tool, _), (_, request) in zip(made, requests, strict=True) if request.only_if_waiting
        ]
        await self.repository.set_classes(known.server, given, who=who, waiting=waiting)
        return list(given)

    async def remove(self, server_id: str, tool: str | None, *, who: str) -> None:
        """Remove a tool's class, or the whole server."""
        if tool is None:
            await self.repository.remove(server_id, who=who)
            await self.pool.forget(server_id)
            return
        known = (await self.repository.catalog()).server(server_id)
        found = _find(known, tool)
        if found is None or found.given is None:
            raise ToolNotListed(f"{server_id} has no classified tool '{tool[:64]}'")
        await self.repository.set_classes(known.server, {found.name: None}, who=who)

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        for looking in list(self._looks):
            looking.cancel()
        await asyncio.gather(*self._looks, return_exceptions=True)
        await self.pool.close()


def _find(known: StoredMcpServer, name: str) -> StoredMcpTool | None:
    """A tool by its own name, or the name it has here."""
    by_name = {exposed_name(known.server.id, tool.name): tool for tool in known.tools.values()}
    return known.tools.get(name) or by_name.get(name)


def _made_class(
    known: StoredMcpServer, name: str, request: ClassifyRequest, who: str
) -> tuple[str, ToolClassification]:
    server_id, found = known.server.id, _find(known, name)
    if found is None:
        raise ToolNotListed(
            f"{server_id} did not offer '{name[:64]}' when it was last inspected; to check "
            f"again: interlock mcp inspect {server_id}"
        )
    if found.problem or not found.is_listed:
        raise BadUsage(f"{found.name} cannot be used: {found.problem or 'the server no longer offers it'}")
    if len(request.hash) < MIN_HASH_CHARS:
        raise BadUsage(
            f"name the definition you reviewed: --hash with at least {MIN_HASH_CHARS} "
            f"characters of the hash that interlock mcp inspect {server_id} shows"
        )
    if not found.hash.startswith(request.hash):
        raise DefinitionChanged(
            f"{found.name} is not the definition you reviewed; check again: interlock mcp "
            f"inspect {server_id}"
        )
    return found.name, make_tool_class(request, known.server, found.hash, who)
