"""Who may write to a session: one holder at a time, for a while, by the database's clock.

The token only grows. A holder that was stopped and wakes up late still has its old token, and every
write it tries is refused in the same statement that would have written.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import structlog

from interlock.events.log import EventLog, Transaction
from interlock.infra.errors import SessionBusy, SessionFenced, SessionNotFound, StoreError
from interlock.infra.text import storable

_log = structlog.get_logger(__name__)

# A token begins at the database's time and only grows, so that one from before a restore is never met
# again.
TAKE = """
INSERT INTO session_leases (session_id, token, holder, expires_ms)
VALUES (?, {NOW_MS}, ?, {NOW_MS} + ?)
ON CONFLICT (session_id) DO UPDATE
SET token = CASE WHEN session_leases.token < excluded.token THEN excluded.token
                 ELSE session_leases.token + 1 END,
    holder = excluded.holder, expires_ms = excluded.expires_ms
WHERE session_leases.expires_ms <= {NOW_MS}
RETURNING token
"""
RENEW = """
UPDATE session_leases SET expires_ms = {NOW_MS} + ?
WHERE session_id = ? AND token = ? AND expires_ms > {NOW_MS}
"""
GIVE_BACK = "UPDATE session_leases SET expires_ms = 0 WHERE session_id = ? AND token = ?"


@dataclass(frozen=True, slots=True)
class Lease:
    """Proof of holding a session. `lost` is set as soon as the holder knows better."""

    session_id: str
    token: int
    holder: str
    seconds: float
    lost: asyncio.Event = field(default_factory=asyncio.Event, compare=False)


class SessionLeases:
    def __init__(self, log: EventLog, *, seconds: float) -> None:
        self._events = log
        self._seconds = seconds

    async def take(self, session_id: str, holder: str) -> Lease | None:
        """The lease, or None while somebody else holds the session."""

        def work(transaction: Transaction) -> int | None:
            # Heads are locked before leases everywhere: two locks in one order cannot deadlock.
            transaction.next_seq()
            parameters = (session_id, storable(holder), self._milliseconds)
            rows = transaction.connection.query(TAKE, parameters)
            return rows[0][0] if rows else None

        token = await self._events.transact(session_id, work)
        return None if token is None else Lease(session_id, token, holder, self._seconds)

    async def renew(self, lease: Lease) -> None:
        def work(transaction: Transaction) -> int:
            transaction.next_seq()
            return transaction.connection.change(RENEW, (self._milliseconds, lease.session_id, lease.token))

        try:
            renewed = await self._events.transact(lease.session_id, work)
        except SessionNotFound:
            renewed = 0
        if not renewed:
            lease.lost.set()
            raise SessionFenced(f"the lease on session {lease.session_id} is no longer held")

    async def give_back(self, lease: Lease) -> None:
        def work(transaction: Transaction) -> int:
            transaction.next_seq()
            return transaction.connection.change(GIVE_BACK, (lease.session_id, lease.token))

        with suppress(SessionNotFound):
            await self._events.transact(lease.session_id, work)

    @asynccontextmanager
    async def held(self, session_id: str, holder: str) -> AsyncIterator[Lease]:
        """Hold the session for as long as the block runs, renewing three times a period."""
        lease = await self.take(session_id, holder)
        if lease is None:
            raise SessionBusy(f"session {session_id} is being worked on by another process")
        heartbeat = asyncio.create_task(self._beat(lease))
        try:
            yield lease
        finally:
            heartbeat.cancel()
            # Waiting this way, a cancellation of our own is not mistaken for the heartbeat's.
            await asyncio.wait({heartbeat})
            await self.give_back(lease)

    async def _beat(self, lease: Lease) -> None:
        renewed = time.monotonic()
        while not lease.lost.is_set():
            await asyncio.sleep(self._seconds / 3)
            try:
                await self.renew(lease)
                renewed = time.monotonic()
            except SessionFenced:
                _log.warning("lease_lost", session_id=lease.session_id, holder=lease.holder)
            except StoreError as error:
                _log.warning("lease_not_renewed", session_id=lease.session_id, error=str(error))
                if time.monotonic() - renewed >= self._seconds:
                    # The store stayed away for a whole period: somebody else may hold it by now.
                    lease.lost.set()

    @property
    def _milliseconds(self) -> int:
        return int(self._seconds * 1000)
