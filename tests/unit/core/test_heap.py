"""A process of many threads takes its memory from two heaps, and gives back what nobody uses."""

import re
import subprocess
import sys

import pytest

# Each heap that the C library has beside the first is told in its own words.
PROGRAM = """
import ctypes, sys, threading
from interlock.core.memory_tuning import limit_malloc_arenas
if sys.argv[1] == "shared":
    assert limit_malloc_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
all_here = threading.Barrier(12)
def take():
    all_here.wait()
    assert libc.malloc(ctypes.c_size_t(4096))
    all_here.wait()
threads = [threading.Thread(target=take) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc.malloc_stats()
"""

# A large block is given back; the next one is to lie by itself all the same.
LARGE = """
import ctypes, sys
from interlock.core.memory_tuning import limit_malloc_arenas
if sys.argv[1] == "shared":
    assert limit_malloc_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free(ctypes.c_void_p(libc.malloc(ctypes.c_size_t(20_000_000))))
assert libc.malloc(ctypes.c_size_t(10_000_000))
libc.malloc_stats()
"""

# Blocks that were given back between others that are still held.
HOLES = """
import asyncio, ctypes
from pathlib import Path
from interlock.core import memory_tuning
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
held = [libc.malloc(ctypes.c_size_t(20_000)) for _ in range(4_000)]
for block in held:
    ctypes.memset(block, 1, 20_000)
for number, block in enumerate(held):
    if number % 100:
        libc.free(ctypes.c_void_p(block))
pages = lambda: int(Path("/proc/self/statm").read_text().split()[1])
async def main():
    memory_tuning.TRIM_INTERVAL_SECONDS = 0.01
    before = pages()
    tidying = asyncio.create_task(memory_tuning.trim_memory_forever())
    async with asyncio.timeout(20):
        while pages() > before / 2:
            await asyncio.sleep(0.01)
    tidying.cancel()
asyncio.run(main())
"""

# A cycle made after the process settled, and one that is still in use; Python itself looks for none.
CYCLES = """
import asyncio, gc, weakref
from interlock.core import memory_tuning
class Ring: pass
def ring():
    made = Ring()
    made.itself = made
    return made
gc.disable()
async def main():
    memory_tuning.TRIM_INTERVAL_SECONDS = 0.01
    tidying = asyncio.create_task(memory_tuning.trim_memory_forever())
    async with asyncio.timeout(20):
        while not gc.get_freeze_count():
            await asyncio.sleep(0.01)
        held, dropped = ring(), weakref.ref(ring())
        while dropped() is not None:
            await asyncio.sleep(0.01)
    assert held.itself is held
    assert len(gc.get_objects()) < gc.get_freeze_count() / 4, "what was there is looked through again"
    tidying.cancel()
asyncio.run(main())
"""


def told(program: str, how: str) -> str:
    # Without variables: some of them say the same to the C library.
    done = subprocess.run([sys.executable, "-c", program, how], env={}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_threads_share_two_heaps():
    heaps = {how: told(PROGRAM, how).count("Arena ") for how in ("shared", "as it is")}
    assert heaps["shared"] <= 2 < heaps["as it is"]


def test_large_blocks_lie_by_themselves_also_after_one_was_given_back():
    def bytes_in_heaps(how: str) -> int:
        return int(re.search(r"Arena 0:\nsystem bytes *= *(\d+)", told(LARGE, how))[1])

    assert bytes_in_heaps("shared") < 10_000_000 < bytes_in_heaps("as it is")


@pytest.mark.parametrize("program", [HOLES, CYCLES], ids=["the C library", "cycles"])
def test_what_nobody_uses_is_given_back(program):
    done = subprocess.run([sys.executable, "-c", program], env={}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
