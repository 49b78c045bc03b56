"""How a tool does blocking work: beside the event loop, and stopped at a point of its own choosing."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from interlock.core.threads import DaemonThreadPool

Result = TypeVar("Result")

_THREADS = DaemonThreadPool("interlock-tool")


class CallCancelled(Exception):
    """The call was cancelled or ran out of time before the work took effect."""


class CancelSignal:
    """Tells a tool to stop, and tells the caller whether the tool had passed the point of no return.

    `begin_effect` and `set` exclude one another: a call that was told to be over has no effect later. Nor
    has one whose session is not `is_held` any more.
    """

    def __init__(self, is_held: Callable[[], bool] = lambda: True) -> None:
        self.is_held = is_held
        self._lock = threading.Lock()
        self._is_set = False
        self._took_effect = False

    @property
    def is_set(self) -> bool:
        return self._is_set

    @property
    def took_effect(self) -> bool:
        return self._took_effect

    def set(self) -> None:
        with self._lock:
            self._is_set = True

    def check(self) -> None:
        """Between two steps of long work."""
        if self._is_set:
            raise CallCancelled

    def begin_effect(self) -> None:
        """Right before the first step that changes anything."""
        with self._lock:
            if self._is_set or not self.is_held():
                raise CallCancelled
            self._took_effect = True


async def run_in_thread(
    cancel: CancelSignal, work: Callable[[], Result], let_go: Callable[[Result], object] | None = None
) -> Result:
    """The result of `work`, done on a thread.

    When the caller is cancelled, the thread is told and waited for, so that its effect cannot come after
    the call was said to be over. If it had taken effect already, its result counts. If not, nobody gets
    it, and `let_go` closes what it opened.
    """
    running = _THREADS.start(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        cancel.set()
        # Whoever gives up waiting as well must not be told later of an error that nobody missed.
        running.add_done_callback(_retrieved)
        if let_go is not None and not cancel.took_effect:
            running.add_done_callback(lambda ended: ended.exception() is None and let_go(ended.result()))
        await asyncio.wait({running})
        if cancel.took_effect and running.exception() is None:
            return running.result()
        raise


async def run_in_thread_abandonable(cancel: CancelSignal, work: Callable[[], Result]) -> Result:
    """The same for work that has no effect: whoever stops waiting does not wait for the thread either."""
    running = _THREADS.start(work)
    running.add_done_callback(_retrieved)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        cancel.set()
        raise


def _retrieved(ended: "asyncio.Future[Any]") -> None:
    if not ended.cancelled():
        ended.exception()
