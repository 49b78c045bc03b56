"""One HTTP exchange with an external server; maps the HTTP library's errors.

No proxy from the environment, no cookies, no redirects, no compression, no unbounded reading. Cancelling
closes the connection.
"""

import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress

import aiohttp
from aiohttp.abc import AbstractResolver

from interlock.core.errors import ErrorCode, ToolError
from interlock.tools.media.image_response import NOT_REPEATED, no_image_error

CONNECT_SECONDS = 30
MAX_REFUSAL_BYTES = 64 * 1024
_PIECE_BYTES = 64 * 1024


@asynccontextmanager
async def opened_session(
    headers: Mapping[str, str], resolver: AbstractResolver | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(force_close=True, use_dns_cache=False, resolver=resolver)
    async with aiohttp.ClientSession(
        connector=connector,
        # The call has its own time-out around all of it.
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        headers={"User-Agent": "interlock", "Accept-Encoding": "identity", **headers},
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
    ) as session:
        yield session


async def read_bounded(
    response: aiohttp.ClientResponse, max_bytes: int, heard: Callable[[int], None]
) -> bytes | None:
    """The whole body, or None as soon as it is known to be longer."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise no_image_error("its response is compressed, which was not requested")
    if (response.content_length or 0) > max_bytes:
        return None
    body = bytearray()
    async for piece in response.content.iter_chunked(_PIECE_BYTES):
        body += piece
        if len(body) > max_bytes:
            return None
        heard(len(body))
    return bytes(body)


async def read_refusal(response: aiohttp.ClientResponse) -> bytes:
    """The body of a refusal, as far as it can be read. The refusal itself is already known."""
    with suppress(aiohttp.ClientError, ToolError):
        return await read_bounded(response, MAX_REFUSAL_BYTES, lambda _count: None) or b""
    return b""


@contextmanager
def translate_http_errors(who: str, *, when_unsent: str = NOT_REPEATED) -> Iterator[None]:
    """Map errors. `who` is the server as the model knows it; addresses and internals are not revealed.

    `when_unsent` is the next action if nothing had been sent.
    """
    try:
        yield
    except aiohttp.ClientError as error:
        reason, is_unsent = _reason(error)
        step = when_unsent if is_unsent else NOT_REPEATED
        raise ToolError(ErrorCode.EXECUTION_ERROR, f"{who} {reason}", step) from error


# The most specific first. True: it happened before anything was sent.
_REASONS: tuple[tuple[type[aiohttp.ClientError], str, bool], ...] = (
    (aiohttp.ClientConnectorCertificateError, "has a certificate that is not trusted", True),
    (aiohttp.ClientConnectorDNSError, "has a host name that cannot be resolved", True),
    (aiohttp.ClientSSLError, "could not be reached with TLS", True),
    (aiohttp.ClientConnectorError, "could not be reached", True),
    (aiohttp.ConnectionTimeoutError, f"could not be reached within {CONNECT_SECONDS} seconds", True),
    (aiohttp.ClientPayloadError, "closed the connection in the middle of its response", False),
    (aiohttp.ServerDisconnectedError, "closed the connection before it responded", False),
    (aiohttp.ClientOSError, "closed the connection before it responded", False),
    (aiohttp.ClientResponseError, "sent a response that is not HTTP", False),
)


def _reason(error: aiohttp.ClientError) -> tuple[str, bool]:
    for kind, reason, is_unsent in _REASONS:
        if isinstance(error, kind):
            return reason + _detail(error), is_unsent
    return f"could not be used ({type(error).__name__})", False


def _detail(error: aiohttp.ClientError) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        fault = error.certificate_error
        return f" ({fault.verify_message})" if isinstance(fault, ssl.SSLCertVerificationError) else ""
    number = error.errno if isinstance(error, aiohttp.ClientConnectorError) else None
    return f" ({os.strerror(number)})" if number and number > 0 else ""
