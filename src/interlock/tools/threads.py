"""Blocking work of tools: in threads, cancelled at points that the work chooses."""

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
    """Cancels a tool, and records whether it had already taken effect.

    `begin_effect` and `set` exclude each other: a call reported as cancelled has no effect later. Nor has
    one whose session is no longer held (`is_held`).
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
        """Raise if cancelled; call it between the steps of long work."""
        if self._is_set:
            raise CallCancelled

    def begin_effect(self) -> None:
        """Call it right before the first step that changes anything."""
        with self._lock:
            if self._is_set or not self.is_held():
                raise CallCancelled
            self._took_effect = True


async def run_in_thread(
    cancel: CancelSignal, work: Callable[[], Result], let_go: Callable[[Result], object] | None = None
) -> Result:
    """Run `work` in a thread and return its result.

    When the caller is cancelled, the thread is signalled and waited for, so that it has no effect after the
    call was reported as ended. If it had taken effect, its result counts. If not, the result is discarded,
    and `let_go` closes what it opened.
    """
    running = _THREADS.start(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        cancel.set()
        # Retrieve the exception so that asyncio does not log it.
        running.add_done_callback(_retrieved)
        if let_go is not None and not cancel.took_effect:
            running.add_done_callback(lambda ended: ended.exception() is None and let_go(ended.result()))
        await asyncio.wait({running})
        if cancel.took_effect and running.exception() is None:
            return running.result()
        raise


async def run_in_thread_abandonable(cancel: CancelSignal, work: Callable[[], Result]) -> Result:
    """The same for work without effect: on cancellation, the thread is not waited for."""
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
