"""Telegram's rate limits, per chat and overall: every request to a chat passes here.

A flood wait applies to all requests to the chat, whichever request got it.
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
    """A chat's limit: requests per interval, and the interval between updates of a growing text."""

    requests: int
    seconds: float
    soft_seconds: float

    @property
    def soft_requests(self) -> int:
        """The share for intermediate updates; the rest is reserved for final content."""
        return max(1, self.requests * 3 // 4)


PRIVATE_CHAT_LIMIT = RateLimit(requests=30, seconds=30.0, soft_seconds=1.0)
GROUP_CHAT_LIMIT = RateLimit(requests=20, seconds=60.0, soft_seconds=3.0)
ALL_CHATS_LIMIT = RateLimit(requests=25, seconds=1.0, soft_seconds=0.0)


class SlidingWindowCounter:
    """Counts requests in a sliding time window."""

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
    """The limit of all chats together. Flood waits in two chats at once count as one of the whole bot."""

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
        """A flood wait of a request that concerns no chat."""
        self._silent_until = max(self._silent_until, now + seconds)


class ChatRateLimiter:
    """The limit of one chat."""

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
        """Send a request; check `wait_seconds` first. Nothing is sent once the lease may be lost."""
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
