"""A job that forks without end: the kernel bounds it, one signal ends it, and nothing of it is left.

Each bomb goes off in a control group of its own that bounds all processes of the test, and it ends
by itself after some seconds. Where no such group can be made, nothing is run.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

MOST = 4000
PIDS = Path("/sys/fs/cgroup/pids")

# Doubles until it may not, for as long as it lives; every process of it ends by itself.
BOMB = """
import os, time
until = time.monotonic() + 12
# Forks share it, but at first it counts for each of them.
held = b"x" * 2**24
print("on", flush=True)
while time.monotonic() < until:
    try:
        os.fork()
    except OSError:
        pass
"""

# As many processes as it may have, each with memory of its own, and never one more.
FULL = """
import os, time
for _ in range(19):
    if os.fork() == 0:
        break
time.sleep(0.5)
held = os.urandom(2**24)
print("on", flush=True)
time.sleep(12)
"""

# Starts the bomb under a backend, waits for how it ends, and tells what the group counted.
SCRIPT = """
import asyncio, json, os, sys, time
from pathlib import Path
from interlock.sandbox.backend_selection import backend_factories
from interlock.sandbox.jobs import Job, JobLimits
from interlock.sandbox.profile import SandboxProfile

name, group, place, most, memory, bomb = sys.argv[1:]

def tasks():
    return int(Path(group, "pids.current").read_text())

async def main():
    backend = backend_factories(())[name]()
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    limits = JobLimits(processes=int(most), memory_bytes=int(memory))
    argv = (sys.executable, "-I", "-S", "-c", bomb)
    job = Job(argv, folder, {}, SandboxProfile((Path(place),)), limits=limits)
    async with backend.running(job) as child:
        await child.stdout.read()
        began = time.monotonic()
        ended = await asyncio.wait_for(child.wait(), 50)
    seconds = time.monotonic() - began
    peak = int(Path(group, "pids.peak").read_text())
    await backend.close()
    left = [path.name for path in Path(group).iterdir() if path.is_dir()]
    print(json.dumps({
        "reason": ended.reason.value, "seconds": seconds, "peak": peak, "left": tasks(), "groups": left,
    }))

asyncio.run(main())
"""


@pytest.fixture
def group():
    """With a bound of its own; whatever is in it at the end is killed."""
    made = PIDS / f"interlock-test-{secrets.token_hex(4)}"
    try:
        made.mkdir()
        (made / "pids.max").write_text(str(MOST))
        (made / "pids.peak").read_text()
    except OSError as error:
        pytest.skip(f"no control group for processes can be made here: {error}")
    try:
        yield made
    finally:
        # First of all, so that none of them can fork any more.
        (made / "pids.max").write_text("0")
        empty(made)


def empty(group: Path) -> None:
    until = time.monotonic() + 20
    groups = [*(path for path in group.iterdir() if path.is_dir()), group]
    while time.monotonic() < until:
        pids = [int(pid) for each in groups for pid in (each / "cgroup.procs").read_text().split()]
        if not pids:
            break
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    for each in groups:
        each.rmdir()


def set_off(
    group: Path, backend: str, place: Path, *, most: int, memory: int = 2**32, bomb: str = BOMB
) -> dict:
    """In a process that is in the group before it runs anything."""
    inside = 'echo 0 > "$0/cgroup.procs" && exec "$@"'
    words = [sys.executable, "-c", SCRIPT, backend, str(group), str(place), str(most), str(memory), bomb]
    done = subprocess.run(
        ["/bin/sh", "-c", inside, str(group), *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("backend", ["landlock", "bubblewrap"])
def test_a_fork_bomb_never_has_more_processes_than_its_bound(group, tmp_path, backend):
    told = set_off(group, backend, tmp_path, most=100)
    assert told["reason"] == "too_many_processes"
    # Its own, one more by which it is noticed, and what starts and watches it.
    assert told["peak"] <= 100 + 20, told
    assert told["groups"] == []


@pytest.mark.parametrize("backend", ["landlock", "bubblewrap"])
def test_a_job_with_all_its_processes_is_measured_and_ended_for_its_memory(group, tmp_path, backend):
    """The thread that measures is one more in the group."""
    told = set_off(group, backend, tmp_path, most=20, memory=2**27, bomb=FULL)
    assert told["reason"] == "too_much_memory", told


@pytest.mark.full
def test_a_fork_bomb_that_only_the_supervisor_counts_ends_soon(group, tmp_path):
    """As where the system gives no control group: it passes the bound, and is ended for it all the same."""
    # The launcher has no capabilities, so it cannot make one in here.
    group.chmod(0o555)
    told = set_off(group, "landlock", tmp_path, most=512)
    assert told["peak"] > 520, told
    assert told["reason"] == "too_many_processes"
    assert told["seconds"] < 8, told
    assert told["left"] <= 8, told
