"""What every answer carries through the doors, a refusal too."""

import pytest

from interlock.gateway.guard import RequestGuard
from tests.unit.gateway.knocking import HOST, Behind, ask, policy


async def test_every_answer_has_the_headers_once(monkeypatch):
    loose = Behind(
        [
            (b"Content-Security-Policy", b"default-src *"),
            (b"Access-Control-Allow-Origin", b"*"),
            (b"cache-control", b"public"),
            (b"content-type", b"text/html"),
        ]
    )
    doors = RequestGuard(loose, policy(monkeypatch, hashes=("abc=",)))
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
    assert b"other sites" in answer.body
    assert behind.asked == 0
