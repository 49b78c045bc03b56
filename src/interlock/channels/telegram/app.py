"""The bot in this process: waits for the bot's lease, then serves it until stopped."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from interlock.channels.telegram.access_control import AccessControl
from interlock.channels.telegram.active_chats import ActiveChats
from interlock.channels.telegram.bot_api import BotApiClient
from interlock.channels.telegram.bot_lease import BotLease
from interlock.channels.telegram.commands import COMMANDS
from interlock.channels.telegram.errors import TelegramApiError, TelegramRateLimited
from interlock.channels.telegram.polling import wait_until_reachable
from interlock.channels.telegram.rate_limit import BotRateLimiter, RateLimit
from interlock.channels.telegram.removed_users import cancel_tasks_of_removed_users
from interlock.channels.telegram.services import TelegramServices
from interlock.channels.telegram.store import TelegramStore
from interlock.channels.telegram.updates import BotIdentity
from interlock.core.aio import cancel_and_wait
from interlock.core.errors import StoreError
from interlock.core.logging import StructuredLogger

_log = StructuredLogger(__name__)


class TelegramApp:
    """`run` it until cancelled, then `close` it.

    `announce` is called when this process gets the bot's lease, `waits` when another process holds it.
    """

    def __init__(
        self,
        bot: BotApiClient,
        records: TelegramStore,
        services: TelegramServices,
        lease: BotLease,
        *,
        private: RateLimit,
        group: RateLimit,
        announce: Callable[[BotIdentity], None],
        waits: Callable[[BotIdentity], None],
    ) -> None:
        self._bot = bot
        self._records = records
        self._services = services
        self._lease = lease
        # To be run by the caller as a background task.
        self.hub = services.hub
        self._paces = (private, group)
        self._announce = announce
        self._waits = waits
        self._admission = AccessControl(services.given)
        self._traffic = BotRateLimiter(may_speak=lease.is_held)
        self._shift: ActiveChats | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def dismiss(self) -> int:
        """Cancel the tasks of people no longer listed, before a worker starts them.

        Returns their number.
        """
        try:
            return await cancel_tasks_of_removed_users(self._records, self._admission, self._services)
        except StoreError as error:
            # It is repeated before the first poll.
            _log.warning("telegram_not_dismissed", error=str(error))
            return 0

    async def run(self) -> None:
        name = await wait_until_reachable(self._bot)
        while True:
            await self._until_held(name)
            self._keeping = asyncio.create_task(self._lease.keep())
            await self._list_commands()
            self._announce(name)
            self._shift = ActiveChats(
                *(self._bot, self._records, self._services, self._admission, self._traffic, self._paces)
            )
            await self._speak(self._shift, name, self._keeping)
            await self._shift.close()
            self._shift = None

    async def _until_held(self, name: BotIdentity) -> None:
        is_told = False
        while True:
            try:
                if await self._lease.take():
                    return
                if not is_told:
                    self._waits(name)
                    is_told = True
            except StoreError as error:
                _log.warning("telegram_lease_not_taken", error=str(error))
            await asyncio.sleep(self._lease.retry_seconds)

    async def _list_commands(self) -> None:
        try:
            await self._bot.set_commands(COMMANDS)
        except TelegramRateLimited as flood:
            self._traffic.pause_all(time.monotonic(), flood.seconds)
        except TelegramApiError as fault:
            _log.info("telegram_commands_not_listed", fault=str(fault))

    async def _speak(self, shift: ActiveChats, name: BotIdentity, keeping: "asyncio.Task[None]") -> None:
        """Serve until the lease is lost. When cancelled, running tasks are still displayed."""
        polling = asyncio.create_task(shift.poll(name))
        try:
            await asyncio.wait({polling, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if polling.done():
                polling.result()
        finally:
            await cancel_and_wait(polling)

    async def flush(self) -> None:
        """Send the ends of finished tasks, within a short time limit."""
        if self._shift is not None:
            await self._shift.flush()

    async def close(self) -> None:
        if self._shift is not None:
            await self._shift.close()
        if self._keeping is not None:
            await cancel_and_wait(self._keeping)
        await self._lease.release()
        with suppress(TelegramApiError):
            await self._bot.close()
