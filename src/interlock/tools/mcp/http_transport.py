"""The HTTP transport: to the server's own origin only, with limits of size, time and number.

The library speaks the protocol; every request passes here. Imported only when a connection is opened.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from interlock.tools.mcp.message_rate_limit import MAX_MESSAGE_BYTES, MessageRateLimiter

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
    """The two streams of a connection.

    `on_end` is called with the reason if the server ends the session.
    """
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=SILENCE_SECONDS)
    async with (
        httpx2.AsyncClient(
            transport=BoundedTransport(url, on_end=on_end),
            headers=dict(headers),
            timeout=timeout,
            follow_redirects=False,
            trust_env=False,
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams
