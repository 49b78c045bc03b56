"""Blocking work beside the event loop, on threads that can never keep the process from ending."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")

# An idle thread is kept this long for the next piece of work.
IDLE_SECONDS = 20.0


class WorkThreads:
    """Runs each piece of work on an idle thread, or on a new one: one that hangs delays nobody else."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = 0
        self._lock = threading.Lock()

    def start(self, work: Callable[[], Result]) -> "asyncio.Future[Result]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        context = copy_context()

        def job() -> None:
            try:
                answer, error = context.run(work), None
            except BaseException as raised:  # noqa: BLE001 - it belongs to whoever waits for the work
                answer, error = None, raised
            try:
                loop.call_soon_threadsafe(_settle, future, answer, error)
            except RuntimeError:
                # The loop has ended; nobody waits any more.
                return

        with self._lock:
            needs_thread = self._idle == 0
            if not needs_thread:
                self._idle -= 1
        self._work.put(job)
        if needs_thread:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        return future

    def _run(self) -> None:
        while True:
            try:
                job = self._work.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._idle > 0:
                        self._idle -= 1
                        return
                continue
            job()
            with self._lock:
                self._idle += 1


def _settle(future: "asyncio.Future[Any]", answer: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(answer)
    elif isinstance(error, StopIteration | SystemExit | KeyboardInterrupt):
        future.set_exception(RuntimeError(f"the work raised {type(error).__name__}"))
    else:
        future.set_exception(error)
