"""Who speaks for a bot: one process at a time, for a while, by the clock of leases.

Only the holder takes in what people write, and only it tells them anything. What it stores is stored if it
still holds the bot in that very transaction; what it sends is sent while nobody else can have taken it.
"""

import asyncio
import os

from interlock.events.catalog import SYSTEM_STREAM
from interlock.events.leases import LeaseRows, now
from interlock.events.log import EventLog, Transaction
from interlock.infra.errors import StoreError
from interlock.infra.logging import Log

_log = Log(__name__)


class BotTaken(StoreError):
    """Another process speaks for the bot by now, or may."""

    code = "BOT_TAKEN"


class BotLease:
    def __init__(self, log: EventLog, bot_id: int, *, seconds: float) -> None:
        self.bot_id = bot_id
        self._events = log
        self._seconds = seconds
        self._rows = LeaseRows("telegram_leases", "bot_id", seconds=seconds)
        self._holder = f"telegram {os.getpid()}"
        self._token: int | None = None
        self._until = 0.0

    @property
    def again_seconds(self) -> float:
        """How often somebody who waits for it asks, and somebody who has it renews it."""
        return self._seconds / 3

    def is_held(self) -> bool:
        """By this machine's own clock: to be asked right before something is sent."""
        return self._token is not None and now() < self._until

    def check(self, transaction: Transaction) -> None:
        """In the transaction that stores something, after its stream's head is locked."""
        token = self._token
        if token is None or not self._rows.is_held(transaction, self.bot_id, token):
            raise BotTaken("another process speaks for this Telegram bot; nothing was stored here")

    async def take(self) -> bool:
        """False while another process has it."""

        def work(transaction: Transaction) -> int | None:
            return self._rows.take(transaction, self.bot_id, self._holder)

        asked = now()
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
        token = self._token
        if token is None:
            return False

        def work(transaction: Transaction) -> bool:
            return self._rows.renew(transaction, self.bot_id, token)

        asked = now()
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
            self._rows.give_back(transaction, self.bot_id, token)

        try:
            await self._events.transact(SYSTEM_STREAM, work)
        except StoreError as error:
            _log.warning("telegram_lease_not_given_back", error=str(error))
