"""The outbox of one chat: brings its messages up to date, in order and within Telegram's limits.

An `OutgoingMessage` has the wanted and the shown content. Changing it does not wait; the outbox sends the
difference as fast as the limits allow. A growing text is shown in as many steps as there is room for, and
its final content is always shown.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from interlock.channels.telegram.bot_api import BotApiClient
from interlock.channels.telegram.errors import (
    ChatUnavailable,
    InvalidBotToken,
    MessageNotFound,
    TelegramApiError,
    TelegramMessageRejected,
    TelegramRateLimited,
    TelegramUnreachable,
)
from interlock.channels.telegram.outgoing_content import MessageContent
from interlock.channels.telegram.rate_limit import BotRateLimiter, ChatRateLimiter, RateLimit
from interlock.core.aio import Backoff, cancel_and_wait
from interlock.core.logging import StructuredLogger

_log = StructuredLogger(__name__)

TYPING_SECONDS = 5.0


FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0


@dataclass(slots=True, eq=False)
class OutgoingMessage:
    """One message. `soft` marks intermediate content, which need not be shown at once."""

    name: str
    wanted: MessageContent | None = None
    shown: MessageContent | None = None
    message_id: int | None = None
    reply_to: int | None = None
    soft: bool = False
    # Called when the message was sent, and when it was deleted.
    noted: Callable[["OutgoingMessage"], Awaitable[None]] | None = None
    # Called when it shows the wanted content.
    settled: Callable[["OutgoingMessage"], Awaitable[None]] | None = None
    # Why it cannot be shown at all.
    fault: str = ""
    plain: bool = field(default=False)

    @property
    def is_due(self) -> bool:
        if self.fault:
            return False
        return self.wanted != self.shown if self.wanted is not None else self.message_id is not None


class ChatOutbox:
    def __init__(self, bot: BotApiClient, chat_id: int, pace: RateLimit, traffic: BotRateLimiter) -> None:
        self.chat_id = chat_id
        self._bot = bot
        self._lane = ChatRateLimiter(chat_id, pace, traffic)
        self._outgoing_messages: list[OutgoingMessage] = []
        self._presses: deque[tuple[str, str]] = deque()
        self._bell = asyncio.Event()
        self._silent_until = 0.0
        self._pause = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        self._typing_wanted = False
        self._typed_at = 0.0
        self._running: asyncio.Task[None] | None = None
        self._is_closed = False

    def put(self, outgoing: OutgoingMessage) -> OutgoingMessage:
        """Add a message below the others."""
        self._outgoing_messages.append(outgoing)
        self._wake()
        return outgoing

    def say(self, content: MessageContent) -> None:
        """Send a message that does not change."""
        self.put(OutgoingMessage("said", wanted=content))

    def change(
        self, outgoing: OutgoingMessage, content: MessageContent | None, *, soft: bool = False
    ) -> None:
        outgoing.wanted, outgoing.soft = content, soft
        self._wake()

    def typing(self) -> None:
        self._typing_wanted = True
        self._wake()

    def answer_callback(self, press_id: str, text: str) -> None:
        """Answer a button press, before anything else: Telegram waits for it only briefly."""
        self._presses.append((press_id, text))
        self._wake()

    async def settle(self) -> None:
        """Wait until everything is shown."""
        if self._running is not None:
            await asyncio.shield(self._running)

    async def close(self) -> None:
        self._is_closed = True
        if self._running is not None:
            await cancel_and_wait(self._running)

    def _wake(self) -> None:
        if self._is_closed:
            return
        self._bell.set()
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            self._bell.clear()
            try:
                wait = await self._step()
            except Exception as error:  # noqa: BLE001 - the chat must not fall silent for good
                _log.error("telegram_wall_waits", chat=self.chat_id, exc_info=error)
                wait = self._pause.next_seconds()
            if wait is None:
                # Idle: restarted when a message is added.
                return
            if wait > 0:
                # Not `wait_for`: in Python 3.11 it loses a cancellation that arrives together with the
                # event.
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._bell.wait()

    async def _step(self) -> float | None:
        """Do one thing; else return the seconds until the next is due, None if there is none."""
        now = time.monotonic()
        if self._presses:
            wait = self._lane.wait_seconds(now)
            return wait if wait > 0 else await self._answer_callback()
        outgoing = self._next()
        if outgoing is None:
            return await self._type(now)
        is_soft = outgoing.soft and outgoing.message_id is not None
        wait = max(self._silent_until - now, self._lane.wait_seconds(now, soft=is_soft))
        if wait > 0:
            return wait
        await self._bring(outgoing)
        return 0.0

    async def _answer_callback(self) -> float:
        """Answer a button press. If that fails, Telegram removes the progress mark itself."""
        press_id, text = self._presses[0]
        try:
            await self._lane.go(lambda: self._bot.answer_callback(press_id, text))
        except TelegramRateLimited:
            return 0.0
        except TelegramApiError as fault:
            _log.info("telegram_press_not_answered", chat=self.chat_id, fault=str(fault))
        self._presses.popleft()
        return 0.0

    def _next(self) -> OutgoingMessage | None:
        """The first due message; final content goes before intermediate content."""
        due = [outgoing for outgoing in self._outgoing_messages if outgoing.is_due]
        pressing = (outgoing for outgoing in due if not outgoing.soft or outgoing.message_id is None)
        return next(pressing, due[0] if due else None)

    async def _bring(self, outgoing: OutgoingMessage) -> None:
        wanted = outgoing.wanted
        try:
            await self._lane.go(lambda: self._request(outgoing, wanted))
        except TelegramRateLimited:
            return
        except TelegramUnreachable as fault:
            pause = self._pause.next_seconds()
            self._silent_until = time.monotonic() + pause
            _log.info("telegram_unreachable", chat=self.chat_id, fault=str(fault), pause=pause)
        except TelegramApiError as fault:
            await self._refused(outgoing, fault)
        else:
            self._pause.reset()
            await self._brought(outgoing, wanted)

    async def _request(self, outgoing: OutgoingMessage, wanted: MessageContent | None) -> None:
        if wanted is None:
            if outgoing.message_id is not None:
                await self._bot.delete(self.chat_id, outgoing.message_id)
            return
        content = wanted.plain() if outgoing.plain else wanted
        if outgoing.message_id is None:
            outgoing.message_id = await self._bot.send(self.chat_id, content, reply_to=outgoing.reply_to)
            # It stays due until it is recorded: after a crash before that, it is sent again.
            await _call_back(outgoing.noted, outgoing)
        else:
            await self._bot.edit(self.chat_id, outgoing.message_id, content)

    async def _brought(self, outgoing: OutgoingMessage, wanted: MessageContent | None) -> None:
        outgoing.shown = wanted
        if wanted is None:
            outgoing.message_id = None
            self.release([outgoing])
            await _call_back(outgoing.noted, outgoing)
        elif outgoing.noted is None and not outgoing.is_due:
            # It will not change any more.
            self.release([outgoing])
        if not outgoing.is_due:
            await _call_back(outgoing.settled, outgoing)

    async def _refused(self, outgoing: OutgoingMessage, fault: TelegramApiError) -> None:
        if isinstance(fault, InvalidBotToken):
            # The poller ends the process.
            self._silent_until = time.monotonic() + LONGEST_PAUSE_SECONDS
        elif isinstance(fault, MessageNotFound):
            outgoing.message_id = outgoing.shown = None
            if outgoing.wanted is None:
                await self._brought(outgoing, None)
        elif (
            isinstance(fault, TelegramMessageRejected)
            and not outgoing.plain
            and outgoing.wanted is not None
        ):
            outgoing.plain = True
        elif isinstance(fault, ChatUnavailable):
            _log.warning("telegram_chat_closed", chat=self.chat_id, reason=str(fault))
            for each in tuple(self._outgoing_messages):
                # The end of one task may have released others of its messages.
                if each in self._outgoing_messages:
                    await self._give_up(each, str(fault))
        else:
            _log.warning("telegram_not_taken", chat=self.chat_id, reason=str(fault))
            await self._give_up(outgoing, str(fault))

    async def _give_up(self, outgoing: OutgoingMessage, reason: str) -> None:
        outgoing.fault = reason or "Telegram rejected the message"
        self.release([outgoing])
        await _call_back(outgoing.settled, outgoing)

    async def _type(self, now: float) -> float | None:
        if not self._typing_wanted:
            return None
        self._typing_wanted = False
        wait = max(self._silent_until - now, self._lane.wait_seconds(now, soft=True))
        if now - self._typed_at >= TYPING_SECONDS and wait <= 0:
            self._typed_at = now
            with suppress(TelegramApiError):
                await self._lane.go(lambda: self._bot.typing(self.chat_id))
        return 0.0

    def release(self, outgoing_messages: list[OutgoingMessage]) -> None:
        """Forget messages that will not change any more."""
        for outgoing in outgoing_messages:
            if outgoing in self._outgoing_messages:
                self._outgoing_messages.remove(outgoing)


async def _call_back(
    entry: Callable[[OutgoingMessage], Awaitable[None]] | None, outgoing: OutgoingMessage
) -> None:
    """Call a callback. If recording fails, the chat is still shown the rest."""
    if entry is None:
        return
    try:
        await entry(outgoing)
    except Exception as error:  # noqa: BLE001 - whatever it is, the chat goes on
        _log.error("telegram_not_noted", outgoing=outgoing.name, exc_info=error)
