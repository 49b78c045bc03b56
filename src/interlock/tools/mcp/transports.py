"""How messages travel: a child in the sandbox over pipes, or HTTP to the server's own origin, with limits.

The library would start a child itself, without a sandbox. So the child is a job like any other, and this
passes messages between its pipes and the library, one a line. Over HTTP the library speaks the protocol,
and every request passes here. Imported only when a connection is opened.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self

import anyio
import httpx2
import orjson
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from interlock.core.text import to_visible_line
from interlock.redaction.redactor import Redactor
from interlock.sandbox.jobs import ExitReason, Job, RunningJob, SandboxBackend

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
# Unsolicited messages: a burst, and a rate per second.
BURST = 500.0
PER_SECOND = 100.0
# Some servers print a greeting on stdout. More than this is not the protocol.
MAX_STRAY_LINES = 100
MAX_STDERR_BYTES = 16 * 1024
READ_BYTES = 64 * 1024
# Between the end of a child's input and its kill.
EXIT_SECONDS = 0.3
CONNECT_SECONDS = 10.0
# Of an event stream, over its whole life.
MAX_STREAM_BYTES = 64 * 1024 * 1024
# A call may be silent as long as a tool may take; the caller has its own time-out.
SILENCE_SECONDS = 900.0
# Reconnections to streams that the server ended: a burst, then a rate.
MAX_RECONNECTIONS = 20.0
RECONNECTIONS_PER_SECOND = 0.2
# The header that identifies a session.
SESSION = "mcp-session-id"
FORGOTTEN = "it no longer knows this session"
# The only notifications that are handled.
_HANDLED = frozenset({"notifications/progress", "notifications/tools/list_changed"})

Streams = AbstractAsyncContextManager[TransportStreams]


# -- limits on messages --


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


class _Limited:
    """One direction of a transport, closed with it.

    Incoming messages end beyond the limit, as if the server had closed the stream; an outgoing request
    earns a token. A response to the server's own request earns none.
    """

    def __init__(self, inner: Any, tokens: MessageRateLimiter, on_flood: Callable[[], None]) -> None:
        self._inner = inner
        self._tokens = tokens
        self._on_flood = on_flood

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
        is_handled: bool | None = await self._inner.__aexit__(kind, error, trace)
        return is_handled

    async def send(self, item: SessionMessage, /) -> None:
        if isinstance(item.message, JSONRPCRequest):
            self._tokens.give()
        await self._inner.send(item)

    async def receive(self) -> SessionMessage | Exception:
        return await self.__anext__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            item: SessionMessage | Exception = await self._inner.__anext__()
            if not self._tokens.take():
                self._on_flood()
                raise StopAsyncIteration
            if not _is_noise(item):
                return item


@asynccontextmanager
async def limit_messages(streams: Streams, on_flood: Callable[[], None]) -> AsyncIterator[TransportStreams]:
    """The same transport, cut off when its server exceeds the limit."""
    tokens = MessageRateLimiter()
    async with streams as (incoming, outgoing):
        yield _Limited(incoming, tokens, on_flood), _Limited(outgoing, tokens, on_flood)


def _is_noise(item: SessionMessage | Exception) -> bool:
    if isinstance(item, Exception):
        return False
    message = item.message
    return isinstance(message, JSONRPCNotification) and message.method not in _HANDLED


# -- a child over pipes --

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]


class _ProtocolFault(Exception):
    """The server sent something unusable; the text says what."""


@asynccontextmanager
async def stdio_streams(
    backend: SandboxBackend, job: Job, redactor: Redactor, on_end: Callable[[str], None]
) -> AsyncIterator[TransportStreams]:
    """The two streams of a connection. `on_end` is called once with the reason of the end."""
    into, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, out_of = anyio.create_memory_object_stream[SessionMessage](0)
    async with backend.running(job) as child:
        stderr_tail = bytearray()
        async with anyio.create_task_group() as group:
            group.start_soon(
                _read_messages, child, into, lambda: _end_reason(child, stderr_tail, redactor), on_end
            )
            group.start_soon(_write_messages, child, out_of)
            group.start_soon(_keep_stderr, child, stderr_tail)
            try:
                yield incoming, outgoing
            finally:
                # Let it end by itself; leaving `running` kills it with all its children.
                with anyio.CancelScope(shield=True), suppress(TimeoutError):
                    if child.stdin is not None:
                        child.stdin.close()
                    await asyncio.wait_for(child.wait(), EXIT_SECONDS)
                group.cancel_scope.cancel()
                for stream in (into, incoming, outgoing, out_of):
                    stream.close()


async def _read_messages(
    child: RunningJob,
    into: Incoming,
    end_reason: Callable[[], Awaitable[str]],
    on_end: Callable[[str], None],
) -> None:
    reason, stray = "", 0
    try:
        async with into:
            async for line in _lines(child):
                message = _parsed(line)
                if message is not None:
                    await into.send(message)
                elif (stray := stray + 1) > MAX_STRAY_LINES:
                    raise _ProtocolFault("its output is not the MCP protocol")
    except _ProtocolFault as error:
        reason = str(error)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        reason = "the connection was closed"
    on_end(reason or await end_reason())


async def _lines(child: RunningJob) -> AsyncIterator[bytes]:
    """Lines of limited length; a longer one ends the connection."""
    pieces: list[bytes] = []
    held = 0
    while data := await child.stdout.read(READ_BYTES):
        *ended, rest = data.split(b"\n")
        for piece in ended:
            yield b"".join((*pieces, piece))
            pieces, held = [], 0
        pieces.append(rest)
        held += len(rest)
        if held > MAX_MESSAGE_BYTES:
            raise _ProtocolFault(f"one of its messages is larger than {MAX_MESSAGE_BYTES} bytes")


def _parsed(line: bytes) -> SessionMessage | None:
    try:
        message = orjson.loads(line)
    except (orjson.JSONDecodeError, RecursionError):
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False))
    except (ValidationError, RecursionError):
        return _faulty_answer(message)


def _faulty_answer(message: object) -> SessionMessage | None:
    """An error in place of an invalid response, so that its caller need not wait for the time-out."""
    match message:
        case {"id": int() | str() as number, "result": _} | {"id": int() | str() as number, "error": _}:
            fault = ErrorData(code=PARSE_ERROR, message="a response that does not conform to the protocol")
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=fault))
        case _:
            return None


async def _write_messages(child: RunningJob, out_of: Outgoing) -> None:
    """Write until the child stops reading, which the reader notices."""
    if child.stdin is None:
        return
    with suppress(OSError):
        async with out_of:
            async for item in out_of:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await child.stdin.write(text.encode() + b"\n")


async def _keep_stderr(child: RunningJob, stderr_tail: bytearray) -> None:
    """Keep the last lines of stderr, reading to the end so that the child never blocks.

    Only whole lines are dropped: the rest of a cut line could begin within a secret.
    """
    while data := await child.stderr.read(READ_BYTES):
        stderr_tail += data
        if len(stderr_tail) > MAX_STDERR_BYTES:
            line_end = stderr_tail.find(b"\n", len(stderr_tail) - MAX_STDERR_BYTES)
            del stderr_tail[: len(stderr_tail) if line_end < 0 else line_end + 1]


async def _end_reason(child: RunningJob, stderr_tail: bytearray, redactor: Redactor) -> str:
    """How it ended, if it did, and its last stderr lines."""
    try:
        ended = await asyncio.wait_for(child.wait(), EXIT_SECONDS)
    except TimeoutError:
        return "it closed its output"
    text = stderr_tail.decode("utf-8", "replace").strip()
    last = to_visible_line(redactor.text(text).splitlines()[-1], 200) if text else ""
    if ended.reason is ExitReason.not_started:
        return ended.text
    return f"{ended.text}; its last output: {last}" if last else ended.text


# -- HTTP --


class HttpLimitExceeded(httpx2.TransportError):
    """A request that is not sent, or a response that is not read further; the text says why."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """One origin; uncompressed bodies of limited length; a limited number of requests.

    `on_end` is called with the reason if the server ends the session.
    """

    def __init__(
        self,
        url: str,
        inner: httpx2.AsyncBaseTransport | None = None,
        *,
        on_end: Callable[[str], None] = lambda _reason: None,
    ) -> None:
        self._origin = _origin(httpx2.URL(url))
        self._inner = inner or httpx2.AsyncHTTPTransport(trust_env=False)
        self._on_end = on_end
        self._reconnections = MessageRateLimiter(MAX_RECONNECTIONS, RECONNECTIONS_PER_SECOND)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if _origin(request.url) != self._origin:
            raise HttpLimitExceeded("it redirects to another host")
        # A server that ends every response early makes the library repeat it without end.
        if request.method == "GET" and not self._reconnections.take():
            raise HttpLimitExceeded("it sends requests to Interlock without end")
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        # 404 means that the server forgot the session: another must be started. In response to a GET it may
        # only mean that there is no event stream.
        if response.status_code == 404 and request.method == "POST" and SESSION in request.headers:
            self._on_end(FORGOTTEN)
        if response.headers.get("content-encoding", "identity").lower() not in {"", "identity"}:
            await response.aclose()
            raise HttpLimitExceeded("its response is compressed, which was not requested")
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        limit = MAX_STREAM_BYTES if is_stream else MAX_MESSAGE_BYTES
        return httpx2.Response(
            status_code=response.status_code,
            headers=response.headers,
            stream=_Bounded(response, limit),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response, limit_bytes: int) -> None:
        self._response = response
        self._limit_bytes = limit_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        stream = self._response.stream
        if not isinstance(stream, httpx2.AsyncByteStream):
            raise HttpLimitExceeded("its response cannot be read")
        async for piece in stream:
            read += len(piece)
            if read > self._limit_bytes:
                raise HttpLimitExceeded(f"its response is larger than {self._limit_bytes} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._response.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


@asynccontextmanager
async def http_streams(
    url: str, headers: Mapping[str, str], on_end: Callable[[str], None]
) -> AsyncIterator[TransportStreams]:
    """The two streams of a connection. `on_end` gets the reason if the server ends the session."""
    async with (
        httpx2.AsyncClient(
            transport=BoundedTransport(url, on_end=on_end),
            headers=dict(headers),
            timeout=httpx2.Timeout(CONNECT_SECONDS, read=SILENCE_SECONDS),
            follow_redirects=False,
            trust_env=False,
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams
