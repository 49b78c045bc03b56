"""Who does the work of a front end: this process, processes of its own, or others."""

import asyncio
import signal
from typing import TYPE_CHECKING, Protocol

from interlock.infra.errors import StopsProcess

if TYPE_CHECKING:
    from interlock.wiring.office import Office


class Hands(Protocol):
    """Whoever does the work."""

    async def run(self) -> None:
        """Until it is told to stop, and has."""

    def stop(self) -> None:
        """Finish or leave what runs. Told twice, it does not wait."""

    def has_room(self) -> bool: ...


class NoHands:
    """Other processes work."""

    def __init__(self) -> None:
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        await self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()

    def has_room(self) -> bool:
        return False


def hands_of(office: "Office", *, worker: bool, workers: int | None) -> Hands:
    """As the options say: so many processes, else one worker in this one, else nobody."""
    from interlock.cli.work import OwnWorker, supervisor_of

    if workers:
        return supervisor_of(office.runtime, workers)
    return OwnWorker(office) if worker else NoHands()


def stop_on_signals(hands: Hands) -> asyncio.Event:
    """Set by the first Ctrl-C or SIGTERM; the second hurries whoever works."""
    stop = asyncio.Event()

    def interrupted() -> None:
        if stop.is_set():
            hands.stop()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupted)
    return stop


def nobody_works() -> StopsProcess:
    return StopsProcess("the workers keep failing; to see why: interlock events tail system")
