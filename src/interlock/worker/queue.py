"""How workers hear of work. The rows say what there is to do; a bell only says when to look.

The contract is small because nothing depends on it: a ring may be lost, late, doubled or for nothing, and
a worker that hears none looks by itself every second or so. Embedded, the bell is this process's own, and
what other processes put into the same file is found by looking. Other engines only bring another `Bell`.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from interlock.store.database import Database
from interlock.worker.rows import FIND_WORK, TO_STOP
from interlock.worker.wire import Ring, Wire


class Bell(Protocol):
    def ring(self, session_id: str) -> None:
        """Something changed in this session: there is work, or some is to stop. Never waits or fails."""

    def rings(self) -> AsyncIterator[str]:
        """The sessions rung for from now on, for one listener; each at least once after its last ring."""


class InProcessBell:
    """Rings for everybody who listens in this process, on one event loop; over a wire, in others too."""

    def __init__(self, wire: Wire | None = None) -> None:
        self._wire = wire
        self._ears: set[_Ear] = set()

    def ring(self, session_id: str) -> None:
        self.ring_here(session_id)
        if self._wire is not None:
            self._wire.send(Ring(session_id))

    def ring_here(self, session_id: str) -> None:
        for ear in self._ears:
            ear.hear(session_id)

    async def rings(self) -> AsyncIterator[str]:
        ear = _Ear()
        self._ears.add(ear)
        try:
            while True:
                yield await ear.next()
        finally:
            self._ears.discard(ear)


class _Ear:
    """What one listener has not come to yet: each session once, so that it never grows without bound."""

    def __init__(self) -> None:
        self._rung: dict[str, None] = {}
        self._some = asyncio.Event()

    def hear(self, session_id: str) -> None:
        self._rung[session_id] = None
        self._some.set()

    async def next(self) -> str:
        await self._some.wait()
        session_id = next(iter(self._rung))
        del self._rung[session_id]
        if not self._rung:
            self._some.clear()
        return session_id


class Backlog:
    """What there is to do, as the store has it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_work(self, limit: int) -> list[str]:
        """Sessions whose next task is queued, or was left by a dead worker, and that nobody holds."""
        rows = await self._database.read(lambda db: db.query(FIND_WORK, (limit,) * 3))
        return [str(row[0]) for row in rows]

    async def to_stop(self) -> frozenset[str]:
        """Running tasks that somebody wants cancelled."""
        rows = await self._database.read(lambda db: db.query(TO_STOP))
        return frozenset(str(row[0]) for row in rows)
