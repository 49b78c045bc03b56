"""Polls Telegram for updates, and stores each before it is acknowledged."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from interlock.channels.telegram.access_control import AccessControl, AccessRefusal
from interlock.channels.telegram.bot_api import BotApiClient
from interlock.channels.telegram.errors import (
    InvalidBotToken,
    PollingConflict,
    TelegramApiError,
    TelegramRateLimited,
    TelegramUnreachable,
)
from interlock.channels.telegram.outgoing_content import MessageContent
from interlock.channels.telegram.rate_limit import PRIVATE_CHAT_LIMIT, BotRateLimiter, ChatRateLimiter
from interlock.channels.telegram.store import PollOffset, TelegramStore
from interlock.channels.telegram.updates import (
    BotIdentity,
    IncomingMessage,
    MessageSender,
    ParsedUpdate,
    read_update,
)
from interlock.core.aio import Backoff
from interlock.core.errors import FatalError, StoreError, StoreFull
from interlock.core.logging import StructuredLogger
from interlock.log.channel_events import ChannelPassedOver, ChannelRefused
from interlock.log.hash_chain import now_us
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.writer import EventLog

if TYPE_CHECKING:
    from telegram import Update

_log = StructuredLogger(__name__)

LONG_POLL_SECONDS = 50
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 60.0
# Telegram keeps updates for a day; after a week without any, it restarts their numbering.
STALE_US = 2 * 86_400 * 1_000_000
REFUSAL = "This bot is private. Your Telegram id is {id}; its operator can allow it."
STORE_IS_FULL = (
    "The disk of Interlock's store is full. Your message is queued until the operator frees space."
)
FULL_REPLY_SECONDS = 600.0
WRONG_BOT = (
    "TELEGRAM_BOT_TOKEN: Telegram rejects this token; copy it from BotFather again, or create a new one"
)
OTHER_POLLER = (
    "another program receives this bot's messages (a second `interlock telegram`, or a webhook): "
    "stop it, or use a separate bot"
)


async def wait_until_reachable(bot: BotApiClient) -> BotIdentity:
    """Wait until Telegram is reachable, however long, and return the bot's identity."""
    pause = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
    while True:
        try:
            return await bot.open()
        except InvalidBotToken:
            raise FatalError(WRONG_BOT) from None
        except TelegramRateLimited as flood:
            _log.warning("telegram_flood", seconds=flood.seconds)
            await asyncio.sleep(flood.seconds)
        except TelegramApiError as fault:
            seconds = pause.next_seconds()
            _log.warning("telegram_unreachable", fault=str(fault), again_after=seconds)
            await asyncio.sleep(seconds)


class UpdatePoller:
    """`arrived` is called with the chats that have new messages; `ready` once, after the first poll."""

    def __init__(
        self,
        bot: BotApiClient,
        name: BotIdentity,
        records: TelegramStore,
        admission: AccessControl,
        log: EventLog,
        traffic: BotRateLimiter,
        *,
        ready: Callable[[], Awaitable[None]],
        arrived: Callable[[set[int]], None],
    ) -> None:
        self._bot = bot
        self._name = name
        self._records = records
        self._admission = admission
        self._log = log
        self._traffic = traffic
        self._ready = ready
        self._arrived = arrived
        self._place: PollOffset | None = None
        self._is_ready = False
        self._replies: set[asyncio.Task[None]] = set()
        self._full_replied_at: dict[int, float] = {}

    async def run(self) -> None:
        pause = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        while True:
            try:
                await self._once()
            except InvalidBotToken:
                raise FatalError(WRONG_BOT) from None
            except Exception as error:  # noqa: BLE001 - whatever it is, Telegram is asked again
                await self._wait_after(error, pause)
            else:
                pause.reset()

    async def _once(self) -> None:
        if not self._traffic.may_speak():
            raise TelegramUnreachable("another process may have taken over this bot")
        if not self._is_ready:
            self._place = await self._records.place()
        offset = self._offset()
        updates = await self._bot.updates(offset, LONG_POLL_SECONDS if self._is_ready else 0)
        # Skip updates below the offset, which were stored before: a command must not run twice.
        await self._take([each for each in updates if offset is None or each.update_id >= offset])
        if not self._is_ready:
            # If it fails, it is repeated.
            await self._ready()
            self._is_ready = True

    async def _wait_after(self, error: Exception, pause: Backoff) -> None:
        """Wait after an error. Nothing was acknowledged, so Telegram repeats it."""
        match error:
            case TelegramRateLimited(seconds=seconds):
                self._traffic.pause_all(time.monotonic(), seconds)
                await asyncio.sleep(seconds)
                return
            case PollingConflict():
                _log.warning("telegram_conflict", reason=OTHER_POLLER)
            case TelegramApiError():
                _log.warning("telegram_unreachable", fault=str(error))
            case StoreError():
                _log.warning("telegram_not_stored", error=str(error))
            case _:
                _log.error("telegram_not_read", exc_info=error)
        await pause.sleep()

    def _offset(self) -> int | None:
        if self._place is None or now_us() - self._place.updated_us > STALE_US:
            return None
        return self._place.next_update

    async def _take(self, updates: "Sequence[Update]") -> None:
        if not updates:
            return
        taken: list[IncomingMessage] = []
        next_update = 0
        for update in updates:
            next_update = max(next_update, update.update_id + 1)
            arrived = await self._read(update)
            if arrived.sender is None or arrived.incoming is None:
                continue
            reason = self._admission.refused(arrived.sender)
            if reason is None:
                taken.append(arrived.incoming)
            elif (notice := self._admission.notice(arrived.sender, reason)) is not None:
                await self._turn_away(arrived.sender, notice)
        try:
            await self._records.take_in(taken, next_update)
        except StoreFull:
            for chat_id in {incoming.chat_id for incoming in taken}:
                self._reply_inbox_full(chat_id)
            raise
        self._place = PollOffset(next_update, now_us())
        self._arrived({incoming.chat_id for incoming in taken})

    async def _read(self, update: "Update") -> ParsedUpdate:
        """Parse an update. One that cannot be parsed is skipped and logged: it must not block others."""
        try:
            if update.to_dict().keys() - {"update_id"}:
                return read_update(update, self._name)
            reason = "the library cannot parse the update"
        except Exception as error:  # noqa: BLE001 - whatever is odd about it
            _log.error("telegram_update_not_read", update=update.update_id, exc_info=error)
            reason = type(error).__name__
        event = ChannelPassedOver(channel="telegram", update=str(update.update_id), reason=reason)
        await self._log.append(SYSTEM_STREAM, event)
        return ParsedUpdate(update.update_id)

    async def _turn_away(self, sender: MessageSender, notice: AccessRefusal) -> None:
        event = ChannelRefused(
            channel="telegram",
            user=str(sender.user_id),
            chat=str(sender.chat_id),
            reason=notice.reason.value,
            unrecorded=notice.unrecorded,
        )
        await self._log.append(SYSTEM_STREAM, event)
        if notice.is_told:
            self._reply(sender.chat_id, REFUSAL.format(id=sender.user_id))

    def _reply_inbox_full(self, chat_id: int) -> None:
        """Reply that the inbox is full, once for the same message."""
        now = time.monotonic()
        if now - self._full_replied_at.get(chat_id, -FULL_REPLY_SECONDS) >= FULL_REPLY_SECONDS:
            self._full_replied_at[chat_id] = now
            self._reply(chat_id, STORE_IS_FULL)

    def _reply(self, chat_id: int, text: str) -> None:
        sending = asyncio.create_task(self._send(chat_id, text))
        self._replies.add(sending)
        sending.add_done_callback(self._replies.discard)

    async def _send(self, chat_id: int, text: str) -> None:
        """Send once; a failure is ignored."""
        lane = ChatRateLimiter(chat_id, PRIVATE_CHAT_LIMIT, self._traffic)
        await lane.free()
        with suppress(TelegramApiError):
            await lane.go(lambda: self._bot.send(chat_id, MessageContent(text)))
