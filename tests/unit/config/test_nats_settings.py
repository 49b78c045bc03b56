"""The address of NATS: with a user and a password, never shown, and only where a PostgreSQL is shared."""

import pytest

from interlock.config.settings import load_settings
from interlock.config.settings_report import describe_settings, secrets_of
from interlock.core.errors import ConfigurationError

GOOD = "tls://interlock:s3cret%21word@nats.example:4222"


@pytest.fixture(autouse=True)
def _shared_database(monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://interlock:x@db.example/interlock")


def test_one_or_several_servers(monkeypatch):
    monkeypatch.setenv("NATS_URL", f"{GOOD} , tls://interlock:s3cret%21word@two.example")
    settings = load_settings()
    assert settings.nats.servers == ["tls://nats.example:4222", "tls://two.example"]
    assert settings.nats.credentials == ("interlock", "s3cret!word")
    assert {"s3cret%21word", "s3cret!word"} <= set(secrets_of(settings))
    shown = {row.name: row.value for row in describe_settings(settings)}["NATS_URL"]
    assert "s3cret" not in shown


def test_unset_is_none(monkeypatch):
    assert load_settings().nats.servers == []
    monkeypatch.setenv("NATS_URL", " ")
    assert load_settings().nats.servers == []


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("nats://nats.example:4222", "a user and a password"),
        ("nats://user@nats.example", "a user and a password"),
        ("nats://:sesame@nats.example", "a user and a password"),
        ("http://user:sesame@nats.example", "write nats://"),
        ("user:sesame@nats.example", "write nats://"),
        ("nats://user:sesame@", "write nats://"),
        ("nats://user:sesame@nats.example:99999", "not a valid URL"),
        ("nats://user:sesame@nats.example/stream", "remove what follows the port"),
        (f"{GOOD},nats://nats.example", "a user and a password"),
        (f"{GOOD},nats://interlock:other@two.example", "the same user and password"),
    ],
)
def test_what_is_wrong_is_told_without_the_password(monkeypatch, url, told):
    monkeypatch.setenv("NATS_URL", url)
    with pytest.raises(ConfigurationError, match=f"NATS_URL.*{told}") as error:
        load_settings()
    assert "sesame" not in str(error.value)
    assert "s3cret" not in str(error.value)


def test_with_sqlite_it_does_not_start(monkeypatch):
    monkeypatch.setenv("NATS_URL", GOOD)
    monkeypatch.delenv("DATABASE_URL")
    with pytest.raises(ConfigurationError, match="DATABASE_URL"):
        load_settings()


@pytest.mark.parametrize("prefix", ["", "a.b", "A", "x" * 33, "*"])
def test_a_prefix_is_a_plain_name(monkeypatch, prefix):
    monkeypatch.setenv("NATS_PREFIX", prefix)
    with pytest.raises(ConfigurationError, match="NATS_PREFIX"):
        load_settings()


def test_a_certificate_that_is_not_there_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("NATS_TLS_CA", str(tmp_path / "none.pem"))
    with pytest.raises(ConfigurationError, match="NATS_TLS_CA"):
        load_settings()


@pytest.mark.parametrize("host", ["nats.example", "10.0.0.3", "[fd00::1]", "localhost.example"])
def test_without_encryption_it_stays_on_this_machine(monkeypatch, host):
    monkeypatch.setenv("NATS_URL", f"nats://interlock:sesame@{host}:4222")
    with pytest.raises(ConfigurationError, match="NATS_PLAIN"):
        load_settings()
    monkeypatch.setenv("NATS_PLAIN", "true")
    assert load_settings().nats.servers == [f"nats://{host}:4222"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_on_this_machine_it_needs_none(monkeypatch, host):
    monkeypatch.setenv("NATS_URL", f"nats://interlock:sesame@{host}:4222")
    assert load_settings().nats.servers == [f"nats://{host}:4222"]
