"""A process of many threads takes its memory from two heaps, and not from one for each of them."""

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


def heaps(how: str) -> int:
    # Without variables: some of them say the same to the C library.
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], env={}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr.count("Arena ")


def test_threads_share_two_heaps():
    assert heaps("shared") <= 2 < heaps("as it is")
