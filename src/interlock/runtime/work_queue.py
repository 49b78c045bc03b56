"""What workers can work on. The rows are the queue; messages of the bus only say when to look."""

from collections.abc import Callable
from enum import Enum, auto

from interlock.db.database import Database
from interlock.db.driver import DbConnection
from interlock.runtime.task_rows import FIND_WORK, HELD_WORK, LOOK_AT, TO_STOP


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
