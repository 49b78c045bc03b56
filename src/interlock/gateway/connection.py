"""One WebSocket: handles requests concurrently and sends frames from a bounded queue.

A client that sends too fast gets errors, then is disconnected; so is one that reads too slowly. A client
cannot make this process hold more than a fixed amount of memory for it.
"""

import asyncio
import contextlib
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.websockets import WebSocket, WebSocketDisconnect

from interlock.core.aio import KeyedLock
from interlock.core.logging import StructuredLogger
from interlock.gateway.auth import ClientIdentity
from interlock.gateway.login_rate_limit import TokenBucket
from interlock.gateway.metrics import GatewayMetrics
from interlock.gateway.protocol import (
    RESPONSE,
    CloseReason,
    Frame,
    GatewayErrorCode,
    GatewayRequest,
    RequestError,
    RequestId,
    error_frame,
    make_frame,
    parse_request,
    public_error,
)

_log = StructuredLogger(__name__)

# An extension of the ASGI scope by the server (`uvicorn_protocols.py`).
SCOPE_RAW_WRITE = "interlock.write_now"
MAX_CONCURRENT_REQUESTS = 64
MAX_SUBSCRIPTIONS = 256
MAX_REMEMBERED_TASKS = 1024
CHARS_PER_REQUEST_TOKEN = 64 * 1024
# Requests beyond the rate that are answered before the socket is closed.
MAX_WARNINGS = 200
# The size limit of one answer, however short the queue.
MIN_ANSWER_BYTES = 1024 * 1024
# The time limit for a closing socket to send its last frames.
CLOSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class SocketLimits:
    queue_bytes: int = 4 * 1024 * 1024
    requests_per_second: float = 50
    # Of all concurrent requests together, as received.
    request_chars: int = 4 * 1024 * 1024


class WebSocketConnection:
    """One client. It follows sessions (`feed/follow.py`) and calls methods (`methods/`)."""

    def __init__(
        self,
        socket: WebSocket,
        who: ClientIdentity,
        *,
        limits: SocketLimits,
        metrics: GatewayMetrics,
        handle: "RequestHandler",
    ) -> None:
        self.who = who
        self.subscriptions: set[str] = set()
        self.turns = KeyedLock()
        self._socket = socket
        # Fast path: with an empty queue and room in the kernel, a frame is written without a task switch.
        self._write_now: Callable[[bytes], bool] = socket.scope["extensions"][SCOPE_RAW_WRITE]["write"]
        self._limits = limits
        self._metrics = metrics
        self._handle = handle
        self._bucket = TokenBucket(limits.requests_per_second)
        self._under_way: dict[asyncio.Task[None], int] = {}
        self._asked: dict[str, RequestId] = {}
        self._queue: deque[str] = deque()
        self._queued_bytes = 0
        self._sending: asyncio.Task[None] | None = None
        # The sender waits for this while the queue is empty, producers while it is full.
        self._some: asyncio.Future[None] | None = None
        self._room: asyncio.Event | None = None
        self._closing: CloseReason | None = None
        # Since when a frame waits for the kernel.
        self._sending_since: float | None = None

    # -- sending --

    def deliver(self, frame: Frame) -> None:
        request_id = self._asked.get(frame.task_id) if self._asked and frame.task_id else None
        if request_id is not None:
            self._send(frame.with_id(request_id))
        elif self._queued_bytes or self._closing is not None or not self._write_now(frame.wire):
            self._send(frame.plain)
        else:
            self._metrics.sent(1)

    async def ready(self) -> None:
        if self._queued_bytes > self._limits.queue_bytes // 4 and self._closing is None:
            if self._room is None:
                self._room = asyncio.Event()
            await self._room.wait()

    def expect(self, task_id: str, request_id: RequestId) -> None:
        """Send further frames of this task under that request's id."""
        if len(self._asked) >= MAX_REMEMBERED_TASKS:
            del self._asked[next(iter(self._asked))]
        self._asked[task_id] = request_id

    def close(self, why: CloseReason) -> None:
        if self._closing is None:
            self._closing = why
            self._metrics.closed(why.name)
            self._wake_sender()
            self._make_room()
            if why is CloseReason.revoked:
                for task in tuple(self._under_way):
                    task.cancel()
            if self._sending is not None:
                # A slow reader does not delay its own close.
                asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._sending.cancel)

    def is_stuck(self, seconds: float) -> bool:
        """Whether the client has read nothing for so long."""
        since = self._sending_since
        return since is not None and time.monotonic() - since > seconds

    def _send(self, text: str) -> None:
        if self._closing is not None:
            return
        # The size in memory: one non-ASCII character can make a text four times as large.
        size = sys.getsizeof(text)
        if self._queued_bytes and self._queued_bytes + size > self._limits.queue_bytes:
            self._queue.clear()
            self.close(CloseReason.too_slow)
            return
        self._queued_bytes += size
        self._queue.append(text)
        self._wake_sender()

    def _wake_sender(self) -> None:
        if self._some is not None and not self._some.done():
            self._some.set_result(None)

    def _make_room(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None

    # -- lifecycle --

    async def run(self) -> None:
        """Run until either side closes, then cancel the remaining tasks."""
        self._sending = asyncio.create_task(self._send_all())
        parts = (self._sending, asyncio.create_task(self._receive_all()))
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            tasks = {*parts, *self._under_way}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in parts:
            if not task.cancelled() and (fault := task.exception()) is not None:
                _log.error("socket_failed", exc_info=fault)

    async def _receive_all(self) -> None:
        while True:
            try:
                message = await self._socket.receive()
            except (WebSocketDisconnect, RuntimeError):
                return
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            if self._closing is None:
                self._take(text if text is not None else message.get("bytes") or b"")
            # Many small frames in a row must not starve other connections.
            await asyncio.sleep(0)

    def _take(self, text: str | bytes) -> None:
        try:
            request = parse_request(text)
        except RequestError as error:
            # Invalid requests count as well.
            if self._admitted(error.request_id, text):
                self._answer_error(error.request_id, error.code, str(error), "unread")
            return
        if not self._admitted(request.id, text):
            return
        if len(self._under_way) >= MAX_CONCURRENT_REQUESTS:
            sentence = f"{MAX_CONCURRENT_REQUESTS} requests are already pending; wait for some to finish"
            self._answer_error(request.id, GatewayErrorCode.RATE_LIMITED.value, sentence, request.method)
            return
        if sum(self._under_way.values(), len(text)) > self._limits.request_chars and self._under_way:
            sentence = "the pending requests are too large together; wait for some to finish"
            self._answer_error(request.id, GatewayErrorCode.RATE_LIMITED.value, sentence, request.method)
            return
        task = asyncio.create_task(self._carry_out(request))
        self._under_way[task] = len(text)
        task.add_done_callback(self._under_way.pop)

    def _admitted(self, request_id: RequestId, text: str | bytes) -> bool:
        # A large request costs as much as many small ones.
        if self._bucket.take(1 + len(text) // CHARS_PER_REQUEST_TOKEN):
            return True
        if self._bucket.refused > MAX_WARNINGS:
            self.close(CloseReason.too_fast)
        else:
            sentence = f"more than {self._limits.requests_per_second} requests per second; slow down"
            self._answer_error(request_id, GatewayErrorCode.RATE_LIMITED.value, sentence, "unread")
        return False

    async def _carry_out(self, request: GatewayRequest) -> None:
        # A client that does not read gets no further work done.
        await self.ready()
        try:
            result = await self._handle(self, request)
            answer = make_frame(RESPONSE, result).with_id(request.id)
            self._refuse_too_large(answer)
        except Exception as error:  # noqa: BLE001 - whatever it is, one request failed and the rest goes on
            told = public_error(error)
            if told is None:
                _report(request, error)
                told = (GatewayErrorCode.INTERNAL_ERROR.value, "internal error; see the server's log")
            self._answer_error(request.id, *told, request.method)
            if told[0] == GatewayErrorCode.REVOKED:
                self.close(CloseReason.revoked)
        else:
            self._metrics.answered(request.method, "ok")
            self._send(answer)

    def _refuse_too_large(self, answer: str) -> None:
        """Refuse an answer larger than the queue instead of disconnecting the client for not reading it."""
        if sys.getsizeof(answer) > max(self._limits.queue_bytes, MIN_ANSWER_BYTES):
            sentence = "the response is too large for one frame; request less with limit, or export"
            raise RequestError(GatewayErrorCode.INVALID_PARAMS, sentence)

    def _answer_error(self, request_id: RequestId, code: str, message: str, method: str) -> None:
        self._metrics.answered(method, code)
        self._send(error_frame(code, message).with_id(request_id))

    async def _send_all(self) -> None:
        while await self._send_queue():
            if self._closing is not None:
                with contextlib.suppress(WebSocketDisconnect, RuntimeError, OSError, TimeoutError):
                    async with asyncio.timeout(1):
                        await self._socket.close(self._closing.number, self._closing.name)
                return
            self._some = asyncio.get_running_loop().create_future()
            await self._some

    async def _send_queue(self) -> bool:
        """Send the queue, including what is added meanwhile. False: the socket is closed."""
        sent = 0
        try:
            while self._queue:
                text = self._queue.popleft()
                self._sending_since = time.monotonic()
                await self._socket.send({"type": "websocket.send", "text": text})
                sent += 1
                self._queued_bytes -= sys.getsizeof(text)
                if self._room is not None and self._queued_bytes <= self._limits.queue_bytes // 8:
                    self._make_room()
        except (WebSocketDisconnect, RuntimeError, OSError):
            return False
        finally:
            self._sending_since = None
            self._metrics.sent(sent)
        return True


RequestHandler = Callable[[WebSocketConnection, GatewayRequest], Awaitable[object]]


def _report(request: GatewayRequest, error: Exception) -> None:
    _log.error("request_failed", method=request.method, exc_info=error)
