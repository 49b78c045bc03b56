"""Administration of MCP servers and their tools, for the command line and the page.

At the command line the person is the operator. Remote users can view, classify and remove what the operator
added, as far as the operator opened modes and the policy lists the server; they can add nothing, since a
command given remotely would be run here.
"""

import asyncio
import json
import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from interlock.config.modes import ToolGroup, ToolMode, parse_mode
from interlock.core.errors import BadUsage, InterlockError, UserError
from interlock.core.text import to_visible_line
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.policy.policy_fields import ToolPolicy
from interlock.redaction.redactor import Redactor
from interlock.tools.mcp.definition import (
    MAX_TITLE_CHARS,
    ClassifyRequest,
    StoredMcpTool,
    ToolClassification,
    definition_changes,
    exposed_name,
    proposed_class,
)
from interlock.tools.mcp.repository import DefinitionChanged, StoredMcpServer
from interlock.tools.mcp.server import AddServerRequest
from interlock.tools.mcp.service import MIN_HASH_CHARS, McpService

__all__ = ["AddServerRequest", "ClassifyRequest", "McpAdministration"]

# For the tools that wait to be classified.
MAX_STEPS_SHOWN = 3

Json = dict[str, Any]
# Each with the name of its tool.
ClassifyRequests = Sequence[tuple[str, ClassifyRequest]]


class McpServerClosed(UserError):
    """The policy does not allow this server."""

    code = "MCP_SERVER_CLOSED"


class McpServerUnreachable(UserError):
    code = "MCP_SERVER_FAILED"


class McpAdministration:
    def __init__(
        self,
        service: McpService,
        redactor: Redactor,
        authority_inputs: AuthorityInputs,
        stored_policy: Callable[[], Awaitable[ToolPolicy]],
        reject_sensitive_roots: Callable[[Iterable[Path], str], None],
    ) -> None:
        self._service = service
        self._redactor = redactor
        self._authority_inputs = authority_inputs
        self._stored_policy = stored_policy
        self._reject_sensitive_roots = reject_sensitive_roots

    async def add(self, request: AddServerRequest, *, who: str) -> Json:
        """Only for the operator, at the command line."""
        try:
            self._reject_sensitive_roots((path.resolve() for path in request.readable), "--readable")
        except ValueError as error:
            raise BadUsage(str(error)) from None
        server, unreadable = await self._service.add(request, who=who)
        known = (await self._service.repository.catalog()).server(server.id)
        return await self._server_json(known) | {"unreadable": unreadable}

    async def servers(self) -> Json:
        catalog = await self._service.repository.catalog()
        servers = [await self._server_json(known) for known in catalog.servers.values()]
        shown: Json = self._redactor.value({"version": catalog.version, "servers": servers})
        return shown

    async def inspect(self, server_id: str, *, is_operator: bool) -> Json:
        """Start the server, if needed, and list its tools. Redacted: its texts may quote its secrets."""
        known, calls_itself, advice = await self._listed(server_id, is_operator=is_operator)
        # In a thread: comparing two hundred definitions takes a while.
        offered = await asyncio.to_thread(lambda: [self._tool_json(known, t) for t in known.tools.values()])
        shown: Json = self._redactor.value(
            await self._server_json(known)
            | {
                "calls_itself": calls_itself,
                "instructions": advice,
                "proposal": _proposal_hash(known),
                "offered": offered,
            }
        )
        return shown

    async def allow(
        self, server_id: str, tool: str, request: ClassifyRequest, *, who: str, is_operator: bool
    ) -> Json:
        """Classify a tool. Remote users: only a reviewed definition, not vouched for, for open modes."""
        shown = await self._classify(server_id, [(tool, request)], who, is_operator=is_operator)
        return {"tool": shown["tools"][0], "server": shown["server"]}

    async def classify(
        self,
        server_id: str,
        requests: ClassifyRequests,
        *,
        who: str,
        is_operator: bool,
    ) -> Json:
        """Classify tools that wait in one step, all or none.

        The server is asked for its listing once more: a definition, or annotation, that changed since it
        was reviewed is refused.
        """
        await self._listed(server_id, is_operator=is_operator)
        waiting = [(name, replace(request, only_if_waiting=True)) for name, request in requests]
        return await self._classify(server_id, waiting, who, is_operator=is_operator)

    async def accept(
        self,
        server_id: str,
        proposal: str,
        others: Mapping[str, tuple[str, tuple[str, ...]] | None],
        *,
        who: str,
    ) -> Json:
        """Classify the tools that wait as their server's claims propose, for the operator.

        `proposal` is the hash of what was shown. `others` has another effect and modes for a tool, or None
        to leave it out.
        """
        known, _, _ = await self._listed(server_id, is_operator=True)
        if len(proposal) < MIN_HASH_CHARS or not _proposal_hash(known).startswith(proposal):
            raise DefinitionChanged(
                f"this is not the present proposal for {server_id}; review it again: interlock mcp "
                f"classify {server_id}"
            )
        wanted = {
            tool.name: ClassifyRequest(
                effect=made.effect.value,
                modes=tuple(map(str, made.modes)),
                group=made.group.value,
                hash=tool.hash,
                only_if_waiting=True,
            )
            for tool in known.tools.values()
            if (made := proposed_class(known.server, tool)) is not None
        }
        for name, other in others.items():
            if name not in known.tools:
                raise BadUsage(f"{server_id} has no tool '{name[:64]}'")
            wanted.pop(name, None)
            if other is not None:
                tool, (effect, modes) = known.tools[name], other
                group = tool.given.group if tool.given is not None else ToolGroup.mcp
                wanted[name] = ClassifyRequest(
                    effect=effect, modes=modes, group=group.value, hash=tool.hash
                )
        return await self._classify(server_id, list(wanted.items()), who, is_operator=True)

    async def remove(self, server_id: str, tool: str | None, *, who: str) -> Json:
        await self._service.remove(server_id, tool, who=who)
        return {"server": server_id, "tool": tool}

    async def _listed(self, server_id: str, *, is_operator: bool) -> tuple[StoredMcpServer, str, str]:
        (await self._service.repository.catalog()).server(server_id)
        if closed := await self._why_closed(server_id, is_operator=is_operator):
            raise McpServerClosed(closed)
        try:
            return await self._service.inspect(server_id)
        except UserError:
            raise
        except InterlockError as error:
            raise McpServerUnreachable(self._redactor.text(f"{server_id}: {error}")) from error

    async def _classify(
        self,
        server_id: str,
        requests: ClassifyRequests,
        who: str,
        *,
        is_operator: bool,
    ) -> Json:
        if not is_operator:
            for _, request in requests:
                _refuse_beyond(request, self._authority_inputs.open_modes)
        names = await self._service.classify(server_id, requests, who=who)
        known = (await self._service.repository.catalog()).server(server_id)
        tools = [self._tool_json(known, known.tools[name]) for name in names if name in known.tools]
        shown: Json = self._redactor.value({"tools": tools, "server": await self._server_json(known)})
        return shown

    # -- views --

    def _tool_json(self, known: StoredMcpServer, tool: StoredMcpTool) -> Json:
        """A tool for display. Title, description, hints and proposal are its server's own claims."""
        definition = tool.definition
        proposed = proposed_class(known.server, tool)
        return {
            "tool": tool.name,
            "name": exposed_name(known.server.id, tool.name),
            "state": tool.state,
            "problem": tool.problem,
            "hash": tool.hash,
            "title": to_visible_line(definition.title, MAX_TITLE_CHARS) if definition else "",
            "description": definition.shown_description if definition else "",
            "schema": dict(definition.schema) if definition else {},
            "hints": dict(definition.hints) if definition else {},
            "suggested_effect": definition.suggested_effect if definition else "",
            "proposal": _shown_proposal(proposed),
            "changes": definition_changes(tool, self._redactor),
            "class": None if tool.given is None else tool.given.as_dict(),
        }

    async def _server_json(self, known: StoredMcpServer) -> Json:
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
            "unavailable": await self._service.why_not(server),
            "closed": await self._why_closed(server.id, is_operator=False),
            "next": await self._next_steps(known),
        }

    async def _why_closed(self, server_id: str, *, is_operator: bool) -> str:
        """The policy that closes it; empty if none does. The operator may inspect before opening."""
        ceiling = self._authority_inputs.environment.mcp
        if ceiling.enabled is False:
            return "the operator has disabled MCP servers (TOOL_MCP_ENABLED)"
        if ceiling.allowed_servers is not None and server_id not in ceiling.allowed_servers:
            return f"the operator does not allow {server_id} (TOOL_MCP_SERVERS)"
        if is_operator:
            return ""
        stored = (await self._stored_policy()).mcp
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

    async def _next_steps(self, known: StoredMcpServer) -> list[str]:
        """The commands that are still missing before an agent can use one of its tools."""
        server_id, steps = known.server.id, []
        states = {tool.state for tool in known.tools.values()}
        if not states:
            steps.append(f"interlock mcp inspect {server_id}")
        if "classed" not in states:
            steps += _classing_steps(known)
        stored = (await self._stored_policy()).mcp
        if stored.enabled is False:
            steps.append("interlock settings set tools.mcp.enabled true")
        ceiling = self._authority_inputs.environment.mcp.allowed_servers
        is_listed = server_id in (stored.allowed_servers or ())
        if not is_listed and (stored.allowed_servers is not None or ceiling is None):
            listed = ", ".join(f'"{name}"' for name in sorted({*(stored.allowed_servers or ()), server_id}))
            steps.append(f"interlock settings set tools.mcp.allowed_servers '[{listed}]'")
        return steps


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


def _classing_steps(known: StoredMcpServer) -> list[str]:
    """The person decides what a tool does: the server's own hint is not filled in for them."""
    waiting = [tool for tool in known.tools.values() if tool.state in {"unclassed", "changed"}]
    named = [(shlex.quote(tool.name), tool.hash[:12]) for tool in waiting[:MAX_STEPS_SHOWN]]
    at_once = [f"interlock mcp classify {known.server.id}"] if len(waiting) > 1 else []
    return at_once + [
        f"interlock mcp allow {known.server.id} {name} --effect EFFECT --modes coding --hash {digest}"
        for name, digest in named or [("TOOL", "HASH")]
    ]


def _shown_proposal(proposed: ToolClassification | None) -> Json | None:
    if proposed is None:
        return None
    return {
        name: value for name, value in proposed.as_dict().items() if name in {"group", "effect", "modes"}
    }


def _proposal_hash(known: StoredMcpServer) -> str:
    """Of what a proposal follows from: the server's grants and the definitions with their annotations."""
    tools = {tool.name: tool.hash for tool in known.tools.values() if tool.is_listed and not tool.problem}
    text = json.dumps([known.server.id, known.server.as_dict(), tools], sort_keys=True)
    return sha256(text.encode()).hexdigest()
