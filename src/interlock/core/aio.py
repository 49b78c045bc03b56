"""What asyncio lacks: cancelling for certain, doubling delays, a lock per name, an event with callbacks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

Result = TypeVar("Result")


async def cancel_and_wait(*tasks: "asyncio.Future[Any]") -> None:
    """Cancel tasks and wait until all have really ended, even if cancelled again: then raise that.

    Leftover work would overlap with what comes next. Errors of the tasks are not raised.
    """
    cancelled: asyncio.CancelledError | None = None
    for task in tasks:
        task.cancel()
    while unfinished := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(unfinished)
        except asyncio.CancelledError as error:
            cancelled = error
            for task in unfinished:
                task.cancel()
    for task in tasks:
        # Retrieve the exception so that asyncio does not log it.
        _ = task.cancelled() or task.exception()
    if cancelled is not None:
        raise cancelled


async def wait_uncancelled(work: "asyncio.Future[Any]") -> asyncio.CancelledError | None:
    """Wait for work that must not be interrupted; returns the cancellation that came meanwhile."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


async def finish_uncancelled(work: "asyncio.Future[Result]") -> Result:
    """Wait for the result of work that must not be interrupted, and raise a cancellation after that."""
    cancelled = await wait_uncancelled(work)
    if cancelled is None:
        return work.result()
    _ = work.cancelled() or work.exception()
    raise cancelled


class Backoff:
    """Delays that double from `first_seconds` up to `longest_seconds`."""

    def __init__(self, first_seconds: float, longest_seconds: float) -> None:
        self._first_seconds = first_seconds
        self._longest_seconds = longest_seconds
        self._next_seconds = first_seconds

    def next_seconds(self) -> float:
        """The next delay; the one after it is twice as long."""
        seconds = min(self._next_seconds, self._longest_seconds)
        self._next_seconds = 2 * seconds
        return seconds

    def reset(self) -> None:
        self._next_seconds = self._first_seconds

    async def sleep(self) -> None:
        await asyncio.sleep(self.next_seconds())

    async def wait_for(self, event: asyncio.Event) -> bool:
        """Sleep, but no longer than until the event is set; returns whether it is."""
        return await wait_for_event(event, self.next_seconds())


async def wait_for_event(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event was set within that time.

    Not `wait_for`: in Python 3.11 it loses a cancellation that arrives with the event.
    """
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
    return event.is_set()


class KeyedLock:
    """A lock per name: work on one name runs serially, on different names concurrently.

    It holds no entry for a name without waiters.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, int] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(name, asyncio.Lock())
        self._waiting[name] = self._waiting.get(name, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._waiting[name], self._locks[name]


class NotifyingEvent(asyncio.Event):
    """An event that also calls functions when it is set, so that no task is needed to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[Callable[[], object]] = []

    def set(self) -> None:
        super().set()
        for call in tuple(self._calls):
            call()

    @contextmanager
    def calling(self, function: Callable[[], object]) -> Iterator[None]:
        """Call the function when the event is set, at once if it is set already, until the block ends."""
        self._calls.append(function)
        try:
            if self.is_set():
                function()
            yield
        finally:
            self._calls.remove(function)
