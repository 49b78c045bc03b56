"""All that a process started, also what left its group and its session: found, measured, killed.

Orphans come to the nearest subreaper, so a subreaper's descendants are exactly what it started. It imports
nothing of Interlock: it is loaded into the launcher.
"""

import _thread
import os
import signal
import time
from collections.abc import Callable

_WALL = 0x40000000  # also children that announce their end by another signal
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.02


def children_of(pid: int) -> tuple[list[int], int]:
    """The children of a process and its number of threads; none if it has ended."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - pathlib is large
    except OSError:
        return found, 0
    for thread in threads:
        found += [int(child) for child in _content(f"/proc/{pid}/task/{thread}/children").split()]
    return found, len(threads)


def freeze(spared: set[int]) -> set[int]:
    """Stop all descendants, parents first, until no new ones are found."""
    frozen: set[int] = set()
    while True:
        fresh = 0
        waiting, _ = children_of(os.getpid())
        while waiting:
            pid = waiting.pop()
            if pid in spared:
                continue
            if pid not in frozen:
                frozen.add(pid)
                fresh += 1
                send(pid, signal.SIGSTOP)
            waiting += children_of(pid)[0]
        if not fresh:
            return frozen


def kill_descendants(
    spared: set[int], statuses: dict[int, int], *, reaches_only_below: bool = False
) -> None:
    """Kill every descendant but the spared, reap them, and return when none is left.

    `reaches_only_below`: this process can signal only its descendants; then the kernel kills all in one
    call, during which none of them forks. Otherwise the tree is walked, and stopped first, to catch
    processes that fork and exit faster than that.
    """
    pause = _SHORTEST_PAUSE
    while reap(statuses):
        if reaches_only_below and not spared:
            send(-1, signal.SIGKILL)
        else:
            found = freeze(spared)
            if not found and spared:
                return
            for pid in found:
                send(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def reap(statuses: dict[int, int]) -> bool:
    """Reap ended children. False if there is no child at all, alive or dead."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | _WALL)
        except ChildProcessError:
            return False
        if not pid:
            return True
        statuses[pid] = status


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        # Already ended, or the PID belongs to another account by now.
        return


def count_tasks(limit: int | None, is_over: Callable[[], bool]) -> tuple[int, list[int]]:
    """How many processes and threads there are below, and the processes, until the limit is passed.

    Where a job has all processors busy, each of these questions may take a second: `is_over` ends it early.
    """
    tasks, pids = 0, []
    waiting, _ = children_of(os.getpid())
    while waiting and (limit is None or tasks <= limit) and not is_over():
        pid = waiting.pop()
        below, threads = children_of(pid)
        waiting += below
        tasks += threads
        pids.append(pid)
    return tasks, pids


def private_memory_bytes(pids: list[int], is_over: Callable[[], bool]) -> int:
    """What memory processes have to themselves; what forks share counts for each of them."""
    used = 0
    for pid in pids:
        if is_over():
            return 0
        used += _own_bytes(pid)
    return used


class MemoryMeasurement:
    """What memory processes really have, measured in a thread of its own.

    The kernel answers only when a process is not in the middle of a fork, and a fork bomb always is: the
    thread that waits for the answer cannot end it.
    """

    def __init__(self, pids: list[int]) -> None:
        self.is_done = False
        self.used_bytes = 0
        _thread.start_new_thread(self._measure, (pids,))

    def _measure(self, pids: list[int]) -> None:
        try:
            self.used_bytes = sum(_exact_bytes(pid) for pid in pids)
        finally:
            self.is_done = True

    def wait(self) -> None:
        """Wait for the result. Ended processes do not delay it."""
        while not self.is_done:
            time.sleep(_SHORTEST_PAUSE)


def start_measurement(pids: list[int]) -> MemoryMeasurement | None:
    """None where the system has no thread for it now: to be tried again at the next look."""
    try:
        return MemoryMeasurement(pids)
    except RuntimeError:
        return None


# Memory that is never shared: page tables and huge pages.
_ALWAYS_OWN = (b"VmPTE:", b"HugetlbPages:")


def _own_bytes(pid: int) -> int:
    return _kilobytes(f"/proc/{pid}/status", (b"RssAnon:", b"RssShmem:", b"VmSwap:", *_ALWAYS_OWN)) * 1024


def _exact_bytes(pid: int) -> int:
    exact = _kilobytes(f"/proc/{pid}/smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:"))
    return (exact + _kilobytes(f"/proc/{pid}/status", _ALWAYS_OWN)) * 1024 if exact else _own_bytes(pid)


def _kilobytes(path: str, names: tuple[bytes, ...]) -> int:
    """The sum of these lines. Memory not backed by a file counts, also if shared."""
    lines = _content(path).splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(names))


def _content(path: str) -> bytes:
    """The content of a small kernel file; empty if the process has ended."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    content = b""
    try:
        while piece := os.read(descriptor, 65536):
            content += piece
    except OSError:
        return content
    finally:
        os.close(descriptor)
    return content
