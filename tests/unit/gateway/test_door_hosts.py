"""Only the gateway's exact own names are answered, and those that the operator adds."""

import pytest

from interlock.gateway.guard import RequestGuard
from tests.unit.gateway.knocking import BEARER, HOST, ask, policy


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
    doors = RequestGuard(
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
