"""What every contestant is asked to do, and how what it cost is measured."""

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

SYSTEM = "You are an assistant. Use the tools."
ASKED = "Read the files and tell what is in them."
TOOL = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Read a text file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string", "description": "The file."}},
            "required": ["path"],
        },
    },
}
KEY = "sk-double-4d1f0b7c9a2e8853"
WARM_UP = 10


@dataclass(frozen=True)
class Work:
    base_url: str
    folder: str
    calls: int
    pieces: int
    sessions: int
    at_once: int

    @property
    def model(self) -> str:
        return f"work-{self.calls}-{self.pieces}-read_file"

    @property
    def answer(self) -> str:
        return "".join(f"word{number} " for number in range(self.pieces))

    def read_file(self, path: str) -> str:
        return (Path(self.folder) / path).read_text()


def perform(session: Callable[[Work], Awaitable[str]], work: Work, loop: asyncio.AbstractEventLoop) -> None:
    """Run the sessions, see that each did its work, and print what one of them cost.

    All that was imported until now is what the contestant is made of.
    """
    import_s, rss_mb = time.process_time(), _rss() / 2**20

    async def checked() -> None:
        said = await session(work)
        assert said.strip() == work.answer.strip(), said[:200]

    async def all_of_them(count: int) -> None:
        gate = asyncio.Semaphore(work.at_once)

        async def one() -> None:
            async with gate:
                await checked()

        await asyncio.gather(*(one() for _ in range(count)))

    loop.run_until_complete(all_of_them(min(WARM_UP, work.sessions)))
    before, began = _rss(), time.process_time()
    loop.run_until_complete(all_of_them(work.sessions))
    spent = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    told = {
        "cpu_ms": spent / work.sessions * 1000,
        "kb_at_once": (peak - before) / work.at_once / 1024,
        "import_s": import_s,
        "rss_mb": rss_mb,
    }
    print(json.dumps(told))


def work_given() -> Work:
    return Work(**json.loads(sys.argv[1]))


def _rss() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
