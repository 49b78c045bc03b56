"""Servers of foreign tools: what there is, what they offer, and classing it.

Nobody adds one from here: a command that is named over a socket would be run on this machine. What a
person can class is bounded by the modes that the operator opened and by what the server's own walls hold.
"""

from typing import Annotated

from pydantic import Field

from interlock.gateway.methods.base import Call, Method
from interlock.gateway.protocol import NoParams, Params
from interlock.gateway.services import Class, Json

ServerId = Annotated[str, Field(min_length=1, max_length=20, pattern=r"^[a-z0-9-]+$")]
ToolName = Annotated[str, Field(min_length=1, max_length=256)]
Word = Annotated[str, Field(min_length=1, max_length=20)]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class OneServer(Params):
    server: ServerId


class Allow(Params):
    server: ServerId
    tool: ToolName
    effect: Word
    modes: Annotated[list[Word], Field(min_length=1, max_length=10)]
    # Of the definition that was looked at.
    hash: Hash
    group: Word = "mcp"


class Remove(Params):
    server: ServerId
    tool: ToolName | None = None


async def list_servers(call: Call[NoParams]) -> Json:
    return await call.services.mcp.list()


async def inspect(call: Call[OneServer]) -> Json:
    return await call.services.mcp.inspect(call.params.server)


async def allow(call: Call[Allow]) -> Json:
    given = call.params
    wish = Class(given.effect, tuple(given.modes), given.group, given.hash)
    return await call.services.mcp.allow(given.server, given.tool, wish, call.who)


async def remove(call: Call[Remove]) -> Json:
    return await call.services.mcp.remove(call.params.server, call.params.tool, call.who)


METHODS = (
    Method("mcp.list", NoParams, list_servers, only_reads=True),
    Method("mcp.inspect", OneServer, inspect),
    Method("mcp.allow", Allow, allow),
    Method("mcp.remove", Remove, remove),
)
