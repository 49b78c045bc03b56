"""How much memory that was given back the C library keeps."""

import ctypes

# Of glibc's <malloc.h>.
_M_ARENA_MAX = -8
HEAPS = 2


def share_heaps() -> bool:
    """Let all threads take from two heaps. To be called before there are threads.

    Else each gets one of its own and keeps in it what it gave back: a process that runs for days would
    hold a little more with every hour. Where the C library knows nothing of it, nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_M_ARENA_MAX, HEAPS) == 1
