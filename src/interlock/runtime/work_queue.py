"""How workers learn of work. The rows are the queue; a notification only says when to look.

Nothing depends on notifications: they may be lost, late, duplicated or spurious, and each worker polls
every second or so. The bus (`bus.py`) carries them: a Unix socket on one machine, NATS on many.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from enum import Enum, auto
from typing import Protocol

from interlock.db.database import Database
from interlock.db.driver import DbConnection
from interlock.runtime.bus import Bus, CancelRequested, WorkAvailable
from interlock.runtime.task_rows import FIND_WORK, HELD_WORK, LOOK_AT, TO_STOP


class WorkNotifier(Protocol):
    def notify(self, session_id: str) -> None:
        """The session has work, or something to cancel. Never waits or fails."""

    def notify_cancel(self, session_id: str) -> None:
        """Ask the holder of this session to look for cancellations. As `notify`."""

    def notifications(self) -> AsyncIterator[WorkAvailable | CancelRequested]:
        """Notifications from now on, for one listener; each at least once after it was last sent."""


class BusNotifier:
    """Notifies all listeners of this process, on one event loop, and other processes over the bus."""

    def __init__(self, bus: Bus | None = None) -> None:
        self._bus = bus
        self._subscribers: set[_Subscription] = set()

    def notify(self, session_id: str) -> None:
        self.hear(WorkAvailable(session_id))
        if self._bus is not None:
            self._bus.send(WorkAvailable(session_id))

    def notify_cancel(self, session_id: str) -> None:
        if self._bus is not None:
            self._bus.send(CancelRequested(session_id))

    def hear(self, signal: WorkAvailable | CancelRequested) -> None:
        """Deliver a notification of another process to the listeners here."""
        for subscriber in self._subscribers:
            subscriber.hear(signal)

    async def notifications(self) -> AsyncIterator[WorkAvailable | CancelRequested]:
        subscriber = _Subscription()
        self._subscribers.add(subscriber)
        try:
            while True:
                yield await subscriber.next()
        finally:
            self._subscribers.discard(subscriber)


# Dropped notifications are found by polling.
MAX_HEARD = 20_000


class _Subscription:
    """Notifications one listener has not taken yet: without duplicates, the oldest dropped if too many."""

    def __init__(self) -> None:
        self._heard: dict[WorkAvailable | CancelRequested, None] = {}
        self._some = asyncio.Event()

    def hear(self, signal: WorkAvailable | CancelRequested) -> None:
        if len(self._heard) >= MAX_HEARD:
            del self._heard[next(iter(self._heard))]
        self._heard[signal] = None
        self._some.set()

    async def next(self) -> WorkAvailable | CancelRequested:
        await self._some.wait()
        signal = next(iter(self._heard))
        del self._heard[signal]
        if not self._heard:
            self._some.clear()
        return signal


class SessionWorkState(Enum):
    """What there is to do in a session."""

    nothing = auto()
    free = auto()
    # No worker holds it, and its task was cancelled before it was released: it only has to be ended.
    cancelled = auto()
    # Another worker holds it; in the second case, with something to cancel.
    held = auto()
    to_stop = auto()


class WorkQueue:
    """The work to do, from the store.

    `is_gone` says whether a holder's process has ended; used with SQLite only, where all are on one
    machine.
    """

    def __init__(self, database: Database, is_gone: Callable[[str], bool] | None = None) -> None:
        self._database = database
        self._is_gone = is_gone if database.dialect == "sqlite" else None

    async def find_work(self, limit: int) -> list[str]:
        """Sessions without a holder whose next task is queued, or was left by a dead worker."""
        return await self._database.read(lambda db: self._found(db, limit))

    def _found(self, connection: DbConnection, limit: int) -> list[str]:
        found = [str(row[0]) for row in connection.query(FIND_WORK, (limit,) * 3)]
        if self._is_gone is None or len(found) >= limit:
            return found
        held = connection.query(HELD_WORK)
        return [*found, *(str(session) for session, holder in held if self._is_gone(str(holder)))][:limit]

    async def look_at(self, session_id: str) -> SessionWorkState:
        rows = await self._database.fetch(LOOK_AT, (session_id,))
        if not rows or rows[0][0] == "waiting":
            return SessionWorkState.nothing
        status, is_to_stop, holder = rows[0]
        if holder is None or (self._is_gone is not None and self._is_gone(str(holder))):
            return SessionWorkState.cancelled if is_to_stop else SessionWorkState.free
        return SessionWorkState.to_stop if status == "running" and is_to_stop else SessionWorkState.held

    async def to_stop(self) -> frozenset[str]:
        """Running tasks with a cancellation request."""
        rows = await self._database.read(lambda db: db.query(TO_STOP))
        return frozenset(str(row[0]) for row in rows)
