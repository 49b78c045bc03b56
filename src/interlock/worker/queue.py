"""How workers hear of work. The rows say what there is to do; a bell only says when to look.

The contract is small because nothing depends on it: a ring may be lost, late, doubled or for nothing, and
a worker that hears none looks by itself every second or so. Which processes hear one another, and how, is
the wire's (`wire.py`): a Unix socket on one machine, NATS on many.
"""

import asyncio
from collections.abc import AsyncIterator
from enum import Enum, auto
from typing import Protocol

from interlock.store.database import Database
from interlock.worker.rows import FIND_WORK, LOOK_AT, TO_STOP
from interlock.worker.wire import Ring, Stir, Wire


class Bell(Protocol):
    def ring(self, session_id: str) -> None:
        """Something changed in this session: there is work, or some is to stop. Never waits or fails."""

    def stir(self, session_id: str) -> None:
        """Somebody else holds this session: have it look whether something is to stop. As `ring`."""

    def rings(self) -> AsyncIterator[Ring | Stir]:
        """What is rung for from now on, for one listener; each at least once after it was last said."""


class InProcessBell:
    """Rings for everybody who listens in this process, on one event loop; over a wire, in others too."""

    def __init__(self, wire: Wire | None = None) -> None:
        self._wire = wire
        self._ears: set[_Ear] = set()

    def ring(self, session_id: str) -> None:
        self.hear(Ring(session_id))
        if self._wire is not None:
            self._wire.send(Ring(session_id))

    def stir(self, session_id: str) -> None:
        if self._wire is not None:
            self._wire.send(Stir(session_id))

    def hear(self, signal: Ring | Stir) -> None:
        """From another process, for those who listen here."""
        for ear in self._ears:
            ear.hear(signal)

    async def rings(self) -> AsyncIterator[Ring | Stir]:
        ear = _Ear()
        self._ears.add(ear)
        try:
            while True:
                yield await ear.next()
        finally:
            self._ears.discard(ear)


# What rings are for can be found by looking.
MAX_HEARD = 20_000


class _Ear:
    """What one listener has not come to yet: each once, and of too many the oldest is forgotten."""

    def __init__(self) -> None:
        self._heard: dict[Ring | Stir, None] = {}
        self._some = asyncio.Event()

    def hear(self, signal: Ring | Stir) -> None:
        if len(self._heard) >= MAX_HEARD:
            del self._heard[next(iter(self._heard))]
        self._heard[signal] = None
        self._some.set()

    async def next(self) -> Ring | Stir:
        await self._some.wait()
        signal = next(iter(self._heard))
        del self._heard[signal]
        if not self._heard:
            self._some.clear()
        return signal


class Prospect(Enum):
    """What there is to do in a session."""

    nothing = auto()
    free = auto()
    # Somebody else works on it; and is to stop something.
    held = auto()
    to_stop = auto()


class Backlog:
    """What there is to do, as the store has it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_work(self, limit: int) -> list[str]:
        """Sessions whose next task is queued, or was left by a dead worker, and that nobody holds."""
        rows = await self._database.read(lambda db: db.query(FIND_WORK, (limit,) * 3))
        return [str(row[0]) for row in rows]

    async def look_at(self, session_id: str) -> Prospect:
        rows = await self._database.glance(LOOK_AT, (session_id,))
        if not rows or rows[0][0] == "waiting":
            return Prospect.nothing
        status, is_to_stop, is_held = rows[0]
        if not is_held:
            return Prospect.free
        return Prospect.to_stop if status == "running" and is_to_stop else Prospect.held

    async def to_stop(self) -> frozenset[str]:
        """Running tasks that somebody wants cancelled."""
        rows = await self._database.read(lambda db: db.query(TO_STOP))
        return frozenset(str(row[0]) for row in rows)
