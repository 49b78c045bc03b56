"""What is asked after a hostile MCP server did its worst: is it gone, and does the rest still work?"""

import asyncio
from pathlib import Path

from tests.integration.mcp.stand import HOSTILE, QUICK, Stand


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


async def still_works(stand: Stand) -> None:
    """Another server, and a tool of our own, after whatever happened."""
    await stand.add("good", *QUICK, str(HOSTILE), "well")
    await stand.inspect("good")
    await stand.allow("good", "echo")
    await stand.switch_on("bad", "good")
    assert (await stand.call("good__echo", text="fine")).stdout == "fine"
    assert (await stand.call("current_time")).ok
