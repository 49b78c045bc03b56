"""Reports at intervals that an image is still pending."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

PROGRESS_SECONDS = 3.0


class ReceivedBytes:
    """How much of the answer has come so far."""

    def __init__(self) -> None:
        self.bytes = 0

    def __call__(self, so_far: int) -> None:
        self.bytes = so_far


@asynccontextmanager
async def periodic_progress(report: Callable[[str], None]) -> AsyncIterator[ReceivedBytes]:
    received = ReceivedBytes()
    ticking = asyncio.ensure_future(_tick(report, received))
    try:
        yield received
    finally:
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)


async def _tick(report: Callable[[str], None], received: ReceivedBytes) -> None:
    began = asyncio.get_running_loop().time()
    while True:
        await asyncio.sleep(PROGRESS_SECONDS)
        seconds = asyncio.get_running_loop().time() - began
        if received.bytes:
            report(f"{received.bytes} bytes received after {seconds:.0f} seconds")
        else:
            report(f"waiting for the image, {seconds:.0f} seconds so far")
