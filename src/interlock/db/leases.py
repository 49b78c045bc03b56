"""Leases: one holder of a session or of a bot at a time, for a limited time.

They last `lease_seconds` (`config/session.py`), by a clock that all holders share: PostgreSQL's, or with
SQLite the time since this machine started, which cannot be set. A token only grows: a holder that was
suspended and resumes late has an old one, and each write it tries is refused by the statement that writes.
Between renewals a holder checks its own deadline by `boot_clock`.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from interlock.core.aio import Backoff, NotifyingEvent, cancel_and_wait
from interlock.core.errors import SessionBusy, SessionFenced, StoreError, StoreUnavailable, is_transient
from interlock.core.logging import StructuredLogger
from interlock.core.text import sanitize_text
from interlock.db.driver import DbConnection
from interlock.db.process_liveness import ProcessLocks

_log = StructuredLogger(__name__)

Result = TypeVar("Result")

FIRST_DELAY_SECONDS = 0.05
# How often a lease is tried again where the kernel shows at once that its holder has ended.
LOOK_SECONDS = 0.5

# Separates a holder's name from the name of its process's lock.
_UNDER = " under "

# A lease that would last too long was taken by another clock: others may take it. Until one does, its
# holder keeps it, and renews it by the present clock.
LIVE = "expires_ms > {LEASE_MS} AND expires_ms <= {LAST_LEASE_MS}"
IS_LIVE = f"SELECT 1 FROM leases WHERE name = ? AND {LIVE}"  # noqa: S608 - a constant
# With a lock on the row: until the commit no other holder can take the lease.
IS_HELD = "SELECT 1 FROM leases WHERE name = ? AND token = ? AND expires_ms > {LEASE_MS} {FOR_SHARE}"

# A token begins at the database's time, so that one from before a restore never occurs again.
TAKE = """
INSERT INTO leases (name, token, holder, expires_ms) VALUES (?, {NOW_MS}, ?, {LEASE_MS} + ?)
ON CONFLICT (name) DO UPDATE
SET token = CASE WHEN leases.token < excluded.token THEN excluded.token ELSE leases.token + 1 END,
    holder = excluded.holder, expires_ms = excluded.expires_ms
WHERE leases.expires_ms <= {LEASE_MS} OR leases.expires_ms > {LAST_LEASE_MS}
RETURNING token
"""
RENEW = """
UPDATE leases SET expires_ms = {LEASE_MS} + ? WHERE name = ? AND token = ? AND expires_ms > {LEASE_MS}
"""
RELEASE = "UPDATE leases SET expires_ms = 0 WHERE name = ? AND token = ?"
HOLDER = "SELECT holder, token FROM leases WHERE name = ?"


def session_lease(session_id: str) -> str:
    """The name of a session's lease. `runtime/task_rows.py` spells it in SQL."""
    return f"session:{session_id}"


def boot_clock() -> float:
    """Seconds since this machine started, suspended time included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(slots=True, eq=False)
class Lease:
    """Proof of holding `name`. `lost` is set as soon as the holder knows that it is lost.

    `until`, by this machine's own clock, no other holder can have taken it.
    """

    name: str
    stream: str
    token: int
    holder: str
    until: float = 0.0
    lost: NotifyingEvent = field(default_factory=NotifyingEvent)
    is_released: bool = False

    def is_held(self) -> bool:
        """Whether the lease is held by the local clock. Check it right before an effect that cannot be
        fenced: a process that was suspended does not know yet that it lost the lease. Thread-safe."""
        return not self.lost.is_set() and boot_clock() < self.until


class LeaseLog(Protocol):
    """What leases need of the log, which is above this package."""

    def transact(
        self,
        stream: str,
        work: Callable[[Any], Result],
        *,
        uninterruptible: bool = False,
        on_full_disk: bool = False,
    ) -> "asyncio.Future[Result]": ...


class Leases:
    """Every change of a lease is a unit on its stream, whose head is thereby locked before the lease.

    Heads come before leases everywhere: two locks in one order cannot deadlock. `lives` is given where all
    processes run on one machine, whose kernel knows which have ended.
    """

    def __init__(self, log: LeaseLog, *, seconds: float, lives: ProcessLocks | None = None) -> None:
        self._events = log
        self._seconds = seconds
        self._milliseconds = int(seconds * 1000)
        self._lives = lives

    @property
    def retry_seconds(self) -> float:
        """The interval at which to try again for what another process holds."""
        return self._seconds / 3 if self._lives is None else min(self._seconds / 3, LOOK_SECONDS)

    async def take(self, stream: str, holder: str, *, name: str | None = None) -> Lease | None:
        """The lease, of the session `stream` or else of `name`; None while it is held."""
        taken = await self.take_and(stream, holder, _nothing, name=name)
        return None if taken is None else taken[0]

    async def take_and(
        self,
        stream: str,
        holder: str,
        begin: Callable[[Any], Result],
        *,
        name: str | None = None,
        on_full_disk: bool = False,
    ) -> tuple[Lease, Result] | None:
        """Like `take`, with the result of `begin`, which runs in the transaction that takes the lease."""
        named = name or session_lease(stream)
        lock = None if self._lives is None else self._lives.acquire()
        row_holder = sanitize_text(holder if lock is None else f"{holder}{_UNDER}{lock}")

        def work(transaction: Any) -> tuple[Lease, Result] | None:
            # Refuses a stream that does not exist.
            transaction.next_seq()
            token = self._token(transaction.connection, named, row_holder)
            if token is None:
                return None
            return Lease(named, stream, token, holder, asked + self._seconds), begin(transaction)

        asked = boot_clock()
        taking = self._events.transact(stream, work, uninterruptible=True, on_full_disk=on_full_disk)
        try:
            return await taking
        except asyncio.CancelledError:
            # Else it would stay held without a known holder.
            if taking.exception() is None and (taken := taking.result()) is not None:
                await self._release_with_retry(taken[0])
            raise

    def _token(self, connection: DbConnection, name: str, holder: str) -> int | None:
        """The new holder's token; the lease is free, or its holder has ended."""
        taking = (name, holder, self._milliseconds)
        rows = connection.query(TAKE, taking)
        if not rows and self._lives is not None:
            ((present, token),) = connection.query(HOLDER, (name,))
            if self.is_gone(present):
                connection.change(RELEASE, (name, token))
                rows = connection.query(TAKE, taking)
        return int(rows[0][0]) if rows else None

    def is_gone(self, holder: str) -> bool:
        """Whether the process of a holder, named as in its row, has certainly ended. Thread-safe."""
        _, marked, lock = holder.rpartition(_UNDER)
        return bool(marked) and self._lives is not None and self._lives.is_gone(lock)

    def is_held_within(self, connection: DbConnection, lease: Lease) -> bool:
        """Whether the lease is held until the transaction ends."""
        return bool(connection.query(IS_HELD, (lease.name, lease.token)))

    async def renew(self, lease: Lease) -> None:
        def work(transaction: Any) -> int:
            renewal = (self._milliseconds, lease.name, lease.token)
            renewed: int = transaction.connection.change(RENEW, renewal)
            return renewed

        asked = boot_clock()
        if not await self._events.transact(lease.stream, work):
            lease.lost.set()
            raise SessionFenced(f"the lease on {lease.name} is no longer held")
        lease.until = asked + self._seconds

    async def release(self, lease: Lease) -> None:
        lease.until = 0.0
        await self._events.transact(
            lease.stream, lambda transaction: self.release_within(transaction.connection, lease)
        )
        self.mark_released(lease)

    def release_within(self, connection: DbConnection, lease: Lease) -> None:
        """As part of a transaction; call `mark_released` after its commit."""
        connection.change(RELEASE, (lease.name, lease.token))

    def mark_released(self, lease: Lease) -> None:
        lease.until, lease.is_released = 0.0, True

    @asynccontextmanager
    async def held(self, session_id: str, holder: str) -> AsyncIterator[Lease]:
        """Hold the session for as long as the block runs, renewing three times a period."""
        async with self.held_and(session_id, holder, _nothing) as (lease, _):
            yield lease

    @asynccontextmanager
    async def held_and(
        self, session_id: str, holder: str, begin: Callable[[Any], Result], *, on_full_disk: bool = False
    ) -> AsyncIterator[tuple[Lease, Result]]:
        """Like `held`, with `begin` in the transaction that takes the lease. The block may release it."""
        taken = await self.take_and(session_id, holder, begin, on_full_disk=on_full_disk)
        if taken is None:
            raise SessionBusy(f"session {session_id} is held by another process")
        lease = taken[0]
        heartbeat = asyncio.create_task(self.keep(lease))
        try:
            yield taken
        finally:
            await cancel_and_wait(heartbeat)
            if not lease.is_released:
                await self._release_with_retry(lease)

    async def _release_with_retry(self, lease: Lease) -> None:
        """Retry while the store is unavailable: else others would wait for the lease's end."""
        backoff = Backoff(FIRST_DELAY_SECONDS, self._seconds)
        deadline = time.monotonic() + self._seconds
        while True:
            try:
                return await self.release(lease)
            except StoreError as error:
                delay = backoff.next_seconds()
                if not is_transient(error) or lease.lost.is_set() or time.monotonic() + delay > deadline:
                    raise
                await asyncio.sleep(delay)

    async def keep(self, lease: Lease) -> None:
        """Renew until the lease is lost."""
        while not lease.lost.is_set():
            await asyncio.sleep(self._seconds / 3)
            try:
                await self._renew_in_time(lease)
            except SessionFenced:
                pass
            except StoreError as error:
                _log.warning("lease_not_renewed", lease=lease.name, error=str(error))
                if not lease.is_held():
                    # The store was unavailable for a whole period: another process may hold it by now.
                    lease.lost.set()
        if not lease.is_released:
            _log.warning("lease_lost", lease=lease.name, holder=lease.holder)

    async def _renew_in_time(self, lease: Lease) -> None:
        """Renew with a time limit: a server that does not respond must not hide the lease's end."""
        renewing = asyncio.ensure_future(self.renew(lease))
        try:
            await asyncio.wait({renewing}, timeout=max(0.0, lease.until - boot_clock()))
            if not renewing.done():
                raise StoreUnavailable("the store does not respond")
            renewing.result()
        finally:
            renewing.cancel()


def _nothing(_transaction: Any) -> None:
    """Nothing is run with the lease."""
