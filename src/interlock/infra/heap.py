"""How much memory that was given back the C library keeps."""

import asyncio
import ctypes

# Of glibc's <malloc.h>.
_M_ARENA_MAX = -8
HEAPS = 2
TRIM_SECONDS = 60.0


def share_heaps() -> bool:
    """Let all threads take from two heaps. To be called before there are threads.

    Else each gets one of its own and keeps in it what it gave back: a process that runs for days would
    hold a little more with every hour. Where the C library knows nothing of it, nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_M_ARENA_MAX, HEAPS) == 1


async def keep_trim() -> None:
    """Give the system back what lies free between things that are held, every minute, until cancelled.

    Else a process that reads and answers for hours comes to hold a tenth more than it uses.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while trim is not None:
        await asyncio.sleep(TRIM_SECONDS)
        await asyncio.to_thread(trim, 0)
