"""What is asked after a hostile MCP server did its worst: is it gone, and does the rest still work?"""

import asyncio
from pathlib import Path

from tests.harness.mcp import HOSTILE, QUICK, McpHarness


def processes_with(word: str) -> list[int]:
    """Every hostile server that was started with this word."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if word.encode() in words and str(HOSTILE).encode() in words:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


async def until_gone(word: str) -> bool:
    for _ in range(200):
        if not processes_with(word):
            return True
        await asyncio.sleep(0.05)
    return False


async def still_works(mcp: McpHarness) -> None:
    """Another server, and a tool of our own, after whatever happened."""
    await mcp.add("good", *QUICK, str(HOSTILE), "well")
    await mcp.inspect("good")
    await mcp.allow("good", "echo")
    await mcp.switch_on("bad", "good")
    assert (await mcp.call("good__echo", text="fine")).stdout == "fine"
    assert (await mcp.call("current_time")).ok
