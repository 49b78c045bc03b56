"""No page of another site is let in, whatever it brings."""

import pytest

from tests.unit.gateway.knocking import BEARER, COOKIE, HOST, ORIGIN, ask

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
