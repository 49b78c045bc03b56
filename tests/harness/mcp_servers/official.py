"""A server made with the official library: over stdio, or with `--http PORT` over streamable HTTP."""

import sys

from mcp.server import MCPServer

server = MCPServer("official")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


@server.tool()
def fail() -> str:
    """Fail every time."""
    raise ValueError("as promised")


if __name__ == "__main__":
    if "--http" in sys.argv:
        server.run(
            transport="streamable-http", host="127.0.0.1", port=int(sys.argv[sys.argv.index("--http") + 1])
        )
    else:
        server.run()
