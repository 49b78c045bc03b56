"""Leases on sessions: one writer at a time, for a limited time.

A holder that was suspended and resumes late still has its old token, and every write it tries is refused in
the same statement that would have written.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from interlock.core.errors import (
    SessionBusy,
    SessionFenced,
    SessionNotFound,
    StoreError,
    StoreUnavailable,
    is_transient,
)
from interlock.core.logging import StructuredLogger
from interlock.db.process_liveness import ProcessLocks
from interlock.log.lease_table import LeaseTable, boot_clock
from interlock.log.writer import EventLog, Transaction

_log = StructuredLogger(__name__)

Result = TypeVar("Result")

FIRST_DELAY_SECONDS = 0.05

# Separates a holder's name from the name of its process's lock.
_UNDER = " under "


@dataclass(slots=True)
class LeaseState:
    """The lease's deadline by this machine's own clock, before which no other holder can have taken the
    session; and whether it was released."""

    until: float = 0.0
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class Lease:
    """Proof of holding a session. `lost` is set as soon as the holder knows that it is lost."""

    session_id: str
    token: int
    holder: str
    seconds: float
    lost: asyncio.Event = field(default_factory=asyncio.Event, compare=False)
    tenure: LeaseState = field(default_factory=LeaseState, compare=False)

    def is_held(self) -> bool:
        """Whether the lease is held by the local clock. Check it right before an effect that cannot be
        fenced: a process that was suspended does not know yet that it lost the lease. Thread-safe."""
        return not self.lost.is_set() and boot_clock() < self.tenure.until


class SessionLeases:
    """`lives` is given where all processes run on one machine, whose kernel knows which have ended."""

    def __init__(self, log: EventLog, *, seconds: float, lives: ProcessLocks | None = None) -> None:
        self._events = log
        self._seconds = seconds
        self._rows = LeaseTable("session_leases", "session_id", seconds=seconds)
        self._lives = lives

    async def take(self, session_id: str, holder: str) -> Lease | None:
        """The lease, or None while the session is held."""
        taken = await self.take_and(session_id, holder, _nothing)
        return None if taken is None else taken[0]

    async def take_and(
        self,
        session_id: str,
        holder: str,
        begin: Callable[[Transaction], Result],
        *,
        on_full_disk: bool = False,
    ) -> tuple[Lease, Result] | None:
        """Like `take`, with the result of `begin`, which runs in the transaction that takes the session."""

        named, is_gone = self._named(holder), None if self._lives is None else self.is_gone

        def work(transaction: Transaction) -> tuple[int, Result] | None:
            token = self._rows.take_over(is_gone, transaction, session_id, named)
            return None if token is None else (token, begin(transaction))

        def lease_of(token: int) -> Lease:
            return Lease(session_id, token, holder, self._seconds, tenure=LeaseState(asked + self._seconds))

        asked = boot_clock()
        taking = self._events.transact(session_id, work, uninterruptible=True, on_full_disk=on_full_disk)
        try:
            taken = await taking
        except asyncio.CancelledError:
            # Else the session would stay held without a known holder.
            if taking.exception() is None and (taken := taking.result()) is not None:
                await self._release_with_retry(lease_of(taken[0]))
            raise
        return None if taken is None else (lease_of(taken[0]), taken[1])

    def is_gone(self, holder: str) -> bool:
        """Whether the process of a holder, named as in its row, has certainly ended. Thread-safe."""
        _, marked, lock = holder.rpartition(_UNDER)
        return bool(marked) and self._lives is not None and self._lives.is_gone(lock)

    def _named(self, holder: str) -> str:
        lock = None if self._lives is None else self._lives.acquire()
        return holder if lock is None else f"{holder}{_UNDER}{lock}"

    async def renew(self, lease: Lease) -> None:
        def work(transaction: Transaction) -> bool:
            return self._rows.renew(transaction, lease.session_id, lease.token)

        asked = boot_clock()
        try:
            renewed = await self._events.transact(lease.session_id, work)
        except SessionNotFound:
            renewed = False
        if renewed:
            lease.tenure.until = asked + self._seconds
        else:
            lease.lost.set()
            raise SessionFenced(f"the lease on session {lease.session_id} is no longer held")

    async def release(self, lease: Lease) -> None:
        lease.tenure.until = 0.0

        def work(transaction: Transaction) -> None:
            self.release_within(transaction, lease)

        with suppress(SessionNotFound):
            await self._events.transact(lease.session_id, work)
        self.mark_released(lease)

    def release_within(self, transaction: Transaction, lease: Lease) -> None:
        """As part of a transaction; call `mark_released` after its commit."""
        self._rows.release(transaction, lease.session_id, lease.token)

    def mark_released(self, lease: Lease) -> None:
        lease.tenure.until, lease.tenure.is_over = 0.0, True

    @asynccontextmanager
    async def held(self, session_id: str, holder: str) -> AsyncIterator[Lease]:
        """Hold the session for as long as the block runs, renewing three times a period."""
        async with self.held_and(session_id, holder, _nothing) as (lease, _):
            yield lease

    @asynccontextmanager
    async def held_and(
        self,
        session_id: str,
        holder: str,
        begin: Callable[[Transaction], Result],
        *,
        on_full_disk: bool = False,
    ) -> AsyncIterator[tuple[Lease, Result]]:
        """Like `held`, with `begin` in the transaction that takes the lease. The block may release it."""
        taken = await self.take_and(session_id, holder, begin, on_full_disk=on_full_disk)
        if taken is None:
            raise SessionBusy(f"session {session_id} is held by another process")
        lease = taken[0]
        heartbeat = asyncio.create_task(self._beat(lease))
        try:
            yield taken
        finally:
            heartbeat.cancel()
            # Waiting this way, a cancellation of our own is not mistaken for the heartbeat's.
            await asyncio.wait({heartbeat})
            if not lease.tenure.is_over:
                await self._release_with_retry(lease)

    async def _release_with_retry(self, lease: Lease) -> None:
        """Retry while the store is unavailable: else the session would wait for the lease's end."""
        delay, deadline = FIRST_DELAY_SECONDS, time.monotonic() + self._seconds
        while True:
            try:
                return await self.release(lease)
            except StoreError as error:
                if not is_transient(error) or lease.lost.is_set() or time.monotonic() + delay > deadline:
                    raise
                await asyncio.sleep(delay)
                delay *= 2

    async def _beat(self, lease: Lease) -> None:
        while not lease.lost.is_set():
            await asyncio.sleep(self._seconds / 3)
            try:
                await self._renew_in_time(lease)
            except SessionFenced:
                if not lease.tenure.is_over:
                    _log.warning("lease_lost", session_id=lease.session_id, holder=lease.holder)
            except StoreError as error:
                _log.warning("lease_not_renewed", session_id=lease.session_id, error=str(error))
                if not lease.is_held():
                    # The store was unavailable for a whole period: another worker may hold the session by
                    # now.
                    lease.lost.set()

    async def _renew_in_time(self, lease: Lease) -> None:
        """Renew with a time limit: a server that does not respond must not hide the lease's end."""
        renewing = asyncio.ensure_future(self.renew(lease))
        try:
            await asyncio.wait({renewing}, timeout=max(0.0, lease.tenure.until - boot_clock()))
            if not renewing.done():
                raise StoreUnavailable("the store does not respond")
            renewing.result()
        finally:
            renewing.cancel()


def _nothing(_transaction: Transaction) -> None:
    """Nothing is run with the lease."""
