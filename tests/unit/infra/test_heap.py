"""A process of many threads takes its memory from two heaps, and gives back what lies free in them."""

import subprocess
import sys

# Each heap that the C library has beside the first is told in its own words.
PROGRAM = """
import ctypes, sys, threading
from interlock.infra.heap import share_heaps
if sys.argv[1] == "shared":
    assert share_heaps()
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

# Blocks that were given back between others that are still held.
HOLES = """
import asyncio, ctypes
from pathlib import Path
from interlock.infra import heap
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
    heap.TRIM_SECONDS = 0.01
    before = pages()
    trimming = asyncio.create_task(heap.keep_trim())
    async with asyncio.timeout(20):
        while pages() > before / 2:
            await asyncio.sleep(0.01)
    trimming.cancel()
asyncio.run(main())
"""


def heaps(how: str) -> int:
    # Without variables: some of them say the same to the C library.
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], env={}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr.count("Arena ")


def test_threads_share_two_heaps():
    assert heaps("shared") <= 2 < heaps("as it is")


def test_what_lies_free_is_given_back():
    done = subprocess.run([sys.executable, "-c", HOLES], env={}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
