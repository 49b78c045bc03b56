"""What one chat is to show, and the way there: messages in order, within what Telegram takes.

A card is one message: what it is to say, and what it says by now. Whoever changes a card does not wait; the
wall brings the chat up to date, as fast as it may. So a text that grows is shown in as many steps as there
is room for, and what it says in the end is always shown.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import field

from interlock.channels.telegram.bot import TelegramBot
from interlock.channels.telegram.content import Content
from interlock.channels.telegram.faults import (
    ChatClosed,
    Flooded,
    MessageGone,
    NotTaken,
    TelegramFault,
    Unreachable,
    WrongToken,
)
from interlock.channels.telegram.traffic import Lane, Pace, Traffic
from interlock.infra.logging import Log
from interlock.infra.records import dataclass

_log = Log(__name__)

TYPING_SECONDS = 5.0


FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0


@dataclass(slots=True, eq=False)
class Card:
    """One message. `soft` says that what it shows is on its way and need not be shown at once."""

    name: str
    wanted: Content | None = None
    shown: Content | None = None
    message_id: int | None = None
    reply_to: int | None = None
    soft: bool = False
    # Told when the message is there, and when it no longer is.
    noted: Callable[["Card"], Awaitable[None]] | None = None
    # Told when it shows what it is to show.
    settled: Callable[["Card"], Awaitable[None]] | None = None
    # Why it cannot be shown at all.
    fault: str = ""
    plain: bool = field(default=False)

    @property
    def is_due(self) -> bool:
        if self.fault:
            return False
        return self.wanted != self.shown if self.wanted is not None else self.message_id is not None


class Wall:
    def __init__(self, bot: TelegramBot, chat_id: int, pace: Pace, traffic: Traffic) -> None:
        self.chat_id = chat_id
        self._bot = bot
        self._lane = Lane(chat_id, pace, traffic)
        self._cards: list[Card] = []
        self._presses: deque[tuple[str, str]] = deque()
        self._bell = asyncio.Event()
        self._silent_until = 0.0
        self._pause = 0.0
        self._typing_wanted = False
        self._typed_at = 0.0
        self._running: asyncio.Task[None] | None = None
        self._is_closed = False

    def put(self, card: Card) -> Card:
        """Below what is there."""
        self._cards.append(card)
        self._wake()
        return card

    def say(self, content: Content) -> None:
        """A message that stays as it is."""
        self.put(Card("said", wanted=content))

    def change(self, card: Card, content: Content | None, *, soft: bool = False) -> None:
        card.wanted, card.soft = content, soft
        self._wake()

    def typing(self) -> None:
        self._typing_wanted = True
        self._wake()

    def answer_press(self, press_id: str, text: str) -> None:
        """Before anything else: a button waits for it, though not for long."""
        self._presses.append((press_id, text))
        self._wake()

    async def settle(self) -> None:
        """Until everything is shown."""
        if self._running is not None:
            await asyncio.shield(self._running)

    async def close(self) -> None:
        self._is_closed = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

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
                wait = self._longer_pause()
            if wait is None:
                # Nothing to do: it begins again when something is put.
                return
            if wait > 0:
                # Not by `wait_for`: in Python 3.11 that loses a cancellation that comes with a ring.
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._bell.wait()

    async def _step(self) -> float | None:
        """Do one thing; or tell in how many seconds there will be one to do, None where there is none."""
        now = time.monotonic()
        if self._presses:
            wait = self._lane.wait_seconds(now)
            return wait if wait > 0 else await self._answer_press()
        card = self._next()
        if card is None:
            return await self._type(now)
        is_soft = card.soft and card.message_id is not None
        wait = max(self._silent_until - now, self._lane.wait_seconds(now, soft=is_soft))
        if wait > 0:
            return wait
        await self._bring(card)
        return 0.0

    async def _answer_press(self) -> float:
        """If it does not arrive, the button's mark goes away by itself."""
        press_id, text = self._presses[0]
        try:
            await self._lane.go(lambda: self._bot.answer_press(press_id, text))
        except Flooded:
            return 0.0
        except TelegramFault as fault:
            _log.info("telegram_press_not_answered", chat=self.chat_id, fault=str(fault))
        self._presses.popleft()
        return 0.0

    def _next(self) -> Card | None:
        """The first one; but what is only on its way lets those pass that are to be shown now."""
        due = [card for card in self._cards if card.is_due]
        pressing = (card for card in due if not card.soft or card.message_id is None)
        return next(pressing, due[0] if due else None)

    async def _bring(self, card: Card) -> None:
        wanted = card.wanted
        try:
            await self._lane.go(lambda: self._request(card, wanted))
        except Flooded:
            return
        except Unreachable as fault:
            self._silent_until = time.monotonic() + self._longer_pause()
            _log.info("telegram_unreachable", chat=self.chat_id, fault=str(fault), pause=self._pause)
        except TelegramFault as fault:
            await self._refused(card, fault)
        else:
            self._pause = 0.0
            await self._brought(card, wanted)

    def _longer_pause(self) -> float:
        self._pause = min(LONGEST_PAUSE_SECONDS, self._pause * 2 or FIRST_PAUSE_SECONDS)
        return self._pause

    async def _request(self, card: Card, wanted: Content | None) -> None:
        if wanted is None:
            if card.message_id is not None:
                await self._bot.delete(self.chat_id, card.message_id)
            return
        content = wanted.plain() if card.plain else wanted
        if card.message_id is None:
            card.message_id = await self._bot.send(self.chat_id, content, reply_to=card.reply_to)
            # It stays due until it is noted: a process that ends before that would send it again.
            await _tell(card.noted, card)
        else:
            await self._bot.edit(self.chat_id, card.message_id, content)

    async def _brought(self, card: Card, wanted: Content | None) -> None:
        card.shown = wanted
        if wanted is None:
            card.message_id = None
            self.release([card])
            await _tell(card.noted, card)
        elif card.noted is None and not card.is_due:
            # Nobody will change it any more.
            self.release([card])
        if not card.is_due:
            await _tell(card.settled, card)

    async def _refused(self, card: Card, fault: TelegramFault) -> None:
        if isinstance(fault, WrongToken):
            # Whoever polls ends the process.
            self._silent_until = time.monotonic() + LONGEST_PAUSE_SECONDS
        elif isinstance(fault, MessageGone):
            card.message_id = card.shown = None
            if card.wanted is None:
                await self._brought(card, None)
        elif isinstance(fault, NotTaken) and not card.plain and card.wanted is not None:
            card.plain = True
        elif isinstance(fault, ChatClosed):
            _log.warning("telegram_chat_closed", chat=self.chat_id, reason=str(fault))
            for each in tuple(self._cards):
                # The end of one task may have released others of its cards.
                if each in self._cards:
                    await self._give_up(each, str(fault))
        else:
            _log.warning("telegram_not_taken", chat=self.chat_id, reason=str(fault))
            await self._give_up(card, str(fault))

    async def _give_up(self, card: Card, reason: str) -> None:
        card.fault = reason or "Telegram rejected the message"
        self.release([card])
        await _tell(card.settled, card)

    async def _type(self, now: float) -> float | None:
        if not self._typing_wanted:
            return None
        self._typing_wanted = False
        wait = max(self._silent_until - now, self._lane.wait_seconds(now, soft=True))
        if now - self._typed_at >= TYPING_SECONDS and wait <= 0:
            self._typed_at = now
            with suppress(TelegramFault):
                await self._lane.go(lambda: self._bot.typing(self.chat_id))
        return 0.0

    def release(self, cards: list[Card]) -> None:
        """Nobody changes these any more."""
        for card in cards:
            if card in self._cards:
                self._cards.remove(card)


async def _tell(told: Callable[[Card], Awaitable[None]] | None, card: Card) -> None:
    """What cannot be noted must not keep the chat from being shown the rest."""
    if told is None:
        return
    try:
        await told(card)
    except Exception as error:  # noqa: BLE001 - whatever it is, the chat goes on
        _log.error("telegram_not_noted", card=card.name, exc_info=error)
