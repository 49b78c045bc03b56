"""How much Telegram takes, of each chat and of all: every request to a chat passes here.

A wait that Telegram asks for is kept by all requests to that chat, whichever of them it was asked of.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from interlock.channels.telegram.errors import TelegramRateLimited, TelegramUnreachable
from interlock.core.logging import StructuredLogger

_log = StructuredLogger(__name__)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How much a chat takes: so many requests in so many seconds, and a growing text only now and then."""

    requests: int
    seconds: float
    soft_seconds: float

    @property
    def soft_requests(self) -> int:
        """What is left of it is kept for what must be shown."""
        return max(1, self.requests * 3 // 4)


PRIVATE_CHAT_LIMIT = RateLimit(requests=30, seconds=30.0, soft_seconds=1.0)
GROUP_CHAT_LIMIT = RateLimit(requests=20, seconds=60.0, soft_seconds=3.0)
ALL_CHATS_LIMIT = RateLimit(requests=25, seconds=1.0, soft_seconds=0.0)


class SlidingWindowCounter:
    """Counts requests within a stretch of time."""

    def __init__(self, pace: RateLimit) -> None:
        self._pace = pace
        self._times: deque[float] = deque()

    def wait_seconds(self, now: float, *, soft: bool = False) -> float:
        while self._times and now - self._times[0] >= self._pace.seconds:
            self._times.popleft()
        allowed = self._pace.soft_requests if soft else self._pace.requests
        wait = self._times[-allowed] + self._pace.seconds - now if len(self._times) >= allowed else 0.0
        if soft and self._times:
            wait = max(wait, self._times[-1] + self._pace.soft_seconds - now)
        return wait

    def count(self, now: float) -> None:
        self._times.append(now)


class BotRateLimiter:
    """All chats of the bot together. Where two of them are flooded at once, it is the bot that is."""

    def __init__(
        self, pace: RateLimit = ALL_CHATS_LIMIT, *, may_speak: Callable[[], bool] = lambda: True
    ) -> None:
        self._meter = SlidingWindowCounter(pace)
        self._silent_until = 0.0
        self._flooded: dict[int, float] = {}
        self.may_speak = may_speak

    def wait_seconds(self, now: float, chat_id: int | None = None) -> float:
        silent_until = self._silent_until
        if chat_id is not None:
            silent_until = max(silent_until, self._flooded.get(chat_id, 0.0))
        return max(silent_until - now, self._meter.wait_seconds(now))

    def count(self, now: float) -> None:
        self._meter.count(now)

    def pause_chat(self, chat_id: int, now: float, seconds: float) -> None:
        self._flooded = {chat: until for chat, until in self._flooded.items() if until > now}
        self._flooded[chat_id] = max(now + seconds, self._flooded.get(chat_id, 0.0))
        if len(self._flooded) > 1:
            self._silent_until = max(self._silent_until, *self._flooded.values())

    def pause_all(self, now: float, seconds: float) -> None:
        """It was asked of a request that is to no chat."""
        self._silent_until = max(self._silent_until, now + seconds)


class ChatRateLimiter:
    """The way to one chat."""

    def __init__(self, chat_id: int, pace: RateLimit, traffic: BotRateLimiter) -> None:
        self.chat_id = chat_id
        self._meter = SlidingWindowCounter(pace)
        self._traffic = traffic

    def wait_seconds(self, now: float, *, soft: bool = False) -> float:
        here = self._meter.wait_seconds(now, soft=soft)
        return max(here, self._traffic.wait_seconds(now, self.chat_id))

    async def free(self) -> None:
        while True:
            wait = self.wait_seconds(time.monotonic())
            if wait <= 0:
                return
            await asyncio.sleep(wait)

    async def go(self, request: Callable[[], Awaitable[object]]) -> None:
        """Ask `wait_seconds` before. Nothing is sent once another process may speak for the bot."""
        if not self._traffic.may_speak():
            raise TelegramUnreachable("another process may have taken over this bot")
        now = time.monotonic()
        self._meter.count(now)
        self._traffic.count(now)
        try:
            await request()
        except TelegramRateLimited as flood:
            self._traffic.pause_chat(self.chat_id, time.monotonic(), flood.seconds)
            _log.warning("telegram_flood", chat=self.chat_id, seconds=flood.seconds)
            raise
