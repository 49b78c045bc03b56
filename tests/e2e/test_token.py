"""Tokens at the command line: shown once, listed without secrets, revoked by id or name."""

import re

import pytest

from interlock.cli.token import link_base
from interlock.config.settings import load_settings
from interlock.core.errors import UserError
from tests.harness.case_tables import each_row
from tests.harness.cli import one_line_error

TOKEN = re.compile(r"ilk_[A-Za-z0-9_-]{43}\n")
CODE = re.compile(r"#code=ilc_[A-Za-z0-9_-]{43}$")


def test_a_token_is_shown_once_and_revoked_by_its_name(interlock):
    added = interlock("token", "add", "ci")
    assert TOKEN.fullmatch(added.stdout)
    assert "not shown again" in added.stderr
    assert added.stdout.strip() not in added.stderr
    listed = interlock("token", "list")
    assert "ci" in listed.stdout
    (row,) = interlock.json("token", "list")
    assert (row["kind"], row["name"], row["used_us"], row["expires_us"]) == ("token", "ci", None, None)
    assert added.stdout.strip() not in listed.stdout + str(row)
    assert "already" in one_line_error(interlock, "token", "add", "ci")
    assert row["id"] in interlock("token", "revoke", "ci").stdout
    assert interlock.json("token", "list") == []
    assert "no token or browser" in one_line_error(interlock, "token", "revoke", "ci")
    told = interlock("events", "tail", "system").stdout
    assert told.index("auth.token_added") < told.index("auth.token_revoked")


def test_machines_get_the_same(interlock):
    made = interlock.json("token", "add", "ci")
    assert sorted(made) == ["id", "name", "secret"]
    assert interlock.json("token", "revoke", made["id"]) == {
        "id": made["id"],
        "kind": "token",
        "name": "ci",
        "cancelled_tasks": 0,
        "stopped_runs": 0,
    }
    assert CODE.search(interlock.json("token", "link")["link"])


def test_a_link_is_for_one_browser_and_can_be_taken_back(interlock):
    told = interlock("token", "link")
    assert told.stdout.startswith("http://127.0.0.1:8420/#code=")
    assert CODE.search(told.stdout.strip())
    assert "works once, within ten minutes" in told.stderr
    (code,) = interlock.json("token", "list")
    assert code["kind"] == "code"
    assert code["name"].startswith("local:")
    interlock("token", "revoke", code["id"])
    assert interlock.json("token", "list") == []
    assert interlock("token", "link", "--port", "9000").stdout.startswith("http://127.0.0.1:9000/#code=")


@each_row("name", ["", "a b", "x" * 65, "ilk_secret"])
def test_a_name_that_cannot_be_one_is_refused(interlock, name):
    assert "name" in one_line_error(interlock, "token", "add", name)
    assert interlock.json("token", "list") == []


@pytest.mark.parametrize(
    ("variables", "base"),
    [
        ({}, "http://127.0.0.1:8420"),
        ({"GATEWAY_HOST": "localhost", "GATEWAY_PORT": "9000"}, "http://localhost:9000"),
        ({"GATEWAY_HOST": "::1"}, "http://[::1]:8420"),
        ({"GATEWAY_HOST": "0.0.0.0"}, "http://127.0.0.1:8420"),
        ({"GATEWAY_HOST": "::"}, "http://127.0.0.1:8420"),
        ({"GATEWAY_HOST": "0.0.0.0", "GATEWAY_ALLOWED_HOSTS": "a.org,b.org"}, "http://a.org"),
        ({"GATEWAY_HOST": "0.0.0.0", "GATEWAY_ALLOWED_HOSTS": "a.org:8420"}, "http://a.org:8420"),
        (
            {
                "GATEWAY_HOST": "::",
                "GATEWAY_ALLOWED_HOSTS": "a.org",
                "GATEWAY_ALLOWED_ORIGINS": "https://b.org,https://A.org",
            },
            "https://A.org",
        ),
        ({"GATEWAY_ALLOWED_HOSTS": "a.org"}, "http://127.0.0.1:8420"),
    ],
)
def test_the_link_leads_where_the_server_answers(monkeypatch, variables, base):
    monkeypatch.setenv("GATEWAY_PLAIN_HTTP", "true")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    gateway = load_settings().gateway
    assert link_base(gateway, gateway.port) == base


def test_with_a_certificate_the_link_is_encrypted(monkeypatch, tmp_path):
    (tmp_path / "pem").write_text("x")
    monkeypatch.setenv("GATEWAY_TLS_CERT", str(tmp_path / "pem"))
    monkeypatch.setenv("GATEWAY_TLS_KEY", str(tmp_path / "pem"))
    assert link_base(load_settings().gateway, 8443) == "https://127.0.0.1:8443"


def test_a_port_that_is_not_known_has_to_be_said(monkeypatch):
    monkeypatch.setenv("GATEWAY_PORT", "0")
    gateway = load_settings().gateway
    with pytest.raises(UserError, match="--port"):
        link_base(gateway, gateway.port)
    assert link_base(gateway, 5000) == "http://127.0.0.1:5000"
