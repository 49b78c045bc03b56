"""Where the gateway listens: beyond this machine only encrypted, or because somebody said so."""

import os

import pytest

from interlock.config.gateway import is_loopback_address
from interlock.config.settings import load_settings
from tests.unit.config.test_settings import refused


def loaded(monkeypatch, **variables: str):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return load_settings().gateway


@pytest.fixture
def pem(tmp_path) -> dict[str, str]:
    for name in ("cert", "key"):
        (tmp_path / f"{name}.pem").write_text("x")
    return {
        "GATEWAY_TLS_CERT": str(tmp_path / "cert.pem"),
        "GATEWAY_TLS_KEY": str(tmp_path / "key.pem"),
    }


def test_the_defaults_stay_on_this_machine():
    found = load_settings().gateway
    assert (found.host, found.port, found.scheme, found.plain_http) == ("127.0.0.1", 8420, "http", False)
    assert (found.browser_days, found.max_frame_bytes, found.requests_per_second) == (30, 1 << 20, 50)
    assert (found.max_sockets, found.queue_bytes) == (2000, 4 << 20)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.9.10", "localhost", "LOCALHOST", "::1", "0:0:0:0:0:0:0:1"]
)
def test_what_only_this_machine_reaches_needs_nothing(monkeypatch, host):
    assert is_loopback_address(host)
    assert loaded(monkeypatch, GATEWAY_HOST=host).host == host


OTHERS = ["0.0.0.0", "::", "192.168.1.2", "10.0.0.1", "fd00::1", "example.org", "localhost.evil.com"]
OTHERS += [
    "127.0.0.1.evil.com",
    "127.1",
    "2130706433",
    "0x7f.0.0.1",
    "::ffff:127.0.0.1",
    "x.localhost",
    "0",
]


@pytest.mark.parametrize("host", OTHERS)
def test_anything_else_needs_tls_or_somebody_who_says_so(monkeypatch, pem, host):
    sentence = refused(monkeypatch, GATEWAY_HOST=host)
    for name in ("GATEWAY_HOST", "GATEWAY_TLS_CERT", "GATEWAY_TLS_KEY", "GATEWAY_PLAIN_HTTP=true"):
        assert name in sentence
    monkeypatch.setenv("GATEWAY_PLAIN_HTTP", "true")
    assert load_settings().gateway.scheme == "http"
    monkeypatch.setenv("GATEWAY_PLAIN_HTTP", "false")
    assert loaded(monkeypatch, **pem).scheme == "https"


def test_a_certificate_needs_its_key(monkeypatch, pem):
    for name, value in pem.items():
        with monkeypatch.context() as alone:
            assert "set both or neither" in refused(alone, **{name: value})
    assert "GATEWAY_TLS_KEY" in refused(monkeypatch, **{**pem, "GATEWAY_TLS_KEY": "  "})


def test_a_certificate_is_a_file_that_can_be_read(monkeypatch, pem, tmp_path):
    missing = refused(monkeypatch, **{**pem, "GATEWAY_TLS_KEY": str(tmp_path / "nothing.pem")})
    assert "GATEWAY_TLS_KEY: " in missing
    assert "is not an existing file" in missing
    assert "is not an existing file" in refused(monkeypatch, **{**pem, "GATEWAY_TLS_CERT": str(tmp_path)})
    monkeypatch.setattr(os, "access", lambda path, _how: not str(path).endswith("key.pem"))
    assert "this account cannot read" in refused(monkeypatch, **pem)


def test_a_certificate_is_found_from_the_working_folder_once_and_for_all(monkeypatch, pem, tmp_path):
    monkeypatch.chdir(tmp_path)
    found = loaded(monkeypatch, GATEWAY_TLS_CERT="cert.pem", GATEWAY_TLS_KEY="key.pem")
    assert (found.tls_cert, found.tls_key) == (tmp_path / "cert.pem", tmp_path / "key.pem")


def test_port_zero_is_any_that_is_free(monkeypatch):
    assert loaded(monkeypatch, GATEWAY_PORT="0").port == 0


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("GATEWAY_PORT", "-1", "at least 0"),
        ("GATEWAY_HOST", "", "write a host name or an address"),
        ("GATEWAY_HOST", "[::1]", "without brackets"),
        ("GATEWAY_HOST", "http://localhost", "write a host name or an address"),
        ("GATEWAY_HOST", "127.0.0.1 ", "write a host name or an address"),
        ("GATEWAY_BROWSER_DAYS", "0", "greater than 0"),
        ("GATEWAY_MAX_FRAME_BYTES", "10", "1024"),
        ("GATEWAY_REQUESTS_PER_SECOND", "0", "greater than 0"),
        ("GATEWAY_MAX_SOCKETS", "0", "greater than 0"),
        ("GATEWAY_QUEUE_BYTES", "1", "65536"),
        ("GATEWAY_ALLOWED_HOSTS", "*", "patterns are not supported"),
        ("GATEWAY_ALLOWED_HOSTS", "a.org,*.b.org", "'*.b.org'"),
        ("GATEWAY_ALLOWED_HOSTS", "https://a.org", "HOST:PORT"),
        ("GATEWAY_ALLOWED_HOSTS", "a.org/x", "HOST:PORT"),
        ("GATEWAY_ALLOWED_HOSTS", "u@a.org", "HOST:PORT"),
        ("GATEWAY_ALLOWED_ORIGINS", "*", "patterns are not supported"),
        ("GATEWAY_ALLOWED_ORIGINS", "null", "'null'"),
        ("GATEWAY_ALLOWED_ORIGINS", "a.org", "http(s)://HOST"),
        ("GATEWAY_ALLOWED_ORIGINS", "https://a.org/", "without a path"),
        ("GATEWAY_ALLOWED_ORIGINS", "https://u@a.org", "without a path"),
    ],
)
def test_a_wrong_value_stops_the_start(monkeypatch, name, value, text):
    sentence = refused(monkeypatch, **{name: value})
    assert name in sentence
    assert text in sentence


def test_names_and_pages_are_lists(monkeypatch):
    found = loaded(
        monkeypatch,
        GATEWAY_ALLOWED_HOSTS="a.org, b.org:8443 ,[fd00::1]:9000",
        GATEWAY_ALLOWED_ORIGINS="https://a.org,http://b.org:8080",
    )
    assert found.allowed_hosts == ("a.org", "b.org:8443", "[fd00::1]:9000")
    assert found.allowed_origins == ("https://a.org", "http://b.org:8080")
