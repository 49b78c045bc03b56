"""What comes over the wire before it is a request or a frame: uvicorn's protocols, with an end to patience.

Whoever connects and does not get on is cut off, and gives way to others before that. What is cut off is
gone: a connection that is only closed stays open for as long as its other end does not read.
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
from interlock.gateway.rate_limit import TokenBucket

# Set in a request's scope once it is known that it comes from somebody who may come in.
SCOPE_AUTHENTICATED = "interlock.let_in"

# Somebody who has not got on with a request for so long is sent away.
REQUEST_SECONDS = 10.0
# What may be connected beside sockets: pages, downloads, watchdogs.
SPARE_CONNECTIONS = 256
# At one time: thousands of tiny frames would keep everybody else waiting.
READ_BYTES = 16 * 1024
# How long a socket that was closed here may take to say that it knows, and how much it may say until then.
CLOSE_SECONDS = 3.0
MAX_BYTES_AFTER_CLOSE = 4 * 1024 * 1024
# Frames that are no message: pings, pongs, and pieces of one.
PARTS_PER_SECOND = 100
MAX_PARTS = 4096
TOO_MANY = 1008


class TlsHandshakeLimiter:
    """TLS that is not agreed on yet. Each takes memory and an open file before anything can be asked."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._begun: dict[TimeoutHttpProtocol, asyncio.Transport] = {}

    def before(self, protocol: "TimeoutHttpProtocol") -> asyncio.BaseProtocol:
        protocol.handshakes = self
        return _TlsHandshakeProtocol(self, protocol, self._context)

    def begin(self, protocol: "TimeoutHttpProtocol", transport: asyncio.Transport) -> None:
        """Of too many the one goes that was there longest."""
        self._begun[protocol] = transport
        if len(self._begun) > SPARE_CONNECTIONS:
            self._begun.pop(next(iter(self._begun))).abort()

    def end(self, protocol: "TimeoutHttpProtocol") -> None:
        self._begun.pop(protocol, None)


class _TlsHandshakeProtocol(SSLProtocol):
    """What asyncio itself would put between, with an eye on those that do not go on."""

    # It keeps a buffer of this size for every connection.
    max_size = READ_BYTES

    def __init__(
        self, all_of_them: TlsHandshakeLimiter, protocol: "TimeoutHttpProtocol", context: ssl.SSLContext
    ) -> None:
        loop = asyncio.get_running_loop()
        # Nobody waits for it, which asyncio allows and its types do not know.
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
    """HTTP, but not for ever with someone who says nothing, or too little, or does not listen."""

    # Where the connection came by TLS.
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
        """What goes on as no HTTP gets one answer: this, or what it was already being answered."""
        if self.is_answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(msg)
        else:
            self.transport.close()

    @property
    def is_answering(self) -> bool:
        # uvicorn has none before the first request, whatever its types say.
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    @property
    def is_authenticated(self) -> bool:
        """Somebody who may come in is being answered: with a download, say."""
        return self.is_answering and bool(self.cycle.scope.get(SCOPE_AUTHENTICATED))

    def _make_room(self) -> None:
        """Of too many the one goes that was there longest. A stranger who has asked for something by half,
        or does not read the answer, goes as well: it would keep out everybody else.
        """
        waiting = [each for each in self.connections if isinstance(each, TimeoutHttpProtocol)]
        staying = [each for each in waiting if not each.transport.is_closing()]
        if len(staying) > SPARE_CONNECTIONS:
            min(staying, key=lambda each: (each.is_authenticated, each.since)).transport.abort()

    def _look(self) -> None:
        if self.transport.get_protocol() is not self:
            return
        now = (self.cycle, self.is_answering, self._drained)
        # An answer that is still being made is not the client's fault; one that it does not take is.
        if now == self._was and (not self.is_answering or self.flow.write_paused):
            self.transport.abort()
            return
        self._was = now
        self._patience = self.loop.call_later(REQUEST_SECONDS, self._look)


class BoundedWebSocketProtocol(WebSocketsSansIOProtocol):
    """WebSockets. Messages are counted by `connection.py`; this is about everything else that is sent."""

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
        """Write a frame that is ready for the wire, past everything above. False: it takes none now."""
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
            # A line that is too long, say. uvicorn would neither send the refusal nor ever close.
            self.close_sent = self.handshake_complete = True
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    async def send(self, message: Any) -> None:
        await super().send(message)
        # Else every refusal is logged as if the application had forgotten to answer.
        self.handshake_complete = self.handshake_complete or self.close_sent

    def handle_ping(self) -> None:
        if not self.writable.is_set():
            # It wants answers that it does not read.
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
