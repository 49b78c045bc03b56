"""Whose requests are looked at: exact names of our own, no page of another site, nothing endless."""

import asyncio
import contextlib
import socket

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from interlock.config.settings import load_settings
from interlock.gateway.doors import MAX_BODY_BYTES, DoorPolicy, Doors

HOST = (b"host", b"127.0.0.1:8420")
ORIGIN = (b"origin", b"http://127.0.0.1:8420")
COOKIE = (b"cookie", b"interlock=ilb_x")
BEARER = (b"authorization", b"Bearer ilk_x")


def policy(monkeypatch, *, port: int = 8420, hashes: tuple[str, ...] = (), **variables: str) -> DoorPolicy:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return DoorPolicy.of(load_settings().gateway, port, hashes)


class Behind:
    """What stands behind the doors: it reads everything and answers, and counts that it was asked."""

    def __init__(self, headers=()) -> None:
        self.asked = 0
        self.body = b""
        self._headers = list(headers)

    async def __call__(self, scope, receive, send) -> None:
        self.asked += 1
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            return
        while (message := await receive())["type"] == "http.request":
            self.body += message["body"]
            if not message.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        await send({"type": "http.response.body", "body": b"inside"})


class Answer:
    def __init__(self, sent) -> None:
        self.sent = sent
        self.status = sent[0].get("status") if sent else None
        self.headers = [(name.decode(), value.decode()) for name, value in sent[0].get("headers", ())]
        self.body = b"".join(message.get("body", b"") for message in sent[1:])

    def header(self, name: str) -> str:
        (value,) = [value for key, value in self.headers if key == name]
        return value


async def ask(
    doors, *headers, method="GET", path="/", pieces=(b"",), kind="http", extensions=None
) -> Answer:
    scope = {"type": kind, "path": path, "headers": list(headers), "extensions": extensions}
    messages = [{"type": "websocket.connect"}]
    if kind == "http":
        scope["method"] = method
        last = len(pieces) - 1
        messages = [
            {"type": "http.request", "body": body, "more_body": number < last}
            for number, body in enumerate(pieces)
        ]
    waiting, sent = iter(messages), []

    async def receive():
        return next(waiting)

    async def send(message):
        sent.append(message)

    await doors(scope, receive, send)
    return Answer(sent)


@pytest.fixture
def behind() -> Behind:
    return Behind()


@pytest.fixture
def doors(behind, monkeypatch) -> Doors:
    return Doors(behind, policy(monkeypatch))


# -- Host --


@pytest.mark.parametrize("host", ["127.0.0.1:8420", "localhost:8420", "LocalHost:8420", "[::1]:8420"])
async def test_its_own_names_are_answered(doors, behind, host):
    answer = await ask(doors, (b"host", host.encode()))
    assert (answer.status, answer.body) == (200, b"inside")


FOREIGN_HOSTS = [
    "evil.com",
    "evil.com:8420",
    "127.0.0.1:8420.evil.com",
    "127.0.0.1.evil.com:8420",
    "evil.com/127.0.0.1:8420",
    "127.0.0.1:8420@evil.com",
    "evil.com@127.0.0.1:8420",
    "user:secret@127.0.0.1:8420",
    "127.0.0.1",
    "localhost",
    "127.0.0.1:80",
    "127.0.0.1:08420",
    "127.0.0.1:8420:",
    "127.0.0.1.:8420",
    "localhost.:8420",
    "localhost:8420.",
    "127.1:8420",
    "2130706433:8420",
    "127.0.0.2:8420",
    "0.0.0.0:8420",
    "[::]:8420",
    "::1:8420",
    "[0:0:0:0:0:0:0:1]:8420",
    "[::ffff:127.0.0.1]:8420",
    "127.0.0.1:8420, evil.com",
    "127.0.0.1:8420 ",
    " 127.0.0.1:8420",
    "127.0.0.1:8420\t",
    "127.0.0.1:8420\x00",
    "http://127.0.0.1:8420",
    "127.0.0.1\u00b2:8420",
    "*",
    "null",
    "",
]


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
async def test_another_name_is_refused_before_anything_is_looked_at(doors, behind, host):
    for kind in ("http", "websocket"):
        answer = await ask(doors, (b"host", host.encode("latin-1")), BEARER, kind=kind)
        assert answer.status == 403 or answer.sent[0]["type"] == "websocket.close"
        assert b"evil" not in answer.body
    assert behind.asked == 0


async def test_no_name_and_two_names_are_refused(doors, behind):
    assert (await ask(doors)).status == 403
    assert (await ask(doors, HOST, HOST)).status == 403
    assert (await ask(doors, HOST, (b"Host", b"evil.com"))).status == 403
    assert (await ask(doors, (b"x-forwarded-host", HOST[1]))).status == 403
    assert behind.asked == 0


async def test_the_port_may_be_missing_only_where_it_is_the_usual_one(monkeypatch, tmp_path):
    plain = policy(monkeypatch, port=80)
    assert {"127.0.0.1", "localhost", "[::1]", "127.0.0.1:80"} <= plain.hosts
    assert {"http://localhost", "http://localhost:80"} <= plain.origins
    assert "localhost" not in policy(monkeypatch, port=443).hosts
    (tmp_path / "pem").write_text("x")
    files = {"GATEWAY_TLS_CERT": str(tmp_path / "pem"), "GATEWAY_TLS_KEY": str(tmp_path / "pem")}
    encrypted = policy(monkeypatch, port=443, **files)
    assert "https://localhost" in encrypted.origins
    assert not any(origin.startswith("http:") for origin in encrypted.origins)


async def test_the_operator_names_further_hosts_and_origins(monkeypatch, behind):
    doors = Doors(
        behind,
        policy(
            monkeypatch,
            GATEWAY_HOST="0.0.0.0",
            GATEWAY_PLAIN_HTTP="true",
            GATEWAY_ALLOWED_HOSTS="Agent.Example.org",
            GATEWAY_ALLOWED_ORIGINS="https://Agent.example.org",
        ),
    )
    public = (b"host", b"agent.example.ORG")
    assert (await ask(doors, public, (b"origin", b"https://agent.example.org"))).status == 200
    assert (await ask(doors, public, (b"origin", b"http://agent.example.org"))).status == 200
    for wrong in (b"agent.example.org:8420", b"x.agent.example.org", b"0.0.0.0:8420"):
        assert (await ask(doors, (b"host", wrong))).status == 403


def test_the_address_that_was_chosen_is_a_name_of_its_own(monkeypatch):
    chosen = policy(monkeypatch, GATEWAY_HOST="fd00::7", GATEWAY_PLAIN_HTTP="true", port=9000)
    assert "[fd00::7]:9000" in chosen.hosts
    assert "http://[fd00::7]:9000" in chosen.origins
    chosen = policy(monkeypatch, GATEWAY_HOST="::", port=9000)
    assert chosen.hosts == {"127.0.0.1:9000", "localhost:9000", "[::1]:9000"}


# -- Origin --


FOREIGN_ORIGINS = [
    "null",
    "",
    "http://evil.com",
    "https://127.0.0.1:8420",
    "http://127.0.0.1",
    "http://127.0.0.1:8421",
    "http://127.0.0.1:8420/",
    "http://127.0.0.1:8420.evil.com",
    "http://127.0.0.1:8420@evil.com",
    "http://evil.com@127.0.0.1:8420",
    "http://127.0.0.1.:8420",
    "http://sub.localhost:8420",
    "http://localhost:8420 http://evil.com",
    "localhost:8420",
    "//localhost:8420",
    "file://",
    "chrome-extension://abc",
    "*",
]


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
async def test_a_page_of_another_site_is_refused_whatever_else_it_brings(doors, behind, origin):
    given = (HOST, (b"origin", origin.encode()), COOKIE, BEARER)
    for method in ("GET", "HEAD", "POST"):
        assert (await ask(doors, *given, method=method)).status == 403
    assert (await ask(doors, *given, kind="websocket")).sent[0]["type"] == "websocket.close"
    assert behind.asked == 0


async def test_two_origins_are_refused(doors, behind):
    assert (await ask(doors, HOST, ORIGIN, ORIGIN)).status == 403
    assert (await ask(doors, HOST, ORIGIN, (b"origin", b"http://evil.com"))).status == 403
    assert behind.asked == 0


@pytest.mark.parametrize(
    ("headers", "options", "passes"),
    [
        ((), {"method": "GET"}, True),
        ((COOKIE,), {"method": "GET"}, True),
        ((), {"method": "POST"}, False),
        ((COOKIE,), {"method": "POST"}, False),
        ((BEARER,), {"method": "POST"}, True),
        ((BEARER, COOKIE), {"method": "POST"}, False),
        ((ORIGIN,), {"method": "POST"}, True),
        ((BEARER,), {"kind": "websocket"}, True),
        ((), {"kind": "websocket"}, True),
        ((COOKIE,), {"kind": "websocket"}, False),
        ((COOKIE, BEARER), {"kind": "websocket"}, False),
        ((COOKIE, ORIGIN), {"kind": "websocket"}, True),
        ((COOKIE, (b"origin", b"HTTP://LOCALHOST:8420")), {"kind": "websocket"}, True),
    ],
)
async def test_what_a_browser_could_be_led_to_send_needs_an_origin(doors, behind, headers, options, passes):
    await ask(doors, HOST, *headers, **options)
    assert behind.asked == passes


# -- methods and sizes --


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "get", "EVIL"])
async def test_other_methods_are_refused_and_a_preflight_gets_no_leave(doors, behind, method):
    answer = await ask(doors, HOST, ORIGIN, (b"access-control-request-method", b"PUT"), method=method)
    assert answer.status == 403
    assert not [name for name, _ in answer.headers if name.startswith("access-control")]
    assert behind.asked == 0


async def test_a_body_of_the_largest_size_passes(doors, behind):
    pieces = (b"x" * (MAX_BODY_BYTES - 1), b"x")
    answer = await ask(doors, HOST, ORIGIN, method="POST", pieces=pieces)
    assert answer.status == 200
    assert len(behind.body) == MAX_BODY_BYTES


@pytest.mark.parametrize("length", [b"65537", b"9" * 30, b"-1", b"x", b"", b"1e3"])
async def test_a_length_that_is_too_much_or_none_is_refused_at_once(doors, behind, length):
    answer = await ask(doors, HOST, ORIGIN, (b"content-length", length), method="POST")
    assert answer.status == 413
    assert behind.asked == 0


@pytest.mark.parametrize("claimed", [(), ((b"content-length", b"5"),)])
async def test_what_comes_is_counted_whatever_was_claimed(doors, behind, claimed):
    pieces = [b"x" * 1000] * 100
    answer = await ask(doors, HOST, ORIGIN, *claimed, method="POST", pieces=pieces)
    assert (answer.status, len(answer.sent)) == (413, 2)
    assert len(behind.body) <= MAX_BODY_BYTES


async def test_an_application_that_fails_over_it_cannot_answer_twice(monkeypatch):
    async def stubborn(_scope, receive, send):
        while (await receive())["type"] == "http.request":
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("the client went away")

    answer = await ask(
        Doors(stubborn, policy(monkeypatch)), HOST, ORIGIN, method="POST", pieces=[b"x" * 70_000, b""]
    )
    assert [message["type"] for message in answer.sent] == ["http.response.start", "http.response.body"]
    assert answer.status == 413


async def test_an_answer_that_has_begun_is_not_begun_again(monkeypatch):
    async def early(_scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        assert (await receive())["type"] == "http.disconnect"
        assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.body", "body": b"done"})

    answer = await ask(
        Doors(early, policy(monkeypatch)), HOST, ORIGIN, method="POST", pieces=[b"x" * 70_000]
    )
    assert (answer.status, answer.body) == (200, b"done")


async def test_a_fault_of_the_application_is_not_hidden(monkeypatch):
    async def broken(_scope, _receive, _send):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await ask(Doors(broken, policy(monkeypatch)), HOST)


async def test_the_life_of_the_server_passes(doors, behind):
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["type"])

    await Doors(app, DoorPolicy(frozenset(), frozenset()))({"type": "lifespan"}, None, None)
    assert seen == ["lifespan"]


# -- answers --


async def test_every_answer_has_the_headers_once(monkeypatch):
    loose = Behind(
        [
            (b"Content-Security-Policy", b"default-src *"),
            (b"Access-Control-Allow-Origin", b"*"),
            (b"cache-control", b"public"),
            (b"content-type", b"text/html"),
        ]
    )
    doors = Doors(loose, policy(monkeypatch, hashes=("abc=",)))
    refused = await ask(doors, (b"host", b"evil.com"))
    for answer in (await ask(doors, HOST), refused):
        names = [name.lower() for name, _ in answer.headers]
        assert len(names) == len(set(names))
        assert not [name for name in names if name.startswith("access-control")]
        assert answer.header("x-content-type-options") == "nosniff"
        assert answer.header("referrer-policy") == "no-referrer"
        assert answer.header("cross-origin-opener-policy") == "same-origin"
        assert answer.header("cross-origin-resource-policy") == "same-origin"
        assert answer.header("x-frame-options") == "DENY"
        assert answer.header("cache-control") == "no-store"
        assert "microphone=()" in answer.header("permissions-policy")
        assert answer.header("content-security-policy") == (
            "default-src 'none'; script-src 'self' 'sha256-abc='; style-src 'self'; img-src 'self' data:; "
            "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
            "trusted-types lit-html"
        )
    assert refused.header("content-type").startswith("text/plain")
    assert refused.body.count(b"\n") == 1


@pytest.mark.parametrize(
    ("path", "cached"),
    [
        ("/static/app.js", "no-cache"),
        ("/", "no-store"),
        ("/staticx", "no-store"),
        ("/export/x", "no-store"),
    ],
)
async def test_only_what_holds_no_data_may_be_kept(doors, path, cached):
    assert (await ask(doors, HOST, path=path)).header("cache-control") == cached


async def test_a_refused_socket_gets_a_sentence_where_the_server_can_give_one(doors, behind):
    given = (HOST, (b"origin", b"http://evil.com"))
    answer = await ask(doors, *given, kind="websocket", extensions={"websocket.http.response": {}})
    assert answer.sent[0]["type"] == "websocket.http.response.start"
    assert answer.status == 403
    assert b"another site" in answer.body
    assert behind.asked == 0


# -- a real server --


@contextlib.asynccontextmanager
async def serving(monkeypatch):
    async def echo(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"{len(await request.body())} bytes")

    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    app = Doors(
        Starlette(routes=[Route("/", echo, methods=["GET", "POST"])]), policy(monkeypatch, port=port)
    )
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="websockets-sansio"))
    task = asyncio.create_task(server.serve([listening]))
    try:
        yield port
    finally:
        server.should_exit = True
        await task
        listening.close()


async def exchanged(port: int, text: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text.replace("\n", "\r\n").encode())
    await writer.drain()
    async with asyncio.timeout(10):
        answer = await reader.read(100_000)
    writer.close()
    await writer.wait_closed()
    return answer.decode()


def head(port: int, *lines: str, request: str = "GET / HTTP/1.1") -> str:
    return "\n".join([request, f"Host: 127.0.0.1:{port}", *lines, "", ""])


async def test_over_a_real_socket_the_doors_hold(monkeypatch):
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    upgrade += ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",)
    async with serving(monkeypatch) as port:
        own = f"Origin: http://127.0.0.1:{port}"
        assert " 200 OK" in await exchanged(port, head(port, "Connection: close"))
        for refused in (
            head(port, f"Host: 127.0.0.1:{port}"),
            head(port, "Host: evil.com"),
            head(port, "Origin: http://evil.com"),
            head(port, "Content-Length: 0", request="POST / HTTP/1.1"),
            head(port, "Cookie: a=b", *upgrade),
            head(port, "Origin: null", *upgrade),
            f"GET / HTTP/1.1\nHost: 127.0.0.1:{port}.evil.com\n\n",
            f"GET http://127.0.0.1:{port}/ HTTP/1.1\nHost: evil.com\n\n",
        ):
            assert (await exchanged(port, refused)).split(" ")[1] in {"400", "403"}, refused
        chunk = "1000\n" + "x" * 4096 + "\n"
        large = head(port, own, "Transfer-Encoding: chunked", request="POST / HTTP/1.1") + chunk * 17
        assert " 413 " in await exchanged(port, large)
        assert " 413 " in await exchanged(
            port, head(port, own, "Content-Length: 65537", request="POST / HTTP/1.1")
        )
