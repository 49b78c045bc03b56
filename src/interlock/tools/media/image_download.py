"""Downloads an image from a URL in an endpoint's response, safely.

The URL is untrusted. It is fetched from the endpoint's own origin, or else over https from a public
address, without the key. The addresses of the name are resolved once, all must be public, and exactly those
are used.
"""

import ipaddress
import socket
from collections.abc import Callable

from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.text import safe_excerpt
from interlock.tools.http import opened_session, read_bounded, translate_http_errors
from interlock.tools.media.image_response import NOT_REPEATED, no_image_error, too_large_error

MAX_ADDRESS_CHARS = 8192
_OK = 200

# The only part of IPv6 from which public addresses are given out.
_ALLOCATED = ipaddress.IPv6Network("2000::/3")
# These carry an address of IPv4 inside them, and lead to that one.
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")


async def fetch_image(
    address: str, base_url: str, headers: dict[str, str], max_bytes: int, heard: Callable[[int], None]
) -> bytes:
    """`headers` carry the key, so they go to the endpoint's own origin alone."""
    url = _parsed(address)
    is_own = url.origin() == URL(base_url).origin()
    if not is_own:
        _refuse_unsafe(url)
    resolver = None if is_own else PublicAddressResolver(ThreadedResolver())
    who = "the endpoint" if is_own else f"the image server {safe_excerpt(str(url.host), 100)}"
    async with opened_session(headers if is_own else {}, resolver) as session:
        with translate_http_errors(who):
            async with session.get(url, allow_redirects=False) as response:
                if response.status != _OK:
                    raise no_image_error(f"{who} did not return it (status {response.status})")
                image = await read_bounded(response, max_bytes, heard)
    if image is None:
        raise too_large_error(max_bytes)
    return image


def _parsed(address: str) -> URL:
    """Parsed once, by the library that connects to it: two parsers may see two hosts."""
    fits = address.isascii() and address.isprintable() and " " not in address
    try:
        # Unchanged: a signature may cover its exact form.
        url = URL(address, encoded=True) if fits and len(address) <= MAX_ADDRESS_CHARS else None
        if url is not None and url.host and url.scheme in {"http", "https"} and url.user is None:
            return url.with_fragment(None)
    except ValueError:
        pass
    raise no_image_error("the URL of the image is not valid")


def _refuse_unsafe(url: URL) -> None:
    host = str(url.host)
    if url.scheme != "https":
        raise _refused(host, "by plain http")
    # A name made of digits is an address to the library: no resolver is asked for it.
    if (":" in host or host.replace(".", "").isdigit()) and not is_public(host):
        raise _refused(host, "from a non-public address")


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
            raise _refused(host, "from a non-public address")
        return found

    async def close(self) -> None:
        await self._inner.close()


def _refused(host: str, how: str) -> ToolError:
    return ToolError(
        ErrorCode.EXECUTION_ERROR,
        f"the endpoint generated the image but wants it fetched {how} ({safe_excerpt(host, 100)}); "
        "this is not done, because it could reach into this network",
        "Tell the user: the endpoint should respond with b64_json. " + NOT_REPEATED,
    )
