"""`interlock worker` and `interlock supervisor`: work on the tasks of all sessions."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import WorkerCount, note
from interlock.cli.runtime import open_cli_agent_runtime, open_cli_runtime
from interlock.core.aio import cancel_and_wait
from interlock.core.errors import FatalError

if TYPE_CHECKING:
    from interlock.runtime.supervisor import WorkerSupervisor
    from interlock.wiring import Runtime
    from interlock.wiring.agents import AgentRuntime


async def worker(*, supervised: bool = False, spawned: str | None = None) -> int:
    """Work on tasks until Ctrl-C or SIGTERM. Running tasks are then finished or interrupted.

    A second Ctrl-C does not wait. The next worker resumes interrupted tasks from the log.

    Parameters
    ----------
    supervised
        Also stop when standard input ends, as it does with the process that started this one.
    spawned
        The event in which that process recorded the start of this one.
    """
    # Wait for the database: a supervisor would count an early exit as a crash. It has made the checks
    # already.
    async with open_cli_agent_runtime(
        sandboxed=True, is_checked=not supervised, is_patient=True
    ) as agent_runtime:
        agent_runtime.models.open(agent_runtime.models.usual)
        own = InProcessWorker(agent_runtime, spawned=spawned)
        listening = asyncio.create_task(agent_runtime.runtime.bus.run(own.has_room))
        _when_interrupted(own.stop)
        if supervised:
            await _when_input_ends(own.stop)
        note(f"working on {agent_runtime.runtime.settings.state_dir}; press Ctrl-C to stop")
        # Of supervised workers, the supervising process writes the checkpoints.
        runtime = agent_runtime.runtime
        async with nullcontext() if supervised else runtime.checkpointing():
            try:
                await own.run()
            finally:
                await cancel_and_wait(listening)
        if not supervised:
            await runtime.finish_housekeeping()
    return ExitCode.ok


async def supervisor(*, workers: WorkerCount = 2) -> int:
    """Keep worker processes running until Ctrl-C or SIGTERM.

    A worker that ends is restarted. One that keeps failing is given up, which the log records.

    Parameters
    ----------
    workers
        The number of worker processes.
    """
    async with open_cli_runtime(sandboxed=True, is_checked=True) as runtime:
        keeping = build_supervisor(runtime, workers)
        _when_interrupted(keeping.stop)
        note(f"{workers} workers on {runtime.settings.state_dir}; press Ctrl-C to stop")
        async with runtime.checkpointing():
            await keeping.run()
        await runtime.finish_housekeeping()
        if not keeping.is_working:
            raise FatalError("the workers keep failing; to see why: interlock events tail system")
    return ExitCode.ok


class InProcessWorker:
    """A worker in this process. A second stop interrupts running tasks at once."""

    def __init__(self, agent_runtime: "AgentRuntime", *, spawned: str | None = None) -> None:
        self._runtime = agent_runtime.runtime
        self._worker = agent_runtime.worker(spawned=spawned)
        self._running: asyncio.Task[None] | None = None

    async def run(self) -> None:
        await self._runtime.eraser.finish()
        erasing = asyncio.create_task(self._runtime.eraser.finish_hourly())
        if (retention := self._runtime.retention) is not None:
            await retention.forget_local_files()
        self._running = asyncio.create_task(self._worker.run())
        try:
            await asyncio.wait({self._running})
        finally:
            await cancel_and_wait(erasing)
        if not self._running.cancelled():
            self._running.result()

    def stop(self) -> None:
        if self._worker.is_stopping and self._running is not None:
            self._running.cancel()
        self._worker.stop()

    def has_room(self) -> bool:
        return self._worker.has_room()


def build_supervisor(runtime: "Runtime", workers: int) -> "WorkerSupervisor":
    """Build a supervisor.

    Its workers have the modes that are open here, and the environment of this process.
    """
    from interlock.runtime.supervisor import RestartPolicy, WorkerSupervisor

    given = runtime.settings.worker
    modes = ",".join(sorted(mode.value for mode in runtime.authority_inputs.open_modes))
    return WorkerSupervisor(
        # -P: the current directory may be writable to agents, and Python would import modules from it
        # first.
        (sys.executable, "-P", "-m", "interlock", "worker", "--supervised"),
        workers=workers,
        log=runtime.log,
        limits=RestartPolicy(
            stable_seconds=given.stable_seconds,
            max_crashes=given.max_crashes,
            restart_seconds=given.restart_seconds,
            stop_seconds=given.stop_grace_seconds + given.cancel_grace_seconds + 5,
        ),
        environment={**os.environ, "SESSION_OPEN_MODES": modes},
    )


def _when_interrupted(call: Callable[[], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, call)


async def _when_input_ends(call: Callable[[], None]) -> None:
    """Run `call` when stdin is closed: the supervising process has ended."""

    class Watching(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
            call()

    await asyncio.get_running_loop().connect_read_pipe(Watching, sys.stdin)
