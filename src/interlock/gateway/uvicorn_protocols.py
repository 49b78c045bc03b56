"""Uvicorn's protocols with time and size limits, below requests and frames.

Clients that connect and stall are disconnected, and give way to others before that. Connections are
aborted, not closed: a closed one stays open as long as its peer does not read.
"""

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from interlock.gateway.connection import SCOPE_RAW_WRITE
from interlock.gateway.login_rate_limit import TokenBucket

# Set in the scope of a request once its credential is known to be valid.
SCOPE_AUTHENTICATED = "interlock.let_in"

# A client that has not completed a request by then is disconnected.
REQUEST_SECONDS = 10.0
# Connections besides WebSockets: pages, downloads, health checks.
SPARE_CONNECTIONS = 256
# Per read: thousands of tiny frames at once would starve other connections.
READ_BYTES = 16 * 1024
# How long a closed socket may take to confirm the close, and how much it may send until then.
CLOSE_SECONDS = 3.0
MAX_BYTES_AFTER_CLOSE = 4 * 1024 * 1024
# Frames that are not messages: pings, pongs and fragments.
PARTS_PER_SECOND = 100
MAX_PARTS = 4096
TOO_MANY = 1008


class TlsHandshakeLimiter:
    """Limits unfinished TLS handshakes. Each takes memory and a file descriptor before any request."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._begun: dict[TimeoutHttpProtocol, asyncio.Transport] = {}

    def before(self, protocol: "TimeoutHttpProtocol") -> asyncio.BaseProtocol:
        protocol.handshakes = self
        return _TlsHandshakeProtocol(self, protocol, self._context)

    def begin(self, protocol: "TimeoutHttpProtocol", transport: asyncio.Transport) -> None:
        """Add a handshake; if there are too many, abort the oldest."""
        self._begun[protocol] = transport
        if len(self._begun) > SPARE_CONNECTIONS:
            self._begun.pop(next(iter(self._begun))).abort()

    def end(self, protocol: "TimeoutHttpProtocol") -> None:
        self._begun.pop(protocol, None)


class _TlsHandshakeProtocol(SSLProtocol):
    """asyncio's TLS protocol, tracked until its handshake is complete."""

    # asyncio allocates a buffer of this size for every connection.
    max_size = READ_BYTES

    def __init__(
        self, all_of_them: TlsHandshakeLimiter, protocol: "TimeoutHttpProtocol", context: ssl.SSLContext
    ) -> None:
        loop = asyncio.get_running_loop()
        # No waiter: asyncio allows this, its type hints do not.
        waiter: Any = None
        super().__init__(
            loop, protocol, context, waiter, server_side=True, ssl_handshake_timeout=int(REQUEST_SECONDS)
        )
        self._all, self._above = all_of_them, protocol

    def connection_made(self, transport: Any) -> None:
        self._all.begin(self._above, transport)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._all.end(self._above)
        super().connection_lost(exc)


class TimeoutHttpProtocol(H11Protocol):
    """HTTP with time limits for clients that send nothing, too little, or do not read."""

    # Set if the connection uses TLS.
    handshakes: TlsHandshakeLimiter | None = None

    def connection_made(self, transport: Any) -> None:
        if self.handshakes is not None:
            self.handshakes.end(self)
        super().connection_made(transport)
        transport.max_size = READ_BYTES
        self._drained = 0
        self._was: object = (None, False, 0)
        self.since = self.loop.time()
        self._patience = self.loop.call_later(REQUEST_SECONDS, self._look)
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._patience.cancel()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        self._drained += 1
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer invalid HTTP once, with a 400 unless a response has begun."""
        if self.is_answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(msg)
        else:
            self.transport.close()

    @property
    def is_answering(self) -> bool:
        # None before the first request, despite uvicorn's type hints.
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    @property
    def is_authenticated(self) -> bool:
        """Whether an authenticated client is being answered, with a download for example."""
        return self.is_answering and bool(self.cycle.scope.get(SCOPE_AUTHENTICATED))

    def _make_room(self) -> None:
        """Abort a connection if there are too many: unauthenticated ones first, then the oldest.

        Unauthenticated clients with a partial request or an unread answer count too: they would block
        others.
        """
        waiting = [each for each in self.connections if isinstance(each, TimeoutHttpProtocol)]
        staying = [each for each in waiting if not each.transport.is_closing()]
        if len(staying) > SPARE_CONNECTIONS:
            min(staying, key=lambda each: (each.is_authenticated, each.since)).transport.abort()

    def _look(self) -> None:
        if self.transport.get_protocol() is not self:
            return
        now = (self.cycle, self.is_answering, self._drained)
        # A response still being produced is not the client's fault; one it does not read is.
        if now == self._was and (not self.is_answering or self.flow.write_paused):
            self.transport.abort()
            return
        self._was = now
        self._patience = self.loop.call_later(REQUEST_SECONDS, self._look)


class BoundedWebSocketProtocol(WebSocketsSansIOProtocol):
    """WebSockets. `connection.py` limits messages; this limits all other frames."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._parts = TokenBucket(PARTS_PER_SECOND)
        self._bytes_after_close = 0
        self.loop.call_later(REQUEST_SECONDS, self._look)

    def _look(self) -> None:
        if not self.handshake_complete:
            self.transport.abort()

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            self.scope["extensions"][SCOPE_RAW_WRITE] = {"write": self.write_raw_frame}

    def write_raw_frame(self, wire: bytes) -> bool:
        """Write an encoded frame directly to the transport. False: not writable now."""
        if not self.writable.is_set() or self.close_sent or self.disconnected:
            return False
        self.transport.write(wire)
        return True

    def data_received(self, data: bytes) -> None:
        if self.close_sent:
            self._bytes_after_close += len(data)
            if self._bytes_after_close > MAX_BYTES_AFTER_CLOSE:
                self.transport.abort()
                return
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            # An invalid handshake, such as a line too long. uvicorn would neither send the refusal nor
            # close.
            self.close_sent = self.handshake_complete = True
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    async def send(self, message: Any) -> None:
        await super().send(message)
        # Otherwise each refusal is logged as if the application had not answered.
        self.handshake_complete = self.handshake_complete or self.close_sent

    def handle_ping(self) -> None:
        if not self.writable.is_set():
            # The client requests answers that it does not read.
            self.transport.abort()
        elif self._may_go_on():
            super().handle_ping()

    def handle_pong(self, event: Frame) -> None:
        if self._may_go_on():
            super().handle_pong(event)

    def handle_cont(self, event: Frame) -> None:
        if self._may_go_on():
            super().handle_cont(event)

    def _may_go_on(self) -> bool:
        if self.close_sent:
            return False
        if self._parts.take() and len(self.frames) < MAX_PARTS:
            return True
        self.conn.fail(TOO_MANY, "too_fast")
        self.handle_parser_exception()
        return False

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._cut_off_soon()

    async def run_asgi(self) -> None:
        try:
            await super().run_asgi()
        finally:
            self._cut_off_soon()

    def _cut_off_soon(self) -> None:
        self.loop.call_later(CLOSE_SECONDS, self.transport.abort)
