"""Who dies with whom: the server, the launcher, a supervisor, a job and all that it started."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.sandbox.jobs import ExitReason, SandboxUnavailable
from tests.escape.server_process import beginning
from tests.harness.sandbox import SOON_SECONDS, eventually, finished, first_line

ROOT = Path(__file__).parents[2]


async def test_when_the_launcher_is_killed_its_jobs_die_and_another_one_starts(sandbox):
    async with sandbox.backend.running(
        sandbox.job("/bin/sh", "-c", "setsid sleep 60 & echo on; wait")
    ) as child:
        assert await first_line(child.stdout) == "on"
        killed = sandbox.backend.launcher_pid
        os.kill(killed, signal.SIGKILL)
        async with asyncio.timeout(SOON_SECONDS):
            ended = await child.wait()
        assert ended.reason is ExitReason.launcher_lost
        assert sandbox.survivors() == []
    assert (await sandbox.shell("echo again")).out == "again\n"
    assert sandbox.backend.launcher_pid != killed
    assert len(sandbox.losses) == 1


async def test_when_a_supervisor_is_killed_the_launcher_ends_what_it_left(sandbox):
    script = "(setsid sh -c 'sleep 60 & sleep 60' &) ; echo $PPID; sleep 60"
    async with sandbox.backend.running(sandbox.job("/bin/sh", "-c", script)) as child:
        supervisor = int(await first_line(child.stdout))
        os.kill(supervisor, signal.SIGKILL)
        async with asyncio.timeout(SOON_SECONDS):
            ended = await child.wait()
        assert ended.reason is ExitReason.launcher_lost
        assert sandbox.survivors() == []
    assert (await sandbox.shell("echo again")).out == "again\n"
    assert sandbox.losses == []


async def test_when_its_supervisor_is_killed_a_job_dies_though_the_launcher_does_nothing(sandbox):
    async with sandbox.backend.running(sandbox.job("/bin/sh", "-c", "echo $PPID; exec sleep 60")) as child:
        supervisor, launcher = int(await first_line(child.stdout)), sandbox.backend.launcher_pid
        os.kill(launcher, signal.SIGSTOP)
        try:
            os.kill(supervisor, signal.SIGKILL)
            assert await eventually(lambda: not sandbox.survivors())
        finally:
            os.kill(launcher, signal.SIGCONT)


async def test_nobody_of_the_same_account_looks_into_the_launcher(sandbox):
    """The kernel gives the files of a process that may not be traced to root."""
    assert Path(f"/proc/{sandbox.backend.launcher_pid}/environ").stat().st_uid == 0


async def test_a_launcher_that_dies_while_idle_is_replaced_before_the_next_job(sandbox):
    await sandbox.shell("true")
    os.kill(sandbox.backend.launcher_pid, signal.SIGKILL)
    assert await eventually(lambda: bool(sandbox.losses))
    assert (await sandbox.shell("echo again")).out == "again\n"


async def test_closing_kills_running_jobs(sandbox):
    async with sandbox.backend.running(
        sandbox.job("/bin/sh", "-c", "setsid sleep 60 & echo on; wait")
    ) as child:
        assert await first_line(child.stdout) == "on"
        await sandbox.backend.close()
        assert sandbox.survivors() == []
        assert (await child.wait()).reason is ExitReason.stopped
    with pytest.raises(SandboxUnavailable):
        await sandbox.shell("true")


async def test_a_cancelled_caller_leaves_nothing(sandbox):
    started = asyncio.Event()

    async def call() -> None:
        async with sandbox.backend.running(sandbox.job("/bin/sh", "-c", "echo on; sleep 60")) as child:
            await first_line(child.stdout)
            started.set()
            await finished(child)

    task = asyncio.ensure_future(call())
    await started.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert sandbox.survivors() == []


@pytest.mark.parametrize("held", ["alone", "a fork holds its sockets"])
async def test_when_the_server_is_killed_everything_dies(sandbox, held):
    """A server of its own, killed the hard way while its job and the job's daemon run."""
    more = () if held == "alone" else ("fork",)
    words = (sandbox.backend.name, str(sandbox.inside), sandbox.mark, *more)
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.escape.server_process", *words),
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}:{':'.join(sys.path)}"},
    )
    facts = json.loads(await server.stdout.readline())
    started = facts["started"]
    assert started
    assert len(sandbox.survivors()) >= 2
    server.kill()
    try:
        assert await eventually(lambda: not sandbox.survivors())
        # By more than their numbers, which others may have got meanwhile.
        assert await eventually(lambda: not any(when == beginning(pid) for pid, when in started))
    finally:
        if facts["fork"]:
            os.kill(facts["fork"], signal.SIGKILL)
        # To its end: a fork that holds the pipe a moment longer would leave it open.
        await server.stdout.read()
        await server.wait()
