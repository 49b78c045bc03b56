"""Who does the work of a front end: this process, processes of its own, or others."""

import asyncio
import signal
from typing import TYPE_CHECKING, Protocol

from interlock.core.errors import FatalError

if TYPE_CHECKING:
    from interlock.wiring.agents import AgentRuntime


class WorkerHost(Protocol):
    """Whoever does the work."""

    async def run(self) -> None:
        """Until it is told to stop, and has."""

    def stop(self) -> None:
        """Finish or leave what runs. Told twice, it does not wait."""

    def has_room(self) -> bool: ...


class ExternalWorkers:
    """Other processes work."""

    def __init__(self) -> None:
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        await self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()

    def has_room(self) -> bool:
        return False


def choose_worker_host(agent_runtime: "AgentRuntime", *, worker: bool, workers: int | None) -> WorkerHost:
    """As the options say: so many processes, else one worker in this one, else nobody."""
    from interlock.cli.worker import InProcessWorker, build_supervisor

    if workers:
        return build_supervisor(agent_runtime.runtime, workers)
    return InProcessWorker(agent_runtime) if worker else ExternalWorkers()


def stop_on_signals(worker_host: WorkerHost) -> asyncio.Event:
    """Set by the first Ctrl-C or SIGTERM; the second hurries whoever works."""
    stop = asyncio.Event()

    def interrupted() -> None:
        if stop.is_set():
            worker_host.stop()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupted)
    return stop


def no_worker_error() -> FatalError:
    return FatalError("the workers keep failing; to see why: interlock events tail system")
