"""Blocking work beside the event loop, on threads that can never keep the process from ending."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")

# Does the work; what it gives back tells the outcome to whoever waits.
Job = Callable[[], Callable[[], None]]

# An idle thread is kept this long for the next piece of work.
IDLE_SECONDS = 20.0


class DaemonThreadPool:
    """Runs each piece of work on an idle thread, or on a new one: one that hangs delays nobody else.

    The thread that was idle last is taken first, so that those which were needed once for many things at
    the same time end again.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # Of each idle thread, where it waits.
        self._idle: list[SimpleQueue[Job]] = []
        self._lock = threading.Lock()

    def start(self, work: Callable[[], Result]) -> "asyncio.Future[Result]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        context = copy_context()

        def job() -> Callable[[], None]:
            try:
                answer, error = context.run(work), None
            except BaseException as raised:  # noqa: BLE001 - it belongs to whoever waits for the work
                answer, error = None, raised
            return lambda: _deliver(loop, future, answer, error)

        with self._lock:
            own = self._idle.pop() if self._idle else None
        if own is None:
            own = SimpleQueue()
            threading.Thread(target=self._run, args=(own,), name=self._name, daemon=True).start()
        own.put(job)
        return future

    def _run(self, own: "SimpleQueue[Job]") -> None:
        while True:
            try:
                job = own.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if own in self._idle:
                        self._idle.remove(own)
                        return
                # It was just chosen: work is on its way.
                continue
            tell = job()
            with self._lock:
                self._idle.append(own)
            # Only now, so that whoever goes on from there finds this thread idle.
            tell()
            # Nothing of it is held while there is nothing to do.
            del job, tell


def _deliver(
    loop: asyncio.AbstractEventLoop,
    future: "asyncio.Future[Any]",
    answer: Any,
    error: BaseException | None,
) -> None:
    try:
        loop.call_soon_threadsafe(_settle, future, answer, error)
    except RuntimeError:
        # The loop has ended; nobody waits any more.
        return


def _settle(future: "asyncio.Future[Any]", answer: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(answer)
    elif isinstance(error, StopIteration | SystemExit | KeyboardInterrupt):
        future.set_exception(RuntimeError(f"the work raised {type(error).__name__}"))
    else:
        future.set_exception(error)
