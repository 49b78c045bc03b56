"""Runs blocking work in daemon threads, which never keep the process from ending."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")

# Does the work and returns a function that delivers the outcome to the waiting future.
Job = Callable[[], Callable[[], None]]

# How long an idle thread waits for more work.
IDLE_SECONDS = 20.0


class DaemonThreadPool:
    """Runs each job in an idle thread, or in a new one: a job that hangs delays no other.

    The thread that became idle last is taken first, so that the threads of a burst end again.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # The queues of the idle threads.
        self._idle: list[SimpleQueue[Job]] = []
        self._lock = threading.Lock()

    def start(self, work: Callable[[], Result]) -> "asyncio.Future[Result]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        context = copy_context()

        def job() -> Callable[[], None]:
            try:
                answer, error = context.run(work), None
            except BaseException as raised:  # noqa: BLE001 - it belongs to the waiter of the work
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
                # It was just chosen: a job is on its way.
                continue
            tell = job()
            with self._lock:
                self._idle.append(own)
            # Only now, so that the waiter finds this thread idle when it continues.
            tell()
            # An idle thread must not keep the job's objects alive.
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
        # The loop has ended, and its waiters with it.
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
