"""Interlock's gates within a program of your own. Run it: .venv/bin/python examples/embed.py"""

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
        print("offered:", ", ".join(entry["function"]["name"] for entry in await session.offered()))
        for name, arguments in [
            ("count_words", {"text": "two gates stand before every tool"}),
            ("read_file", {"path": "src/greet.py"}),
            ("write_file", {"path": "notes.txt", "content": "overwritten"}),
        ]:
            result = await session.call(name, arguments)
            print(f"{name}:", result.failure.message if result.failure else result.stdout.strip())
        report = await gates.verify()
        print(f"log verified: {report.ok}, {report.events} events; interlock events tree {session.id}")


if __name__ == "__main__":
    asyncio.run(main())
