"""Checks that every request and WebSocket passes before the application sees it.

A browser sends the origin of the page (Origin) and the server it addresses (Host). Requests with other
values are refused, so that no other site can use this server through a visitor's browser.
"""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any, Self

from interlock.config.gateway import GatewaySettings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

MAX_BODY_BYTES = 64 * 1024
ALLOWED_HTTP_METHODS = frozenset({"GET", "HEAD", "POST"})
STATIC = "/static"
DEFAULT_PORTS = {"http": 80, "https": 443}
WILDCARD_ADDRESSES = frozenset({"0.0.0.0", "::"})  # noqa: S104 - it is not bound here

WRONG_HOST = (403, "This server does not accept that host name; GATEWAY_ALLOWED_HOSTS allows others.")
WRONG_ORIGIN = (403, "Pages of other sites may not use this server.")
NO_ORIGIN = (403, "The request does not name its origin.")
WRONG_METHOD = (403, "Only GET, HEAD and POST are supported.")
OTHER_SITE = (403, "Cross-site requests are not allowed.")
TWO_LENGTHS = (400, "A request must have one length: Content-Length or Transfer-Encoding.")
TOO_LARGE = (413, f"A request can have at most {MAX_BODY_BYTES} bytes.")
POLICY_VIOLATION = 1008

PERMISSIONS = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"
FIXED_HEADERS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"permissions-policy", PERMISSIONS.encode()),
]

HttpRefusal = tuple[int, str]

# Sec-Fetch-Site values of requests from other sites. Another port of the same machine is "same-site", yet
# gets our cookies. Only the page itself may be linked from anywhere.
CROSS_SITE_VALUES = frozenset({"cross-site", "same-site"})
OPEN_TO_LINKS = "/"


@dataclass(frozen=True, slots=True)
class HostAndOriginPolicy:
    """The accepted hosts and origins: lower case, matched as a whole."""

    hosts: frozenset[str]
    origins: frozenset[str]
    # Base64 SHA-256 hashes of the page's inline scripts: its import map.
    script_hashes: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: GatewaySettings, port: int, script_hashes: Iterable[str] = ()) -> Self:
        """Build the policy. `port` is the bound port, which the settings may leave open."""
        own = ["127.0.0.1", "localhost", "[::1]"]
        if settings.host not in WILDCARD_ADDRESSES:
            own.append(f"[{settings.host}]" if ":" in settings.host else settings.host)
        hosts = {f"{host}:{port}" for host in own} | set(settings.allowed_hosts)
        if port == DEFAULT_PORTS[settings.scheme]:
            hosts.update(own)
        origins = {f"{settings.scheme}://{host}" for host in hosts} | set(settings.allowed_origins)
        return cls(_lower(hosts), _lower(origins), tuple(script_hashes))

    @property
    def content_security_policy(self) -> str:
        scripts = " ".join(["'self'", *(f"'sha256-{digest}'" for digest in self.script_hashes)])
        return "; ".join(
            [
                "default-src 'none'",
                f"script-src {scripts}",
                "style-src 'self'",
                "img-src 'self' data:",
                "connect-src 'self'",
                "font-src 'self'",
                "manifest-src 'self'",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
                "require-trusted-types-for 'script'",
                "trusted-types lit-html",
            ]
        )


class RequestGuard:
    """ASGI middleware around the whole application. Scopes other than HTTP and WebSocket pass unchanged."""

    def __init__(self, app: AsgiApp, policy: HostAndOriginPolicy) -> None:
        self._app = app
        self._policy = policy
        self._headers: Headers = [
            (b"content-security-policy", policy.content_security_policy.encode("ascii")),
            *FIXED_HEADERS,
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._request(scope, receive, send)
        elif scope["type"] == "websocket":
            refusal = self._judge(scope)
            if refusal is None:
                await self._app(scope, receive, send)
            else:
                await self._refuse_socket(scope, receive, send, refusal)
        else:
            await self._app(scope, receive, send)

    def _judge(self, scope: Scope) -> HttpRefusal | None:
        hosts, origins = _values(scope, b"host"), _values(scope, b"origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._policy.hosts:
            return WRONG_HOST
        if len(origins) > 1 or any(origin.lower() not in self._policy.origins for origin in origins):
            return WRONG_ORIGIN
        is_socket = scope["type"] == "websocket"
        if not is_socket and scope["method"] not in ALLOWED_HTTP_METHODS:
            return WRONG_METHOD
        # A given Origin was already checked. Many cross-site requests come without one.
        if not origins and scope["path"] != OPEN_TO_LINKS and _is_of_another_site(scope):
            return OTHER_SITE
        # A proxy might use the other length, and take part of this body for a request.
        if _values(scope, b"content-length") and _values(scope, b"transfer-encoding"):
            return TWO_LENGTHS
        has_cookie = bool(_values(scope, b"cookie"))
        has_bearer = any(value[:7].lower() == "bearer " for value in _values(scope, b"authorization"))
        # Browsers send cookies by themselves, but never a token.
        needs_origin = (
            has_cookie if is_socket else scope["method"] == "POST" and (has_cookie or not has_bearer)
        )
        return NO_ORIGIN if needs_origin and not origins else None

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _Exchange(receive, send, self._with_headers(scope))
        refusal = self._judge(scope)
        if refusal is None and any(_is_too_long(value) for value in _values(scope, b"content-length")):
            refusal = TOO_LARGE
        if refusal is not None:
            await exchange.refuse(refusal)
            return
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except Exception:
            # The application was stopped while reading; the client has its answer.
            if not exchange.was_refused:
                raise

    def _with_headers(self, scope: Scope) -> Callable[[Iterable[tuple[bytes, bytes]]], Headers]:
        path = str(scope.get("path", ""))
        is_static = path == STATIC or path.startswith(f"{STATIC}/")
        ours = [*self._headers, (b"cache-control", b"no-cache" if is_static else b"no-store")]
        names = {name for name, _ in ours}

        def with_headers(given: Iterable[tuple[bytes, bytes]]) -> Headers:
            kept = [(name, value) for name, value in given if not _is_decided_here(name.lower(), names)]
            return [*kept, *ours]

        return with_headers

    async def _refuse_socket(
        self, scope: Scope, receive: Receive, send: Send, refusal: HttpRefusal
    ) -> None:
        await receive()
        if "websocket.http.response" not in (scope.get("extensions") or {}):
            # Before the handshake is accepted, the server answers this with 403.
            await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": ""})
            return
        status, sentence = refusal
        headers = self._with_headers(scope)(_plain_text(sentence))
        await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": f"{sentence}\n".encode()})


class _Exchange:
    """One request and its response: limits the body and adds response headers."""

    def __init__(
        self, receive: Receive, send: Send, with_headers: Callable[[Iterable[tuple[bytes, bytes]]], Headers]
    ) -> None:
        self._receive = receive
        self._send = send
        self._with_headers = with_headers
        self._body_bytes = 0
        self._has_begun = False
        self.was_refused = False

    async def receive(self) -> Message:
        if self._body_bytes <= MAX_BODY_BYTES:
            message = await self._receive()
            self._body_bytes += len(message.get("body", b""))
            if self._body_bytes <= MAX_BODY_BYTES:
                return message
            if not self._has_begun:
                await self.refuse(TOO_LARGE)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if self.was_refused:
            return
        if message["type"] == "http.response.start":
            self._has_begun = True
            message = {**message, "headers": self._with_headers(message.get("headers", ()))}
        await self._send(message)

    async def refuse(self, refusal: HttpRefusal) -> None:
        status, sentence = refusal
        headers = [*_plain_text(sentence), (b"connection", b"close")]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": f"{sentence}\n".encode()})
        self.was_refused = True


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _is_of_another_site(scope: Scope) -> bool:
    return any(site.lower() in CROSS_SITE_VALUES for site in _values(scope, b"sec-fetch-site"))


def _is_too_long(content_length: str) -> bool:
    is_number = content_length.isascii() and content_length.isdigit()
    return not is_number or len(content_length) > 18 or int(content_length) > MAX_BODY_BYTES


def _is_decided_here(name: bytes, names: set[bytes]) -> bool:
    """Whether the guard sets this header itself. Lower layers must not set CORS headers either."""
    return name in names or name.startswith(b"access-control-")


def _plain_text(sentence: str) -> Headers:
    length = str(len(sentence.encode()) + 1).encode()
    return [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", length)]


def _lower(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(text.lower() for text in texts)
