"""What the MCP conformance suite drives: our own client, against the address that it is given.

It lists what the server offers and calls each tool once, with the plainest arguments that fit its schema.
"""

import asyncio
import sys
from typing import Any

from interlock.redaction.redactor import Redactor
from interlock.tools.mcp.connection import McpConnection
from interlock.tools.mcp.definition import McpToolDefinition
from interlock.tools.mcp.server import McpServerError
from interlock.tools.mcp.transports import http_streams

_PLAIN: dict[str, Any] = {"number": 2, "integer": 2, "boolean": True, "array": [], "object": {}}


def arguments_for(tool: McpToolDefinition) -> dict[str, Any]:
    named = tool.schema.get("properties", {})
    return {name: _PLAIN.get(part.get("type"), "text") for name, part in named.items()}


async def _ignore(*_: object) -> None:
    pass


async def main(url: str) -> int:
    connection = McpConnection(lambda own: http_streams(url, {}, own.end), Redactor(), lambda: None)
    try:
        await connection.open()
        for tool in await connection.tools():
            await connection.call(tool.name, arguments_for(tool), _ignore)
    except McpServerError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        await connection.close()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[-1])))
