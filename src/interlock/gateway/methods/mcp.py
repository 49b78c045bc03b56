"""MCP servers: listing, inspecting and classifying their tools.

Servers cannot be added here: a command given over a socket would run on this machine. A person can classify
only within the modes that the operator opened and the limits that the server's sandbox enforces.
"""

from typing import Annotated

from pydantic import Field

from interlock.gates.mcp_administration import ClassifyRequest
from interlock.gateway.methods.base import Method, MethodCall
from interlock.gateway.protocol import MethodParams, NoParams
from interlock.gateway.services import Json

ServerId = Annotated[str, Field(min_length=1, max_length=20, pattern=r"^[a-z0-9-]+$")]
ToolName = Annotated[str, Field(min_length=1, max_length=256)]
Word = Annotated[str, Field(min_length=1, max_length=20)]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class McpServerIdParams(MethodParams):
    server: ServerId


class McpToolClass(MethodParams):
    tool: ToolName
    effect: Word
    modes: Annotated[list[Word], Field(min_length=1, max_length=10)]
    # The hash of the reviewed definition.
    hash: Hash
    group: Word = "mcp"

    def request(self) -> ClassifyRequest:
        return ClassifyRequest(effect=self.effect, modes=self.modes, group=self.group, hash=self.hash)


class McpAllowParams(McpToolClass):
    server: ServerId


class McpClassifyParams(MethodParams):
    server: ServerId
    tools: Annotated[list[McpToolClass], Field(min_length=1, max_length=200)]


class McpRemoveParams(MethodParams):
    server: ServerId
    tool: ToolName | None = None


async def list_servers(call: MethodCall[NoParams]) -> Json:
    return await call.services.mcp.servers()


async def inspect(call: MethodCall[McpServerIdParams]) -> Json:
    return await call.services.mcp.inspect(call.params.server, is_operator=False)


async def allow(call: MethodCall[McpAllowParams]) -> Json:
    given = call.params
    return await call.services.mcp.allow(
        given.server, given.tool, given.request(), who=call.who, is_operator=False
    )


async def classify(call: MethodCall[McpClassifyParams]) -> Json:
    given = [(each.tool, each.request()) for each in call.params.tools]
    return await call.services.mcp.classify(call.params.server, given, who=call.who, is_operator=False)


async def remove(call: MethodCall[McpRemoveParams]) -> Json:
    return await call.services.mcp.remove(call.params.server, call.params.tool, who=call.who)


METHODS = (
    Method("mcp.list", NoParams, list_servers, only_reads=True),
    Method("mcp.inspect", McpServerIdParams, inspect),
    Method("mcp.allow", McpAllowParams, allow),
    Method("mcp.classify", McpClassifyParams, classify),
    Method("mcp.remove", McpRemoveParams, remove),
)
