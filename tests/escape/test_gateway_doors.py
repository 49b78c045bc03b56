"""Attacks on the gateway's doors: under another name, with no secret, a wrong one or an old one."""

import asyncio
import time

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from interlock.gateway import login_rate_limit, uvicorn_protocols
from interlock.gateway.credentials import CredentialKind, new_secret
from tests.escape.gateway_attacker import PATIENCE, UPGRADE, Wire, asking, exchange, get, head, post
from tests.harness.gateway import RequestRefused

EVERY_PATH = ("/", "/static/app.js", "/whoami", "/healthz", "/metrics", "/export/events.jsonl", "/ws")
OTHER_ORIGINS = (
    "http://evil.example",
    "null",
    "https://127.0.0.1:{port}",
    "http://127.0.0.1",
    "http://127.0.0.1:1",
    "http://127.0.0.1:{port}.evil.example",
    "http://evil.example#http://127.0.0.1:{port}",
    "http://127.0.0.1:{port} http://evil.example",
    "file://",
)
OTHER_HOSTS = (
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1",
    "127.0.0.1:1",
    "127.0.0.1.evil.example:{port}",
    "127.0.0.1:{port}.evil.example",
    "localhost.:{port}",
    "0.0.0.0:{port}",
    "2130706433:{port}",
    "",
)


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def as_socket(harness, headers: dict[str, str]) -> int:
    """The status of the answer to the handshake; 101 is in."""
    wire = await Wire.open(harness.port)
    await wire.send(head("/ws", harness.port, {**UPGRADE, **headers}))
    async with asyncio.timeout(PATIENCE):
        line = await wire.reader.readline()
    await wire.close()
    return int(line.split()[1]) if line else 0


async def test_a_page_of_another_site_gets_nothing_whatever_it_brings(harness):
    token = await harness.token()
    for origin in OTHER_ORIGINS:
        given = {"Origin": origin.format(port=harness.port), **bearer(token)}
        assert await as_socket(harness, given) == 403, origin
        for path in EVERY_PATH:
            status, said = await get(harness.port, path, given)
            assert status == 403, (origin, path)
            assert b"access-control" not in said.lower()


async def test_under_another_name_nothing_is_answered(harness):
    token = await harness.token()
    for host in OTHER_HOSTS:
        given = {"Host": host.format(port=harness.port), **bearer(token)}
        assert await as_socket(harness, given) == 403, host
        for path in EVERY_PATH:
            assert (await get(harness.port, path, given))[0] == 403, (host, path)


async def test_two_names_at_once_are_no_name(harness):
    data = head("/whoami", harness.port, bearer(await harness.token())).replace(
        b"Host:", b"Host: evil.example\r\nHost:", 1
    )
    assert (await exchange(harness.port, data))[0] in {400, 403}
    # The target is not the name: a proxy's form of it does not open what the name keeps shut.
    status, _ = await get(harness.port, f"http://127.0.0.1:{harness.port}/whoami", {"Host": "evil.example"})
    assert status == 403


async def wrong_secrets(harness) -> list[str]:
    right = await harness.token()
    code = await harness.gateway.credentials.issue_code(who="test")
    return [
        "",
        "x",
        right[:-1],
        right + "A",
        right.swapcase(),
        new_secret(CredentialKind.token),
        new_secret(CredentialKind.browser),
        code,
        f"{right}\u00e9",
        "' OR 1=1 --",
        "ilk_" + "A" * 5_000,
    ]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_page_on_another_port_asks_for_nothing_with_this_browsers_cookie(harness, site):
    """Cookies know no ports, and what an image or a link asks for has no Origin."""
    session = await harness.gateway.credentials.redeem_code(
        await harness.gateway.credentials.issue_code(who="ann"), browser_days=1
    )
    given = {"Cookie": f"{harness.gateway._cookie}={session.secret}", "Sec-Fetch-Mode": "no-cors"}
    for path in ("/export/events.jsonl", "/metrics", "/whoami", "/static/app.js", "/healthz"):
        assert (await get(harness.port, path, given | {"Sec-Fetch-Site": site}))[0] == 403, path
        assert (await get(harness.port, path, given | {"Sec-Fetch-Site": "same-origin"}))[0] == 200, path
        assert (await get(harness.port, path, given | {"Sec-Fetch-Site": "none"}))[0] == 200, path
    # A link to the page may stand anywhere.
    assert (await get(harness.port, "/", {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}))[0] == 200


async def test_a_request_has_one_length(harness):
    """Behind a proxy that believes the other one, the rest would be somebody else's request."""
    given = {"Origin": harness.url, "Content-Length": "5", "Transfer-Encoding": "chunked"}
    hidden = b"0\r\n\r\n" + head("/healthz", harness.port)
    status, said = await exchange(harness.port, head("/login", harness.port, given, method="POST") + hidden)
    assert (status, said.count(b"HTTP/1.1 ")) == (400, 1)


async def test_without_a_secret_or_with_a_wrong_one_nobody_gets_in(harness):
    cookie = f"interlock_{harness.port}"
    secrets = await wrong_secrets(harness)
    attempts = [{}, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer"}, *map(bearer, secrets)]
    attempts += [{"Cookie": f"{cookie}={secret}", "Origin": harness.url} for secret in secrets]
    for given in attempts:
        assert await as_socket(harness, given) == 401, given
        for path in ("/metrics", "/export/events.jsonl", "/export/session/s_1.jsonl"):
            assert (await get(harness.port, path, given))[0] == 401, (given, path)
        told = await get(harness.port, "/whoami", given)
        assert (told[0] == 401) if "Authorization" in given else (b'{"who":null}' in told[1]), given


async def test_a_token_is_no_cookie_and_a_cookie_needs_an_origin(harness):
    token, cookie = await harness.token(), f"interlock_{harness.port}"
    session = await harness.gateway.credentials.redeem_code(
        await harness.gateway.credentials.issue_code(who="ann"), browser_days=1
    )
    assert await as_socket(harness, {"Cookie": f"{cookie}={token}", "Origin": harness.url}) == 401
    assert await as_socket(harness, bearer(session.secret)) == 401
    assert await as_socket(harness, {"Cookie": f"{cookie}={session.secret}"}) == 403
    assert await as_socket(harness, {"Cookie": f"{cookie}={session.secret}", "Origin": harness.url}) == 101
    # A query is no place for a secret: it stands in logs and histories.
    assert b'{"who":null}' in (await get(harness.port, f"/whoami?token={token}&access_token={token}"))[1]


async def test_a_code_works_once_and_for_one_of_two_at_once(harness):
    code = await harness.gateway.credentials.issue_code(who="ann")
    answers = await asyncio.gather(*(post(harness.port, "/login", {"code": code}) for _ in range(5)))
    assert sorted(status for status, _ in answers) == [204, 401, 401, 401, 401]
    assert (await post(harness.port, "/login", {"code": code}))[0] == 401


async def test_an_old_code_is_worth_nothing(harness):
    code = await harness.gateway.credentials.issue_code(who="ann", ttl_seconds=-1)
    assert (await post(harness.port, "/login", {"code": code}))[0] == 401


NO_CODES = (
    b"", b"null", b"[]", b'{"code": 7}', b'{"code": null}', b'{"code": ["x"]}', b"\xff\xfe", b"[" * 60_000
)  # fmt: skip


async def test_what_is_no_code_is_refused_as_a_wrong_one_is(harness):
    for body in NO_CODES:
        status, said = await post(harness.port, "/login", body)
        assert status == 401, body
        assert b"Traceback" not in said


async def test_wrong_codes_keep_nobody_out_who_has_a_right_one(harness):
    """Another account of this machine, or whoever shares a proxy, comes from the same address."""
    for _ in range(15):
        assert (await post(harness.port, "/login", {"code": new_secret(CredentialKind.code)}))[0] == 401
    code = await harness.gateway.credentials.issue_code(who="ann")
    assert (await post(harness.port, "/login", {"code": code}))[0] == 204


async def test_a_flood_of_codes_is_slowed_down_and_over_when_it_ends(harness, monkeypatch):
    monkeypatch.setattr(harness.gateway, "_logins", login_rate_limit.LoginRateLimiter(clock := Clock()))
    most = int(2 * login_rate_limit.LOGINS_PER_SECOND_PER_ADDRESS)
    given = {"Origin": harness.url, "Content-Length": "2"}
    guesses = (head("/login", harness.port, given, method="POST") + b"{}") * most
    status, said = await exchange(
        harness.port, guesses + head("/healthz", harness.port, {"Connection": "close"})
    )
    assert (status, said.count(b"HTTP/1.1 401")) == (401, most)
    code = await harness.gateway.credentials.issue_code(who="ann")
    status, said = await post(harness.port, "/login", {"code": code})
    assert (status, b"retry-after: 1" in said.lower()) == (429, True)
    clock.now += 1
    # It was not looked at, and so not used up.
    assert (await post(harness.port, "/login", {"code": code}))[0] == 204


async def test_whoever_is_let_in_no_more_is_sent_away(harness):
    """From the socket that is open as well, within seconds; and nothing is done for it after that."""
    token = await harness.token("script")
    client = await harness.connect(token)
    await client.ask("server.info")
    began = time.monotonic()
    await harness.gateway.credentials.revoke("script", harness.agent_runtime.runs, who="test")
    assert await client.closed() == 4401
    assert time.monotonic() - began < 6
    assert await as_socket(harness, bearer(token)) == 401


async def test_a_browser_that_logs_out_takes_its_sockets_along(harness):
    session = await harness.gateway.credentials.redeem_code(
        await harness.gateway.credentials.issue_code(who="ann"), browser_days=1
    )
    given = {"Cookie": f"interlock_{harness.port}={session.secret}", "Origin": harness.url}
    socket = await connect(f"ws://127.0.0.1:{harness.port}/ws", additional_headers=given)
    assert (await post(harness.port, "/logout", b"", given))[0] == 204
    async with asyncio.timeout(3):
        await socket.wait_closed()
    assert socket.close_code == 4401
    with pytest.raises(InvalidStatus):
        await connect(f"ws://127.0.0.1:{harness.port}/ws", additional_headers=given)


async def test_not_reading_does_not_put_off_the_end(narrow_harness):
    """A revoked client whose frames wait unread could otherwise go on for as long as it pleased."""
    harness = await narrow_harness()
    owner = await harness.connect()
    sessions = [(await owner.ask("session.create", title="x" * 190))["session"]["id"] for _ in range(40)]
    wire = await Wire.socket(harness.port, await harness.token("script"), window=4096)
    for number in range(20):
        await wire.send(asking("session.list", number))
    await harness.gateway.credentials.revoke("script", harness.agent_runtime.runs, who="test")
    await asyncio.sleep(1.2)
    await wire.send(asking("session.delete", session_id=sessions[0]))
    async with asyncio.timeout(4):
        while len(harness.gateway.sockets) > 1:
            await asyncio.sleep(0.05)
    assert (await owner.ask("session.get", session_id=sessions[0]))["session"]["id"] == sessions[0]
    # Not only closed, which waits for its reader, but gone.
    await asyncio.sleep(uvicorn_protocols.CLOSE_SECONDS)
    assert len(await wire.rest(1)) < 200_000
    await wire.close()


async def test_a_handshake_with_too_much_in_it_is_refused_and_gone(harness):
    for headers in ({"X": "a" * 9000}, {f"X-{number}": "a" for number in range(140)}):
        wire = await Wire.open(harness.port)
        await wire.send(head("/ws", harness.port, {**UPGRADE, **headers}))
        assert (await wire.rest(2)).startswith(b"HTTP/1.1 431")
        await wire.close()


PATHS = (
    "/static/../app.py",
    "/static/../../../../../../../../etc/passwd",
    "/static/..%2f..%2fapp.py",
    "/static/%2e%2e/app.py",
    "/static/%2e%2e%2f%2e%2e%2fapp.py",
    "/static/..%5capp.py",
    "/static//etc/passwd",
    "/static/%2fetc%2fpasswd",
    "/static/js/../../auth.py",
    "/static/app.js%00.html",
    "/static/%ff%fe",
    "/static/\x7f",
    "/static/" + "a/" * 2000,
    "/static/" + "a" * 5000,
    "/static",
    "/static/",
    "/static/js",
)


async def test_only_what_is_in_the_page_is_served(harness):
    for path in PATHS:
        status, said = await get(harness.port, path)
        assert status in {307, 400, 404, 405}, path
        assert not [word for word in (b"root:", b"import ", b"Traceback") if word in said], path


ODD_NAMES = (
    "..", "../x", "%2e%2e%2fx", "s_1%00", "%ff", "s_1%0d%0aX-Evil:%201", "'; DROP TABLE events; --", "%",
    "system", "*", "_", "s_" + "a" * 3000, "%F0%9F%98%80", "%22%3Cscript%3E",
)  # fmt: skip


async def test_a_download_is_of_a_session_or_of_nothing(harness):
    given = bearer(await harness.token())
    shapes = ("/export/session/{}.jsonl", "/export/session/{}", "/export/events.jsonl?session_id={}")
    for target in [shape.format(name.replace(" ", "%20")) for shape in shapes for name in ODD_NAMES]:
        status, said = await get(harness.port, target, given)
        assert status in {400, 404}, (target, said)
        headers, _, body = said.partition(b"\r\n\r\n")
        assert b"X-Evil" not in headers, target
        assert b"text/html" not in headers, target
        assert b"Traceback" not in body, target


async def test_an_odd_id_is_refused_by_every_method_that_takes_one(harness):
    client = await harness.connect()
    names = "get subscribe rename archive delete export set_model"
    methods = [*(f"session.{name}" for name in names.split()), "chat.send", "chat.cancel", "chat.history"]
    for odd in ("", "\x00", "../..", "' OR '1'='1", "\U0001f600", "%s%n", "s_1\r\n", "system", "a" * 64):
        for method in methods:
            more = {"title": "t"} if method.endswith("rename") else {}
            more |= {"content": "c"} if method == "chat.send" else {}
            with pytest.raises(RequestRefused) as refused:
                await client.ask(method, session_id=odd, **more)
            assert refused.value.code in {"INVALID_PARAMS", "SESSION_NOT_FOUND"}, (method, odd)
        await asyncio.sleep(0.2)
