"""The one writer of a process: commits all queued units together, off the event loop.

It waits for no window. While one group is being committed the next one gathers by itself, so a lone write
costs one commit and fifty concurrent ones share it.
"""

import asyncio
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from interlock.core.errors import StoreConflict, StoreError, StoreFull, StoreLocked, StoreUnavailable
from interlock.core.logging import StructuredLogger
from interlock.db.disk_reserve import DiskReserve
from interlock.db.driver import DbConnection, RetryTransaction, SqliteConnection

_log = StructuredLogger(__name__)

MAX_GROUP = 1024
MAX_RETRIES = 5
# Between the release of the reserve and the write another process may allocate it again.
MAX_RELEASES = 3


class UncancellableFuture(asyncio.Future[Any]):
    """A future that cannot be cancelled: its waiter is cancelled only after the write.

    `asyncio.shield` would do the same, for one more turn of the loop with every write.
    """

    def cancel(self, msg: Any | None = None) -> bool:  # noqa: ARG002
        return False


class WriteUnit:
    """One write, its waiter, and its outcome: a result or an error of its own.

    `on_full_disk`: it may use the store's reserve (`disk_reserve.py`).
    """

    __slots__ = ("error", "future", "loop", "on_full_disk", "result", "uninterruptible")

    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any] | None"

    def __init__(self, *, uninterruptible: bool = False, on_full_disk: bool = False) -> None:
        self.result: Any = None
        self.error: Exception | None = None
        self.uninterruptible = uninterruptible
        self.on_full_disk = on_full_disk

    def fail(self, error: Exception) -> None:
        self.result, self.error = None, error


Unit = TypeVar("Unit", bound=WriteUnit)


class GroupCommitWriter(Generic[Unit]):
    """Runs `apply(connection, units)` inside one transaction per group, in a thread of its own.

    `apply` sets each unit's result or error. If it raises, or the commit fails, nothing of the group was
    written, `forget` is called, and every unit gets that error. It may be run again when the database asks
    for it.
    """

    def __init__(
        self,
        connect: Callable[[], DbConnection],
        apply: Callable[[DbConnection, Sequence[Unit]], None],
        forget: Callable[[], None],
        after: Callable[[Sequence[Unit]], None],
        reserve: DiskReserve | None = None,
    ) -> None:
        """`after` is called with each group when it is durable or has failed, in the writer's thread."""
        self._reserve = reserve
        self._connect = connect
        self._apply = apply
        self._forget = forget
        self._after = after
        self._queue: queue.SimpleQueue[Sequence[Unit] | None] = queue.SimpleQueue()
        self._connection: DbConnection | None = None
        # The connection for which the write-ahead file has its blocks; with every commit, the check takes
        # a fifth of a commit's time.
        self._has_wal: DbConnection | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._lock = threading.Lock()

    def submit(self, *units: Unit) -> "asyncio.Future[Any]":
        """Queue units for the same group; the future is done when the last is durable, or has failed.

        A caller that stops waiting does not stop the write.
        """
        loop = asyncio.get_running_loop()
        for unit in units:
            unit.loop, unit.future = loop, None
        last = units[-1]
        last.future = future = (
            UncancellableFuture(loop=loop) if last.uninterruptible else loop.create_future()
        )
        with self._lock:
            if self._closed:
                raise StoreError("the store is closed")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="interlock-writer", daemon=True)
                self._thread.start()
            self._queue.put(units)
        return future

    def close(self) -> None:
        """Commit what has queued, then stop."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
            if thread is not None:
                self._queue.put(None)
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        open_for_more = True
        while open_for_more:
            group: list[Unit] = []
            open_for_more = self._gather(group)
            if group:
                self._write(group)
                self._after(group)
                _settle_all(group)
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _gather(self, group: list[Unit]) -> bool:
        """Wait for the first unit and take all queued ones; False when the writer is closed."""
        units = self._queue.get()
        while units is not None:
            group += units
            if len(group) >= MAX_GROUP:
                return True
            try:
                units = self._queue.get_nowait()
            except queue.Empty:
                return True
        return False

    def _write(self, units: Sequence[Unit]) -> None:
        """Commit all together; on a full disk only those that may use the reserve, each by itself."""
        reserve = self._reserve
        if reserve is None:
            self._commit(units)
            return
        try:
            has_room = reserve.has_room() or self._allocate_again(reserve)
        except StoreError as error:
            for unit in units:
                unit.fail(error)
            return
        if has_room:
            self._commit(units)
            connection = self._connection
            if connection is not None and connection is not self._has_wal and reserve.grow_wal():
                self._has_wal = connection
        for unit in units:
            # Units that were committed one by one may have ended differently.
            if has_room and not isinstance(unit.error, StoreFull):
                continue
            if unit.on_full_disk:
                self._commit_from_reserve(unit, reserve)
            elif not has_room:
                unit.fail(reserve.refusal())

    def _commit_from_reserve(self, unit: Unit, reserve: DiskReserve) -> None:
        for _ in range(MAX_RELEASES):
            self._commit([unit])
            if not isinstance(unit.error, StoreFull):
                return
            _log.warning("store_full", next="the reserve is used up; free space on the disk of the store")
            reserve.release()
        self._commit([unit])

    def _allocate_again(self, reserve: DiskReserve) -> bool:
        if not reserve.is_due():
            return False
        # Writes from the reserve are in the write-ahead file, and need not stay there.
        with suppress(StoreError):
            self._connection = self._connection or self._connect()
            if isinstance(self._connection, SqliteConnection):
                self._connection.checkpoint_wal()
        return reserve.allocate() and reserve.has_room()

    def _commit(self, units: Sequence[Unit]) -> None:
        for attempt in range(MAX_RETRIES):
            try:
                self._commit_once(units)
                return
            except RetryTransaction as error:
                failure: Exception = StoreLocked(f"the database kept failing: {error}")
                time.sleep(attempt * random.uniform(0.005, 0.03))  # noqa: S311 - so as not to meet again
            except StoreConflict as error:
                if len(units) > 1:
                    # A row of one unit exists already: the others do not fail with it.
                    for unit in units:
                        self._commit([unit])
                    return
                failure = error
                break
            except Exception as error:  # noqa: BLE001 - it belongs to the callers, not to this thread
                failure = error
                break
            except BaseException as error:  # noqa: BLE001 - nothing a unit raises may end the only writer
                failure = StoreError(f"a unit of work raised {type(error).__name__}")
                break
        for unit in units:
            unit.fail(failure)

    def _commit_once(self, units: Sequence[Unit]) -> None:
        connection = self._begun()
        try:
            self._apply(connection, units)
            connection.commit()
        except RetryTransaction:
            self._abandon(connection, keep=True)
            raise
        except BaseException:
            # After a failure the connection's state is unknown: open a new one.
            self._abandon(connection, keep=False)
            raise

    def _begun(self) -> DbConnection:
        """A connection in a transaction. One that was lost meanwhile is replaced."""
        is_fresh = self._connection is None
        connection = self._connection = self._connection or self._connect()
        try:
            connection.begin(write=True)
        except RetryTransaction:
            self._abandon(connection, keep=True)
            raise
        except BaseException as error:
            self._abandon(connection, keep=False)
            if is_fresh or not isinstance(error, StoreUnavailable):
                raise
            return self._begun()
        return connection

    def _abandon(self, connection: DbConnection, *, keep: bool) -> None:
        self._forget()
        try:
            connection.rollback()
            if keep:
                return
        except (StoreError, RetryTransaction):
            pass
        with suppress(StoreError):
            connection.close()
        self._connection = None


def _settle_all(units: Sequence[WriteUnit]) -> None:
    """Settle the futures, with one call into each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[WriteUnit]] = {}
    for unit in units:
        by_loop.setdefault(unit.loop, []).append(unit)
    for loop, waiting in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, waiting)
        except RuntimeError:
            # That loop has ended, and its waiters with it; the write is durable.
            continue


def _settle(units: Sequence[WriteUnit]) -> None:
    for unit in units:
        if unit.future is None or unit.future.done():
            continue
        if unit.error is not None:
            unit.future.set_exception(unit.error)
        else:
            unit.future.set_result(unit.result)
