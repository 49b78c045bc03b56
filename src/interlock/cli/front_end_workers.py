"""Where a front end's tasks run: in this process, in child processes, or elsewhere."""

import asyncio
import signal
from typing import TYPE_CHECKING, Protocol

from interlock.core.errors import FatalError

if TYPE_CHECKING:
    from interlock.wiring.agents import AgentRuntime


class FrontEndWorkers(Protocol):
    """Runs the tasks of a front end."""

    async def run(self) -> None:
        """Run until stopped."""

    def stop(self) -> None:
        """Finish or interrupt running tasks. A second call does not wait."""

    def has_room(self) -> bool: ...


class ExternalWorkers:
    """Tasks are left to other processes."""

    def __init__(self) -> None:
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        await self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()

    def has_room(self) -> bool:
        return False


def choose_front_end_workers(
    agent_runtime: "AgentRuntime", *, worker: bool, workers: int | None
) -> FrontEndWorkers:
    """Choose by the options: child processes, one worker in this process, or none."""
    from interlock.cli.worker import InProcessWorker, build_supervisor

    if workers:
        return build_supervisor(agent_runtime.runtime, workers)
    return InProcessWorker(agent_runtime) if worker else ExternalWorkers()


def stop_on_signals(workers: FrontEndWorkers) -> asyncio.Event:
    """Return an event set by the first Ctrl-C or SIGTERM; a second one stops the worker host at once."""
    stop = asyncio.Event()

    def interrupted() -> None:
        if stop.is_set():
            workers.stop()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupted)
    return stop


def no_worker_error() -> FatalError:
    return FatalError("the workers keep failing; to see why: interlock events tail system")
