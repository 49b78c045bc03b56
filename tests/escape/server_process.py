"""A server with one running job, to be killed.

python -m tests.escape.server_process BACKEND FOLDER MARK [fork]

With `fork` another process holds all that the server had open. It ends by itself when nobody ends it.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from interlock.sandbox.backend_selection import backend_factories
from interlock.sandbox.jobs import Job
from interlock.sandbox.profile import SandboxProfile
from tests.harness.sandbox import MARK, first_line

FORK_SECONDS = 60


async def serve(name: str, folder: str, mark: str, *more: str) -> None:
    backend = backend_factories(())[name]()
    assert backend is not None
    script = "(setsid sleep 60 > /dev/null 2>&1 &); setsid sleep 60 & echo on; wait"
    opened = os.open(folder, os.O_PATH)
    job = Job(
        ("/bin/sh", "-c", script), opened, {MARK: mark, "PATH": "/bin"}, SandboxProfile((Path(folder),))
    )
    async with backend.running(job) as child:
        await first_line(child.stdout)
        facts = {"started": children(), "fork": fork() if "fork" in more else None}
        sys.stdout.write(json.dumps(facts) + "\n")
        sys.stdout.flush()
        await child.wait()


def fork() -> int:
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(FORK_SECONDS)
        signal.pause()
        os._exit(0)
    return pid


def children() -> list[tuple[int, str]]:
    """What this process has started itself, and when: a launcher, or the stage of its job."""
    tasks = Path("/proc/self/task").glob("*/children")
    pids = [int(pid) for task in tasks for pid in task.read_text().split()]
    return [(pid, beginning(pid)) for pid in pids]


def beginning(pid: int) -> str:
    """When a process began, in the kernel's own count; nothing where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
