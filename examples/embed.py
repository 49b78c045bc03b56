"""Interlock's gates in your own program. Run it: .venv/bin/python examples/embed.py"""

import asyncio
from pathlib import Path

from interlock.embed import open_gates, tool


@tool(modes=["chat", "coding"], effect="read")
def count_words(text: str) -> str:
    """Count the words of a text."""
    return f"{len(text.split())} words"


async def main() -> None:
    folder = Path(__file__).parent / "playground"
    async with open_gates(modes=["chat"], roots=[folder], tools=[count_words]) as gates:
        session = await gates.session("chat", title="embedded")
        print("offered:", *(entry["function"]["name"] for entry in await session.offered()))
        print(await session.call("count_words", {"text": "two gates stand before every tool"}))
        print(await session.call("read_file", {"path": "src/greet.py"}))
        print(await session.call("write_file", {"path": "notes.txt", "content": "overwritten"}))
        report = await gates.verify()
        print(f"log verified: {report.ok}, {report.events} events; interlock events tree {session.id}")


asyncio.run(main())
