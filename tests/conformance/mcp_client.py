"""What the MCP conformance suite drives: our own client, against the address that it is given.

It lists what the server offers and calls each tool once, with the plainest arguments that fit its schema.
"""

import asyncio
import sys
from typing import Any

from interlock.redaction.redactor import Redactor
from interlock.tools.mcp.connection import Connection
from interlock.tools.mcp.definitions import Definition
from interlock.tools.mcp.http import http_streams
from interlock.tools.mcp.trouble import ServerTrouble

_PLAIN: dict[str, Any] = {"number": 2, "integer": 2, "boolean": True, "array": [], "object": {}}


def arguments_for(tool: Definition) -> dict[str, Any]:
    named = tool.schema.get("properties", {})
    return {name: _PLAIN.get(part.get("type"), "text") for name, part in named.items()}


async def _ignore(*_: object) -> None:
    pass


async def main(url: str) -> int:
    connection = Connection(lambda own: http_streams(url, {}, own.end), Redactor(), lambda: None)
    try:
        await connection.open()
        for tool in await connection.tools():
            await connection.call(tool.name, arguments_for(tool), _ignore)
    except ServerTrouble as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        await connection.close()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[-1])))
