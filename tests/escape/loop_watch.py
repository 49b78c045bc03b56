"""How long the event loop is held up, as far as it is held up by what is tested."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path


class Holds:
    longest_seconds = 0.0


@asynccontextmanager
async def watched_loop() -> AsyncIterator[Holds]:
    """What it waits for a processor that other programs have is no fault of ours, and is not counted."""
    holds, is_over = Holds(), asyncio.Event()

    async def watch() -> None:
        while not is_over.is_set():
            began, waited = time.monotonic(), _waited_seconds()
            await asyncio.sleep(0.001)
            took = time.monotonic() - began - (_waited_seconds() - waited)
            holds.longest_seconds = max(holds.longest_seconds, took)

    watching = asyncio.ensure_future(watch())
    try:
        yield holds
    finally:
        is_over.set()
        await watching


def _waited_seconds() -> float:
    """How long this thread was ready to run and did not, since it began; the kernel may not count it."""
    with suppress(OSError, IndexError):
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    return 0.0
