"""All that a process started, also what left its group and its session: found, measured, killed.

Orphans come to the nearest subreaper, so a subreaper's descendants are exactly what it started. It imports
nothing of Interlock: it is loaded into the launcher.
"""

import os
import signal
import time

_WALL = 0x40000000  # also children that announce their end by another signal
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.02


def children_of(pid: int) -> tuple[list[int], int]:
    """The children of a process and how many threads it has. Whoever is gone has neither."""
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


def kill_all(spared: set[int], statuses: dict[int, int]) -> None:
    """Kill every descendant but the spared, reap them, and return when there is none.

    Stopping first is what beats a tree that forks and exits faster than it can be walked.
    """
    pause = _SHORTEST_PAUSE
    while reap(statuses):
        found = freeze(spared)
        if not found and spared:
            return
        for pid in found:
            send(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def reap(statuses: dict[int, int]) -> bool:
    """Collect whoever has ended. False if there is no child at all, alive or dead."""
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
        # Gone already, or a number that belongs to somebody else by now.
        return


def count_tasks(limit: int | None, memory_bytes: int | None) -> tuple[int, int]:
    """How many processes and threads there are below, and what memory they have to themselves.

    What forks share counts for each of them at first; only where that is too much is it measured exactly.
    """
    tasks, pids = 0, []
    waiting, _ = children_of(os.getpid())
    while waiting and (limit is None or tasks <= limit):
        pid = waiting.pop()
        below, threads = children_of(pid)
        waiting += below
        tasks += threads
        pids.append(pid)
    if memory_bytes is None:
        return tasks, 0
    used = sum(_own_bytes(pid) for pid in pids)
    if used > memory_bytes:
        used = sum(_exact_bytes(pid) for pid in pids)
    return tasks, used


# What is never shared: the tables by which memory is found, and pages that are set aside by their size.
_ALWAYS_OWN = (b"VmPTE:", b"HugetlbPages:")


def _own_bytes(pid: int) -> int:
    return _kilobytes(f"/proc/{pid}/status", (b"RssAnon:", b"RssShmem:", b"VmSwap:", *_ALWAYS_OWN)) * 1024


def _exact_bytes(pid: int) -> int:
    exact = _kilobytes(f"/proc/{pid}/smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:"))
    return (exact + _kilobytes(f"/proc/{pid}/status", _ALWAYS_OWN)) * 1024 if exact else _own_bytes(pid)


def _kilobytes(path: str, names: tuple[bytes, ...]) -> int:
    """The sum of these lines. What is not backed by a file counts, also where it is shared."""
    lines = _content(path).splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(names))


def _content(path: str) -> bytes:
    """Of a small file of the kernel's, or nothing where the process is gone."""
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
