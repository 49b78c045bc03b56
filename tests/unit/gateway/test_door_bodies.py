"""Only the methods in use pass the doors, and nothing endless."""

import pytest

from interlock.gateway.guard import MAX_BODY_BYTES, HostAndOriginPolicy, RequestGuard
from tests.unit.gateway.knocking import HOST, ORIGIN, ask, policy


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
        RequestGuard(stubborn, policy(monkeypatch)),
        HOST,
        ORIGIN,
        method="POST",
        pieces=[b"x" * 70_000, b""],
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
        RequestGuard(early, policy(monkeypatch)), HOST, ORIGIN, method="POST", pieces=[b"x" * 70_000]
    )
    assert (answer.status, answer.body) == (200, b"done")


async def test_a_fault_of_the_application_is_not_hidden(monkeypatch):
    async def broken(_scope, _receive, _send):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await ask(RequestGuard(broken, policy(monkeypatch)), HOST)


async def test_the_life_of_the_server_passes(doors, behind):
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["type"])

    await RequestGuard(app, HostAndOriginPolicy(frozenset(), frozenset()))({"type": "lifespan"}, None, None)
    assert seen == ["lifespan"]
