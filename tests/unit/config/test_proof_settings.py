"""Where anchors are sent: an unknown sink stops the start, and no agent reaches a file of anchors."""

import pytest

from interlock.config.settings import load_settings
from interlock.core.errors import ConfigurationError


def test_every_kind_of_sink_is_accepted_once(monkeypatch, tmp_path):
    monkeypatch.setenv("DATABASE_URL", "postgresql://interlock:x@db.example/interlock")
    monkeypatch.setenv("NATS_URL", "tls://interlock:word@nats.example:4222")
    sinks = (f"file:{tmp_path}/a", "journald", "https://proof.example/in", "http://[::1]:9/", "nats:a.b")
    monkeypatch.setenv("EVENT_ANCHORS", ", ".join([*sinks, "journald"]))
    assert load_settings().proof.anchors == sinks


@pytest.mark.parametrize(
    "sink",
    [
        "file:relative",
        "journald:x",
        "syslog",
        "http://proof.example/",
        "https://ada:sesame@proof.example/",
        "https://proof.example/?token=sesame",
        "https://",
        "nats:a.>",
        "nats://user:sesame@nats.example/a",
    ],
)
def test_another_address_stops_the_start_and_is_not_repeated(monkeypatch, sink):
    monkeypatch.setenv("EVENT_ANCHORS", sink)
    with pytest.raises(ConfigurationError, match="EVENT_ANCHORS: a sink is") as error:
        load_settings()
    assert "sesame" not in str(error.value)


def test_nats_needs_its_servers(monkeypatch):
    monkeypatch.setenv("EVENT_ANCHORS", "nats:a.b")
    with pytest.raises(ConfigurationError, match="NATS_URL, which is unset"):
        load_settings()


def test_a_file_of_anchors_in_an_opened_directory_stops_the_start(monkeypatch, tmp_path):
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("TOOL_ALLOWED_ROOTS", str(tmp_path / "project"))
    monkeypatch.setenv("EVENT_ANCHORS", f"file:{tmp_path}/project/anchors")
    with pytest.raises(ConfigurationError, match=r"of EVENT_ANCHORS .* overlap"):
        load_settings()
