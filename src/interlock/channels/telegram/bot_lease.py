"""A lease on a bot: one process at a time serves it, by the clock of leases.

Only the holder stores incoming messages and sends any. Each write checks the lease in its transaction; each
message is sent only while no other process can have taken the lease.

With an SQLite store, a lease also records the file lock it was taken under. A process that gets that lock
knows that the holder has ended, and need not wait for the lease to expire.
"""

import asyncio
import os

from interlock.channels.telegram.bot_lock import BotFileLock
from interlock.core.errors import StoreError
from interlock.core.logging import StructuredLogger
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.lease_table import LeaseTable, boot_clock
from interlock.log.writer import EventLog, Transaction

_log = StructuredLogger(__name__)

# How often a waiting process tries the lock.
LOOK_SECONDS = 0.5

# Expires a lease taken under the lock that is held now.
EXPIRE_DEAD_HOLDER = "UPDATE telegram_leases SET expires_ms = 0 WHERE bot_id = ? AND holder LIKE ?"
NAME_HOLDER = "UPDATE telegram_leases SET holder = ? WHERE bot_id = ? AND token = ?"


class BotLeaseLost(StoreError):
    """Another process has taken the bot's lease, or may have."""

    code = "BOT_TAKEN"


class BotLease:
    def __init__(
        self, log: EventLog, bot_id: int, *, seconds: float, lock: BotFileLock | None = None
    ) -> None:
        self.bot_id = bot_id
        self._events = log
        self._seconds = seconds
        self._rows = LeaseTable("telegram_leases", "bot_id", seconds=seconds)
        self._lock = lock
        # The lock recorded in the row.
        self._held_under: str | None = None
        # The lock was free but did not help: then it is no reason to retry early.
        self._was_in_vain = False
        self._token: int | None = None
        self._until = 0.0

    @property
    def retry_seconds(self) -> float:
        """The interval at which a waiting process retries and the holder renews."""
        return self._seconds / 3

    def is_held(self) -> bool:
        """By this machine's own clock; check it right before sending."""
        return self._token is not None and boot_clock() < self._until

    def check(self, transaction: Transaction) -> None:
        """Check in a transaction that stores something, after its stream's head is locked."""
        token = self._token
        if token is None or not self._rows.is_held(transaction, self.bot_id, token):
            raise BotLeaseLost("another process is connected to this Telegram bot; nothing was stored here")

    async def take(self) -> bool:
        """Take the lease; False while another process holds it."""
        lock = self._locked()

        def work(transaction: Transaction) -> int | None:
            transaction.next_seq()
            if lock is not None:
                transaction.connection.change(EXPIRE_DEAD_HOLDER, (self.bot_id, f"% {lock}"))
            return self._rows.take(transaction, self.bot_id, _holder(lock))

        asked = boot_clock()
        self._was_in_vain = lock is not None
        self._token = await self._events.transact(SYSTEM_STREAM, work)
        self._until = asked + self._seconds
        self._held_under = lock
        if self._token is None:
            # A holder without the lock takes it when it renews.
            self._let_go()
        return self._token is not None

    async def wait_before_retry(self) -> None:
        """Wait until the next attempt: at once when the holder has ended and the lock is free."""
        until = boot_clock() + self.retry_seconds
        while (left := until - boot_clock()) > 0:
            await asyncio.sleep(min(left, LOOK_SECONDS))
            if not self._was_in_vain and self._locked() is not None:
                return

    async def keep(self) -> None:
        """Renew until the lease is lost."""
        while self.is_held():
            await asyncio.sleep(self.retry_seconds)
            try:
                if not await self._renew():
                    break
            except StoreError as error:
                _log.warning("telegram_lease_not_renewed", error=str(error))
        self._token = None
        self._let_go()
        _log.warning(
            "telegram_lease_lost",
            reason="this process was suspended, or the store was unavailable, for too long",
        )

    async def _renew(self) -> bool:
        token = self._token
        if token is None:
            return False
        lock = self._locked()

        def work(transaction: Transaction) -> bool:
            if not self._rows.renew(transaction, self.bot_id, token):
                return False
            if lock != self._held_under:
                transaction.connection.change(NAME_HOLDER, (_holder(lock), self.bot_id, token))
            return True

        asked = boot_clock()
        if not await self._events.transact(SYSTEM_STREAM, work):
            return False
        self._until = asked + self._seconds
        self._held_under = lock
        return True

    async def release(self) -> None:
        """Release the lease, so that the next process need not wait for it to expire."""
        token, self._token = self._token, None

        def work(transaction: Transaction) -> None:
            if token is not None:
                self._rows.release(transaction, self.bot_id, token)

        try:
            if token is not None:
                await self._events.transact(SYSTEM_STREAM, work)
        except StoreError as error:
            _log.warning("telegram_lease_not_given_back", error=str(error))
        finally:
            self._let_go()

    def _locked(self) -> str | None:
        return None if self._lock is None else self._lock.take()

    def _let_go(self) -> None:
        if self._lock is not None:
            self._lock.let_go()


def _holder(lock: str | None) -> str:
    return f"telegram {os.getpid()}" if lock is None else f"telegram {os.getpid()} {lock}"
