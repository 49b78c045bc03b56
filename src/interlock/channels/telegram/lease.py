"""Who speaks for a bot: one process at a time, for a while, by the clock of leases.

Only the holder takes in what people write, and only it tells them anything. What it stores is stored if it
still holds the bot in that very transaction; what it sends is sent while nobody else can have taken it.
"""

import asyncio
import os
import time

import structlog

from interlock.events.catalog import SYSTEM_STREAM
from interlock.events.log import EventLog, Transaction
from interlock.infra.errors import StoreError

_log = structlog.get_logger(__name__)

# The token only grows; after a restore it begins at the database's time.
TAKE = """
INSERT INTO telegram_leases (bot_id, token, holder, expires_ms)
VALUES (?, {NOW_MS}, ?, {LEASE_MS} + ?)
ON CONFLICT (bot_id) DO UPDATE
SET token = CASE WHEN telegram_leases.token < excluded.token THEN excluded.token
                 ELSE telegram_leases.token + 1 END,
    holder = excluded.holder, expires_ms = excluded.expires_ms
WHERE telegram_leases.expires_ms <= {LEASE_MS} OR telegram_leases.expires_ms > {LAST_LEASE_MS}
RETURNING token
"""
RENEW = """
UPDATE telegram_leases SET expires_ms = {LEASE_MS} + ?
WHERE bot_id = ? AND token = ? AND expires_ms > {LEASE_MS}
"""
GIVE_BACK = "UPDATE telegram_leases SET expires_ms = 0 WHERE bot_id = ? AND token = ?"
IS_HELD = """
SELECT 1 FROM telegram_leases WHERE bot_id = ? AND token = ? AND expires_ms > {LEASE_MS} {FOR_SHARE}
"""


class BotTaken(StoreError):
    """Another process speaks for the bot by now, or may."""

    code = "BOT_TAKEN"


def _now() -> float:
    """Also while the machine sleeps, or this process is stopped."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class BotLease:
    def __init__(self, log: EventLog, bot_id: int, *, seconds: float) -> None:
        self.bot_id = bot_id
        self._events = log
        self._seconds = seconds
        self._holder = f"telegram {os.getpid()}"
        self._token: int | None = None
        self._until = 0.0

    @property
    def again_seconds(self) -> float:
        """How often somebody who waits for it asks, and somebody who has it renews it."""
        return self._seconds / 3

    def is_held(self) -> bool:
        """By this machine's own clock: to be asked right before something is sent."""
        return self._token is not None and _now() < self._until

    def check(self, transaction: Transaction) -> None:
        """In the transaction that stores something, after its stream's head is locked."""
        token = self._token
        if token is None or not transaction.connection.query(IS_HELD, (self.bot_id, token)):
            raise BotTaken("another process speaks for this Telegram bot; nothing was stored here")

    async def take(self) -> bool:
        """False while another process has it."""

        def work(transaction: Transaction) -> int | None:
            # Heads are locked before leases everywhere.
            transaction.next_seq()
            rows = transaction.connection.query(TAKE, (self.bot_id, self._holder, self._milliseconds))
            return rows[0][0] if rows else None

        asked = _now()
        self._token = await self._events.transact(SYSTEM_STREAM, work)
        self._until = asked + self._seconds
        return self._token is not None

    async def keep(self) -> None:
        """Until it is lost."""
        while self.is_held():
            await asyncio.sleep(self.again_seconds)
            try:
                if not await self._renew():
                    break
            except StoreError as error:
                _log.warning("telegram_lease_not_renewed", error=str(error))
        self._token = None
        _log.warning("telegram_lease_lost", reason="this process was stopped, or the store away, too long")

    async def _renew(self) -> bool:
        def work(transaction: Transaction) -> int:
            transaction.next_seq()
            return transaction.connection.change(RENEW, (self._milliseconds, self.bot_id, self._token))

        asked = _now()
        if not await self._events.transact(SYSTEM_STREAM, work):
            return False
        self._until = asked + self._seconds
        return True

    async def give_back(self) -> None:
        """So that nobody has to wait for its end."""
        token, self._token = self._token, None
        if token is None:
            return

        def work(transaction: Transaction) -> None:
            transaction.next_seq()
            transaction.connection.change(GIVE_BACK, (self.bot_id, token))

        try:
            await self._events.transact(SYSTEM_STREAM, work)
        except StoreError as error:
            _log.warning("telegram_lease_not_given_back", error=str(error))

    @property
    def _milliseconds(self) -> int:
        return int(self._seconds * 1000)
