"""The lease on a bot: one process at a time serves it.

Only the holder stores incoming messages and sends any. Each write checks the lease in its transaction; each
message is sent only while no other process can have taken the lease.
"""

import os

from interlock.core.errors import StoreError
from interlock.core.logging import StructuredLogger
from interlock.db.leases import Lease, Leases
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.writer import Transaction

_log = StructuredLogger(__name__)


class BotLeaseLost(StoreError):
    """Another process has taken the bot's lease, or may have."""

    code = "BOT_TAKEN"


class BotLease:
    def __init__(self, leases: Leases, bot_id: int) -> None:
        self.bot_id = bot_id
        self.retry_seconds = leases.retry_seconds
        self._leases = leases
        self._lease: Lease | None = None

    def is_held(self) -> bool:
        """By this machine's own clock; check it right before sending."""
        return self._lease is not None and self._lease.is_held()

    def check(self, transaction: Transaction) -> None:
        """Check in a transaction that stores something, after its stream's head is locked."""
        lease = self._lease
        if lease is None or not self._leases.is_held_within(transaction.connection, lease):
            raise BotLeaseLost("another process is connected to this Telegram bot; nothing was stored here")

    async def take(self) -> bool:
        """Take the lease; False while another process holds it."""
        holder, name = f"telegram {os.getpid()}", f"bot:{self.bot_id}"
        self._lease = await self._leases.take(SYSTEM_STREAM, holder, name=name)
        return self._lease is not None

    async def keep(self) -> None:
        """Renew until the lease is lost."""
        if self._lease is not None:
            await self._leases.keep(self._lease)

    async def release(self) -> None:
        """Release the lease, so that the next process need not wait for it to expire."""
        lease, self._lease = self._lease, None
        if lease is None:
            return
        try:
            await self._leases.release(lease)
        except StoreError as error:
            _log.warning("telegram_lease_not_given_back", error=str(error))
