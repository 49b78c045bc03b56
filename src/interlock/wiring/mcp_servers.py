"""MCP servers and their tools: builds the service, and serves the command line and the page.

At the command line the person is the operator. Remote users can view, classify and remove what the operator
added, as far as the operator opened modes and the policy lists the server; they can add nothing, since a
command given remotely would be run here.
"""

import shlex
from typing import TYPE_CHECKING, Any

from interlock.config.modes import ToolMode, parse_mode
from interlock.config.settings import Settings
from interlock.core.errors import BadUsage, InterlockError, UserError
from interlock.db.database import Database
from interlock.log.writer import EventLog
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.policy.policy_fields import ToolPolicy, meet_mcp
from interlock.redaction.redactor import Redactor
from interlock.tools.mcp.connection_pool import McpConnectionPool
from interlock.tools.mcp.lazy_sandbox import LazySandbox
from interlock.tools.mcp.repository import McpRepository, StoredMcpServer
from interlock.tools.mcp.server_config import AddServerRequest
from interlock.tools.mcp.server_job import LaunchCeiling
from interlock.tools.mcp.service import McpService, tool_json
from interlock.tools.mcp.tool_classification import ClassifyRequest
from interlock.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from interlock.wiring.runtime import Runtime

__all__ = [
    "AddServerRequest",
    "ClassifyRequest",
    "add",
    "allow",
    "inspect",
    "list_servers",
    "open_mcp",
    "remove",
]

# For the tools that wait to be classified.
MAX_STEPS_SHOWN = 3

Json = dict[str, Any]


class McpServerClosed(UserError):
    """The policy does not allow this server."""

    code = "MCP_SERVER_CLOSED"


class McpServerUnreachable(UserError):
    code = "MCP_SERVER_FAILED"


def open_mcp(
    settings: Settings,
    database: Database,
    log: EventLog,
    redactor: Redactor,
    registry: ToolRegistry,
    authority_inputs: AuthorityInputs,
    walls: LazySandbox,
) -> McpService:
    """No server is started, and the library is not imported, before a server is used."""
    here = authority_inputs.capabilities
    grounds = LaunchCeiling(
        roots=here.roots,
        readable_paths=here.readable_paths,
        network_ports=settings.tool.network_ports if settings.tool.shell_network else frozenset(),
        protected_names=here.protected_names,
        own_folders=(settings.state_dir, settings.workspace_dir),
    )
    hub = McpConnectionPool(grounds, walls, redactor, log)
    return McpService(McpRepository(database, log), hub, registry, redactor)


def allowed_servers(authority_inputs: AuthorityInputs, stored: ToolPolicy) -> frozenset[str] | None:
    """The servers that any agent could use; None if the system lists none, so that agents' own lists apply.

    Other servers are stopped.
    """
    # Called before every turn, so only this part of the policies is merged.
    merged = meet_mcp(authority_inputs.environment.mcp, stored.mcp)
    return frozenset() if merged.enabled is False else merged.allowed_servers


# -- actions --


async def add(runtime: "Runtime", request: AddServerRequest, *, who: str) -> Json:
    """Only for the operator, at the command line."""
    try:
        runtime.settings.reject_sensitive_roots((path.resolve() for path in request.readable), "--readable")
    except ValueError as error:
        raise BadUsage(str(error)) from None
    server, unreadable = await runtime.mcp.add(request, who=who)
    known = (await runtime.mcp.book.catalog()).server(server.id)
    return await _server_json(runtime, known) | {"unreadable": unreadable}


async def list_servers(runtime: "Runtime") -> Json:
    catalog = await runtime.mcp.book.catalog()
    servers = [await _server_json(runtime, known) for known in catalog.servers.values()]
    shown: Json = runtime.redactor.value({"version": catalog.version, "servers": servers})
    return shown


async def inspect(runtime: "Runtime", server_id: str, *, is_operator: bool) -> Json:
    """Start the server, if needed, and list its tools. Redacted: its texts may quote its secrets."""
    (await runtime.mcp.book.catalog()).server(server_id)
    if closed := await _why_closed(runtime, server_id, is_operator=is_operator):
        raise McpServerClosed(closed)
    try:
        known, calls_itself, advice = await runtime.mcp.inspect(server_id)
    except UserError:
        raise
    except InterlockError as error:
        raise McpServerUnreachable(runtime.redactor.text(f"{server_id}: {error}")) from error
    shown: Json = runtime.redactor.value(
        await _server_json(runtime, known)
        | {
            "calls_itself": calls_itself,
            "instructions": advice,
            "offered": [tool_json(server_id, tool) for tool in known.tools.values()],
        }
    )
    return shown


async def allow(
    runtime: "Runtime", server_id: str, tool: str, request: ClassifyRequest, *, who: str, is_operator: bool
) -> Json:
    """Classify a tool. Remote users: only a reviewed definition, without vouching, and for open modes."""
    if not is_operator:
        _refuse_beyond(request, runtime.authority_inputs.open_modes)
    found = await runtime.mcp.allow(server_id, tool, request, who=who)
    known = (await runtime.mcp.book.catalog()).server(server_id)
    shown = tool_json(server_id, known.tools.get(found.name, found))
    told: Json = runtime.redactor.value({"tool": shown, "server": await _server_json(runtime, known)})
    return told


async def remove(runtime: "Runtime", server_id: str, tool: str | None, *, who: str) -> Json:
    await runtime.mcp.remove(server_id, tool, who=who)
    return {"server": server_id, "tool": tool}


def _refuse_beyond(request: ClassifyRequest, open_modes: frozenset[ToolMode]) -> None:
    if request.is_vouched:
        raise BadUsage("only the operator can vouch for a tool, at the command line")
    if not request.hash:
        raise BadUsage("the hash of the reviewed definition is missing")
    try:
        beyond = {parse_mode(mode) for mode in request.modes} - open_modes
    except ValueError as error:
        raise BadUsage(str(error)) from None
    if beyond:
        names = ", ".join(sorted(mode.value for mode in beyond))
        raise BadUsage(f"{names}: not open on this deployment, so tools cannot be classified for it here")


# -- views --


async def _server_json(runtime: "Runtime", known: StoredMcpServer) -> Json:
    server = known.server
    states = [tool.state for tool in known.tools.values()]
    return {
        "id": server.id,
        "transport": server.transport,
        **server.as_dict(),
        "added_by": known.added_by,
        "added_us": known.added_us,
        "modes": [mode.value for mode in ToolMode if mode in server.fitting_modes()],
        "tools": {state: states.count(state) for state in sorted(set(states))},
        "unavailable": await runtime.mcp.why_not(server),
        "closed": await _why_closed(runtime, server.id, is_operator=False),
        "next": await _next_steps(runtime, known),
    }


async def _why_closed(runtime: "Runtime", server_id: str, *, is_operator: bool) -> str:
    """The policy that closes it; empty if none does. The operator may inspect before opening."""
    ceiling = runtime.authority_inputs.environment.mcp
    if ceiling.enabled is False:
        return "the operator has disabled MCP servers (TOOL_MCP_ENABLED)"
    if ceiling.allowed_servers is not None and server_id not in ceiling.allowed_servers:
        return f"the operator does not allow {server_id} (TOOL_MCP_SERVERS)"
    if is_operator:
        return ""
    stored = (await runtime.stored_settings.current()).settings.tools.mcp
    if stored.enabled is False:
        return "MCP servers are disabled in the stored settings (tools.mcp.enabled)"
    if stored.allowed_servers is None:
        # Where only one side lists servers, its list applies.
        unlisted = (
            f"no settings allow {server_id} (tools.mcp.allowed_servers); only agents that list it "
            "can use it"
        )
        return "" if ceiling.allowed_servers is not None else unlisted
    if server_id not in stored.allowed_servers:
        return f"the stored settings do not allow {server_id} (tools.mcp.allowed_servers)"
    return ""


async def _next_steps(runtime: "Runtime", known: StoredMcpServer) -> list[str]:
    """The commands that are still missing before an agent can use one of its tools."""
    server_id, steps = known.server.id, []
    states = {tool.state for tool in known.tools.values()}
    if not states:
        steps.append(f"interlock mcp inspect {server_id}")
    if "classed" not in states:
        steps += _classing_steps(known)
    stored = (await runtime.stored_settings.current()).settings.tools.mcp
    if stored.enabled is False:
        steps.append("interlock settings set tools.mcp.enabled true")
    ceiling = runtime.authority_inputs.environment.mcp.allowed_servers
    is_listed = server_id in (stored.allowed_servers or ())
    if not is_listed and (stored.allowed_servers is not None or ceiling is None):
        listed = ", ".join(f'"{name}"' for name in sorted({*(stored.allowed_servers or ()), server_id}))
        steps.append(f"interlock settings set tools.mcp.allowed_servers '[{listed}]'")
    return steps


def _classing_steps(known: StoredMcpServer) -> list[str]:
    """The person decides what a tool does: the server's own hint is not filled in for them."""
    waiting = [tool for tool in known.tools.values() if tool.state in {"unclassed", "changed"}]
    named = [(shlex.quote(tool.name), tool.hash[:12]) for tool in waiting[:MAX_STEPS_SHOWN]]
    return [
        f"interlock mcp allow {known.server.id} {name} --effect EFFECT --modes coding --hash {digest}"
        for name, digest in named or [("TOOL", "HASH")]
    ]
