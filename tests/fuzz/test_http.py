"""Requests to a running server, by the app's own routes: never a fault of ours, nothing for strangers."""

import socket
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from starlette.routing import Route

from interlock.gateway.app import Gateway
from interlock.gateway.guard import FIXED_HEADERS
from tests.fuzz.conftest import Target
from tests.fuzz.odd import ANYTHING, BITS, WORDS, spoiled, torn, written

# The routes as they are served, each with its methods.
ROUTES = {
    route.path: sorted(route.methods)
    for route in Gateway.__new__(Gateway).app().routes
    if isinstance(route, Route)
}
PUBLIC = ("/", "/healthz", "/readyz", "/whoami", "/logout")
EVERY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
QUICK = settings(EVERY, max_examples=max(60, settings.default.max_examples // 4))


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def is_of_the_app(self) -> bool:
        """What is no HTTP never gets there."""
        return self.body != b"Invalid HTTP request received."


def exchange(target: Target, request: bytes, *, ends: bool = False) -> Answer | None:
    """None where the connection was closed without a word, as for what is no request at all."""
    parts = urlsplit(target.origin)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
        connection.sendall(request)
        if ends:
            # Else the server would wait for the rest of it.
            connection.shutdown(socket.SHUT_WR)
        received = b""
        # A server that answers before it has read the whole request resets the connection.
        with suppress(ConnectionResetError):
            while piece := connection.recv(65_536):
                received += piece
    if not received:
        return None
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return Answer(int(status.split(" ")[1]), headers, body)


def asked(target: Target, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    given = {
        "Host": urlsplit(target.origin).netloc,
        "Connection": "close",
        "Content-Length": str(len(body)),
    }
    lines = [
        f"{method} {path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in (given | headers).items()),
    ]
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body


NAMES = st.one_of(
    st.sampled_from(
        [
            *WORDS,
            "..",
            "../../doors.py",
            "..%2f..",
            "%00",
            "%ff",
            "app.js",
            "js",
            "s_1.jsonl",
            ".",
            "a" * 300,
        ]
    ),
    st.text(max_size=8),
    st.binary(max_size=6).map(lambda data: quote(data, safe="")),
)
VALUES = st.one_of(st.sampled_from(WORDS), st.text(max_size=6)).map(lambda text: text.replace("\n", " "))


@st.composite
def paths(draw: st.DrawFn) -> tuple[str, str]:
    """A path of the app, filled in somehow, and what can be asked of it."""
    path = draw(
        st.sampled_from([*sorted(ROUTES), "/static/{name}", "/ws", "/{name}", "/docs", "/openapi.json"])
    )
    methods = ROUTES.get(path, ["GET"])
    method = draw(st.sampled_from([*methods * 4, "POST", "HEAD", "PUT", "OPTIONS", "TRACE"]))
    named = draw(NAMES)
    path = path.replace(
        "{name}", named if draw(st.booleans()) and named.isascii() else quote(named, safe="/")
    )
    path = "".join(character for character in path if " " < character < "\x7f") or "/"
    if draw(st.integers(0, 2)) == 0:
        path += (
            "?session_id="
            + quote(draw(NAMES), safe="")
            + draw(st.sampled_from(["", "&x", "&session_id=b", "%"]))
        )
    return method, path


HEADERS = st.dictionaries(
    st.sampled_from(
        [
            "Cookie",
            "Accept",
            "Range",
            "If-None-Match",
            "If-Modified-Since",
            "X-Forwarded-For",
            "Upgrade",
            "Sec-WebSocket-Key",
            "Content-Type",
            "Accept-Encoding",
            "Origin",
            "Authorization",
        ]
    ),
    VALUES.map(lambda text: "".join(character for character in text if " " <= character < "\x7f")),
    max_size=3,
)
BODIES = st.one_of(
    st.just(b""),
    spoiled({"code": "x"}).map(written),
    ANYTHING.map(written),
    torn(b'{"code": "abc"}'),
    st.binary(max_size=20),
    # Longer ones tell nothing more, and are too long to be shown.
).map(lambda body: body[:10_000])


def must_be_sound(answer: Answer | None, request: object) -> None:
    assert answer is not None, request
    assert answer.status < 500, (request, answer)
    assert b"Traceback" not in answer.body
    if answer.is_of_the_app:
        for name, value in FIXED_HEADERS:
            assert answer.headers.get(name.decode()) == value.decode().lower(), (request, answer.headers)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] in {"no-store", "no-cache"}
        assert not any(name.startswith("access-control-") for name in answer.headers)


@QUICK
@given(where=paths(), headers=HEADERS, body=BODIES)
@example(("GET", "/static/%00"), {}, b"")
@example(("GET", "/static/" + "a/" * 3000), {}, b"")
@example(("GET", "/static/" + "a" * 300), {}, b"")
@example(("GET", "/static/app.js"), {"Range": "bytes=5-2"}, b"")
@example(("GET", "/static/%ff%fe"), {}, b"")
@example(("GET", "/export/session/%ff.jsonl"), {}, b"")
def test_a_stranger_gets_nothing_but_the_page(target, where, headers, body):
    method, path = where
    origin = {"Origin": target.origin} if method == "POST" else {}
    answer = exchange(target, asked(target, method, path, origin | headers, body))
    must_be_sound(answer, (where, headers, body))
    plain = path.partition("?")[0]
    if answer.status < 300:
        assert plain in PUBLIC or plain.startswith("/static"), (where, answer)
    if plain == "/whoami" and answer.status == 200 and method == "GET":
        assert orjson.loads(answer.body) == {"who": None}
    target.must_be_well()


@QUICK
@given(
    where=paths(),
    headers=HEADERS.map(lambda given: {k: v for k, v in given.items() if k != "Authorization"}),
    body=BODIES,
)
@example(("GET", "/export/events.jsonl?session_id=%00"), {}, b"")
@example(("GET", "/export/session/%ed%a0%80.jsonl"), {}, b"")
def test_whoever_is_let_in_can_ask_for_anything(target, where, headers, body):
    method, path = where
    given = headers | {"Authorization": f"Bearer {target.token}"}
    answer = exchange(target, asked(target, method, path, given, body))
    must_be_sound(answer, (where, headers, body))
    if answer.headers.get("content-type", "").startswith("application/x-ndjson") and method == "GET":
        for line in answer.body.split(b"\n"):
            assert not line or line[:1] in b"{0123456789abcdef\r", line[:80]
    target.must_be_well()


WHOLE = (
    b"POST /login HTTP/1.1\r\nHost: H\r\nOrigin: O\r\nContent-Type: application/json\r\n"
    b'Transfer-Encoding: chunked\r\nConnection: close\r\n\r\nf\r\n{"code": "abc"}\r\n0\r\n\r\n'
)


@QUICK
@given(request=st.one_of(torn(WHOLE, 3), st.lists(st.sampled_from(BITS), max_size=6).map(b"".join)))
def test_what_is_hardly_http_harms_nobody(target, request):
    netloc = urlsplit(target.origin).netloc
    request = request.replace(b"H\r", netloc.encode() + b"\r").replace(
        b"O\r", target.origin.encode() + b"\r"
    )
    answer = exchange(target, request, ends=True)
    assert answer is None or answer.status < 500, request
    must_be_sound(exchange(target, asked(target, "GET", "/healthz", {})), "healthz")
    target.must_be_well()


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/redoc"])
def test_the_schema_is_given_to_nobody(target, path):
    answer = exchange(target, asked(target, "GET", path, {"Authorization": f"Bearer {target.token}"}))
    assert answer is not None
    assert answer.status == 404
