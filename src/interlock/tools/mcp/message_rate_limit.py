"""Limits on a server's messages. Imported only when a connection is opened."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from mcp.client._transport import ReadStream, TransportStreams, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
# Unsolicited messages: a burst, and a rate per second.
BURST = 500.0
PER_SECOND = 100.0

# The only notifications that are handled.
_HEARD = frozenset({"notifications/progress", "notifications/tools/list_changed"})

Streams = AbstractAsyncContextManager[TransportStreams]


class MessageRateLimiter:
    """Each incoming message takes a token, each outgoing request returns one."""

    def __init__(self, burst: float = BURST, per_second: float = PER_SECOND) -> None:
        self._burst = self._left = burst
        self._per_second = per_second
        self._at = time.monotonic()

    def give(self) -> None:
        self._left = min(self._burst, self._left + 1)

    def take(self) -> bool:
        """Take a token; False if there is none."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second) - 1
        self._at = now
        return self._left >= 0


class _Ends(Protocol):
    async def aclose(self) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> bool | None: ...


Inner = TypeVar("Inner", bound=_Ends)


class _Half(Generic[Inner]):
    """One direction of a transport, closed with it."""

    def __init__(self, inner: Inner) -> None:
        self._inner = inner

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)


class _LimitedReceiver(_Half[ReadStream[SessionMessage | Exception]]):
    """Incoming messages within the limit; beyond it, the stream ends as if the server had closed it."""

    def __init__(
        self, inner: "TransportStreams", allowance: MessageRateLimiter, on_flood: Callable[[], None]
    ) -> None:
        super().__init__(inner[0])
        self._allowance = allowance
        self._on_flood = on_flood

    async def receive(self) -> SessionMessage | Exception:
        return await self.__anext__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            item = await self._inner.__anext__()
            if not self._allowance.take():
                self._on_flood()
                raise StopAsyncIteration
            if not _is_noise(item):
                return item


class _LimitedSender(_Half[WriteStream[SessionMessage]]):
    """Outgoing messages."""

    def __init__(self, inner: "TransportStreams", allowance: MessageRateLimiter) -> None:
        super().__init__(inner[1])
        self._allowance = allowance

    async def send(self, item: SessionMessage, /) -> None:
        # A response to the server's own request earns no token.
        if isinstance(item.message, JSONRPCRequest):
            self._allowance.give()
        await self._inner.send(item)


@asynccontextmanager
async def limit_messages(streams: Streams, on_flood: Callable[[], None]) -> AsyncIterator[TransportStreams]:
    """The same transport, cut off when its server exceeds the limit."""
    allowance = MessageRateLimiter()
    async with streams as inner:
        yield _LimitedReceiver(inner, allowance, on_flood), _LimitedSender(inner, allowance)


def _is_noise(item: SessionMessage | Exception) -> bool:
    if isinstance(item, Exception):
        return False
    message = item.message
    return isinstance(message, JSONRPCNotification) and message.method not in _HEARD
