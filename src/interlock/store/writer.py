"""The one writer of a process: whatever has queued is committed together, off the event loop.

No window is waited for. While one group is being committed the next one gathers by itself, so a lone
write costs one commit and fifty concurrent ones share it.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from interlock.infra.errors import StoreError
from interlock.store.driver import Connection, RetryTransaction

Unit = TypeVar("Unit")
MAX_GROUP = 1024
MAX_RETRIES = 5


@dataclass(slots=True)
class Outcome:
    """What one unit of a group came to: a result, or the error that concerns it alone."""

    result: Any = None
    error: Exception | None = None

    def fail(self, error: Exception) -> None:
        self.result, self.error = None, error


@dataclass(slots=True)
class _Request(Generic[Unit]):
    unit: Unit
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"


class GroupCommitWriter(Generic[Unit]):
    """Runs `apply(connection, units)` inside one transaction per group, in a thread of its own.

    `apply` returns one outcome per unit. If it raises, or the commit fails, nothing of the group was
    written and every unit gets that error. It may be run again when the database asks for it.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        apply: Callable[[Connection, Sequence[Unit]], list[Outcome]],
    ) -> None:
        self._connect = connect
        self._apply = apply
        self._queue: queue.SimpleQueue[_Request[Unit] | None] = queue.SimpleQueue()
        self._connection: Connection | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._start_lock = threading.Lock()

    def submit(self, unit: Unit) -> "asyncio.Future[Any]":
        """Queue a unit; the future ends after its group is durable, or with what went wrong.

        A caller that stops waiting does not stop the write.
        """
        if self._closed:
            raise StoreError("the store is closed")
        if self._thread is None:
            self._start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._queue.put(_Request(unit, loop, future))
        return future

    def close(self) -> None:
        """Commit what has queued, then stop."""
        self._closed = True
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _start(self) -> None:
        with self._start_lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="interlock-writer", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        open_for_more = True
        while open_for_more:
            group: list[_Request[Unit]] = []
            open_for_more = self._gather(group)
            if group:
                self._resolve(group, self._commit([request.unit for request in group]))
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _gather(self, group: list[_Request[Unit]]) -> bool:
        """Wait for the first request, take all that came with it; False when told to stop."""
        request = self._queue.get()
        while request is not None:
            group.append(request)
            if len(group) == MAX_GROUP:
                return True
            try:
                request = self._queue.get_nowait()
            except queue.Empty:
                return True
        return False

    def _commit(self, units: Sequence[Unit]) -> list[Outcome]:
        for attempt in range(MAX_RETRIES):
            try:
                return self._commit_once(units)
            except RetryTransaction as error:
                if attempt == MAX_RETRIES - 1:
                    failure: Exception = StoreError(f"the database kept giving up: {error}")
            except Exception as error:  # noqa: BLE001 - it belongs to the callers, not to this thread
                failure = error
                break
        return [Outcome(error=failure) for _ in units]

    def _commit_once(self, units: Sequence[Unit]) -> list[Outcome]:
        if self._connection is None:
            self._connection = self._connect()
        connection = self._connection
        try:
            connection.begin(write=True)
            outcomes = self._apply(connection, units)
            connection.commit()
        except RetryTransaction:
            self._abandon(connection, keep=True)
            raise
        except Exception:
            # After a failure the connection's state is not worth guessing at: open a new one.
            self._abandon(connection, keep=False)
            raise
        return outcomes

    def _abandon(self, connection: Connection, *, keep: bool) -> None:
        try:
            connection.rollback()
            if keep:
                return
            connection.close()
        except StoreError:
            pass
        self._connection = None

    @staticmethod
    def _resolve(group: list[_Request[Unit]], outcomes: list[Outcome]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Outcome]]] = {}
        for request, outcome in zip(group, outcomes, strict=True):
            by_loop.setdefault(request.loop, []).append((request.future, outcome))
        for loop, pairs in by_loop.items():
            try:
                loop.call_soon_threadsafe(_settle, pairs)
            except RuntimeError:
                # That loop has ended and nobody waits any more; the write stands.
                continue


def _settle(pairs: list[tuple["asyncio.Future[Any]", Outcome]]) -> None:
    for future, outcome in pairs:
        if future.done():
            continue
        if outcome.error is not None:
            future.set_exception(outcome.error)
        else:
            future.set_result(outcome.result)
