"""HTTP exchanges with external servers: bounded, and unable to reach into this network by a foreign URL.

No proxy from the environment, no cookies, no compression, no unbounded reading. Cancelling closes the
connection. The URL of an operator's setting may lead anywhere. Any other is fetched with `public_only`:
over https, from a name whose addresses are all public. Names are resolved once, and exactly those addresses
are connected to; each redirect is checked like the first URL.

    HttpError               what went wrong, as the end of a sentence that begins with the server's name
    ├── BodyTooLarge        longer than the caller takes
    ├── CompressedBody      which was not requested: unpacked, it has no bound
    └── UnsafeUrl           it could lead into this network
"""

import ipaddress
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass

import aiohttp
from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

CONNECT_SECONDS = 30
MAX_REFUSAL_BYTES = 64 * 1024
MAX_URL_CHARS = 8192
_PIECE_BYTES = 64 * 1024
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

# The only part of IPv6 from which public addresses are given out.
_ALLOCATED = ipaddress.IPv6Network("2000::/3")
# These carry an address of IPv4 inside them, and lead to that one.
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")


class HttpError(Exception):
    def __init__(self, reason: str, *, was_sent: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        # Whether the request may have reached the server.
        self.was_sent = was_sent


class BodyTooLarge(HttpError):
    def __init__(self) -> None:
        super().__init__("sent a response that is too large")


class CompressedBody(HttpError):
    def __init__(self) -> None:
        super().__init__("sent a compressed response, which was not requested")


class UnsafeUrl(HttpError):
    """`how` it would be fetched: by plain http, or from a non-public address."""

    def __init__(self, host: str, how: str) -> None:
        super().__init__(f"wants it fetched {how}", was_sent=False)
        self.host = host
        self.how = how


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response, with its body. Of one that is not `accepted`, the body may be missing."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def request(
    method: str,
    url: URL,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
    accepted: Collection[int],
    max_bytes: int,
    public_only: bool = False,
    max_redirects: int = 0,
    received: Callable[[int], None] = lambda _count: None,
) -> HttpResponse:
    """One exchange, and a further one for each redirect. `received` is called with the bytes so far.

    A redirect to another origin is sent no `headers`. Raises `HttpError`.
    """
    while True:
        if public_only:
            _refuse_unsafe(url)
        resolver = PublicAddressResolver(ThreadedResolver()) if public_only else None
        with _mapped_errors():
            async with (
                _opened_session(headers, resolver) as session,
                session.request(method, url, data=body, allow_redirects=False) as response,
            ):
                if response.status in accepted:
                    return _response(response, await _read(response, max_bytes, received))
                if response.status not in _REDIRECTS or max_redirects == 0:
                    return _response(response, await _read_refusal(response))
                target = _redirect_target(url, response.headers.get("Location", ""))
        max_redirects -= 1
        headers = headers if target.origin() == url.origin() else {}
        url = target


def parse_url(address: str) -> URL | None:
    """Parsed once, by the library that connects to it: two parsers may see two hosts. None if not valid."""
    fits = address.isascii() and address.isprintable() and " " not in address
    try:
        # Unchanged: a signature may cover its exact form.
        url = URL(address, encoded=True) if fits and len(address) <= MAX_URL_CHARS else None
        if url is not None and url.host and url.scheme in {"http", "https"} and url.user is None:
            return url.with_fragment(None)
    except ValueError:
        pass
    return None


def is_public(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped
        if found in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is None:
            return found in _ALLOCATED and found.is_global and not (found.sixtofour or found.teredo)
        found = inner
    return found.is_global and not found.is_multicast


class PublicAddressResolver(AbstractResolver):
    """Finds names whose addresses are all public; a name that also leads inside is refused."""

    def __init__(self, inner: AbstractResolver) -> None:
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        if not all(is_public(each["host"]) for each in found):
            raise UnsafeUrl(host, "from a non-public address")
        return found

    async def close(self) -> None:
        await self._inner.close()


def _refuse_unsafe(url: URL) -> None:
    host = str(url.host)
    if url.scheme != "https":
        raise UnsafeUrl(host, "by plain http")
    # A name made of digits is an address to the library: no resolver is asked for it.
    if (":" in host or host.replace(".", "").isdigit()) and not is_public(host):
        raise UnsafeUrl(host, "from a non-public address")


def _redirect_target(url: URL, location: str) -> URL:
    target = None
    with suppress(ValueError):
        target = parse_url(str(url.join(URL(location, encoded=True))))
    if target is None or not location:
        raise HttpError("answered with a redirect to an invalid URL")
    return target


@asynccontextmanager
async def _opened_session(
    headers: Mapping[str, str], resolver: AbstractResolver | None
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


def _response(response: aiohttp.ClientResponse, body: bytes) -> HttpResponse:
    return HttpResponse(response.status, response.headers, body)


async def _read(response: aiohttp.ClientResponse, max_bytes: int, received: Callable[[int], None]) -> bytes:
    """The whole body; given up as soon as it is known to be longer."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise CompressedBody
    if (response.content_length or 0) > max_bytes:
        raise BodyTooLarge
    body = bytearray()
    async for piece in response.content.iter_chunked(_PIECE_BYTES):
        body += piece
        if len(body) > max_bytes:
            raise BodyTooLarge
        received(len(body))
    return bytes(body)


async def _read_refusal(response: aiohttp.ClientResponse) -> bytes:
    """As far as it can be read. The refusal itself is already known."""
    with suppress(aiohttp.ClientError, HttpError):
        return await _read(response, MAX_REFUSAL_BYTES, lambda _count: None)
    return b""


@contextmanager
def _mapped_errors() -> Iterator[None]:
    """Addresses and internals of the library are not revealed."""
    try:
        yield
    except aiohttp.ClientError as error:
        for kind, reason, was_sent in _REASONS:
            if isinstance(error, kind):
                raise HttpError(reason + _detail(error), was_sent=was_sent) from error
        raise HttpError(f"could not be used ({type(error).__name__})") from error


# The most specific first. False: it happened before anything was sent.
_REASONS: tuple[tuple[type[aiohttp.ClientError], str, bool], ...] = (
    (aiohttp.ClientConnectorCertificateError, "has a certificate that is not trusted", False),
    (aiohttp.ClientConnectorDNSError, "has a host name that cannot be resolved", False),
    (aiohttp.ClientSSLError, "could not be reached with TLS", False),
    (aiohttp.ClientConnectorError, "could not be reached", False),
    (aiohttp.ConnectionTimeoutError, f"could not be reached within {CONNECT_SECONDS} seconds", False),
    (aiohttp.ClientPayloadError, "closed the connection in the middle of its response", True),
    (aiohttp.ServerDisconnectedError, "closed the connection before it responded", True),
    (aiohttp.ClientOSError, "closed the connection before it responded", True),
    (aiohttp.ClientResponseError, "sent a response that is not HTTP", True),
)


def _detail(error: aiohttp.ClientError) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        fault = error.certificate_error
        return f" ({fault.verify_message})" if isinstance(fault, ssl.SSLCertVerificationError) else ""
    number = error.errno if isinstance(error, aiohttp.ClientConnectorError) else None
    return f" ({os.strerror(number)})" if number and number > 0 else ""
