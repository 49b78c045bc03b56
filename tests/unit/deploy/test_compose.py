"""The compose file: what it starts and sets is understood, and nothing but loopback ports is published."""

import pytest

from interlock.cli.main import build_app
from interlock.config.settings import Settings, load_settings
from interlock.config.settings_report import _walk, setting_names
from interlock.config.sources import SECRET_FILE_SUFFIX
from interlock.gateway.guard import HostAndOriginPolicy
from tests.unit.deploy.plain_yaml import read_yaml
from tests.unit.deploy.units import ROOT, read_variables

FOLDER = ROOT / "deploy" / "compose"
COMPOSE = read_yaml(FOLDER / "compose.yaml")
COMMON = read_yaml(FOLDER / "interlock.yaml")["services"]["interlock"]
OURS = ("gateway-1", "gateway-2", "worker-1", "worker-2")
SECRETS = {name for name, _, is_secret in _walk(Settings) if is_secret}
EXAMPLE = FOLDER / "interlock.env.example"


def test_there_are_two_of_each_and_what_they_share():
    assert tuple(COMPOSE["services"]) == (*OURS, "postgres", "nats")
    for name in OURS:
        service = COMPOSE["services"][name]
        assert service["extends"] == {"file": "interlock.yaml", "service": "interlock"}
        assert set(service["depends_on"]) == {"postgres", "nats"}
        is_gateway = name.startswith("gateway")
        assert service["command"] == (["serve", "--no-worker"] if is_gateway else ["worker"])
        assert ("healthcheck" in service) is not is_gateway


@pytest.mark.parametrize("name", OURS)
def test_each_command_is_one_that_interlock_takes(name):
    words = COMPOSE["services"][name]["command"]
    _, bound, *_ = build_app().parse_args(words, exit_on_error=False, print_error=False)
    assert len(bound.arguments) == sum(word.startswith("--") for word in words)


def test_only_loopback_ports_of_the_gateways_are_published():
    published = {
        name: service["ports"] for name, service in COMPOSE["services"].items() if "ports" in service
    }
    assert set(published) == {"gateway-1", "gateway-2"}
    ports = [port for each in published.values() for port in each]
    assert len(set(ports)) == len(ports)
    for port in ports:
        assert port.startswith("127.0.0.1:")
        assert port.endswith(f":{COMMON['environment']['GATEWAY_PORT']}")
    assert "ports" not in COMMON
    for name in ("postgres", "nats"):
        assert COMPOSE["services"][name]["networks"] == ["inside"]
    assert COMPOSE["networks"]["inside"] == {"internal": True}


def test_every_variable_is_a_setting_and_every_secret_a_file():
    loaded = set(COMMON["secrets"])
    for name, value in COMMON["environment"].items():
        if name.endswith(SECRET_FILE_SUFFIX):
            secret = name.removesuffix(SECRET_FILE_SUFFIX)
            assert secret in SECRETS
            assert value == f"/run/secrets/{secret.lower()}"
            loaded.remove(secret.lower())
        else:
            assert name in setting_names()
            assert name not in SECRETS
    assert loaded == set()
    given, proposed = read_variables(EXAMPLE)
    assert {*given, *proposed} <= set(setting_names()) - SECRETS
    assert all(secret == {"file": f"./secrets/{name}"} for name, secret in COMPOSE["secrets"].items())
    assert COMPOSE["services"]["postgres"]["environment"]["POSTGRES_PASSWORD_FILE"] == (
        "/run/secrets/postgres_password"
    )


@pytest.fixture
def settings(monkeypatch, tmp_path):
    """As a container has them, with secrets as an operator writes them."""
    given, _ = read_variables(EXAMPLE)
    secrets = {
        "database_url": "postgresql://interlock:a-long-password@postgres/interlock",
        "nats_url": "nats://interlock:another-password@nats:4222",
        "openai_api_key": "",
    }
    for name, value in secrets.items():
        (tmp_path / name).write_text(value + "\n")
    (tmp_path / "root").mkdir()
    for name, value in {**given, **COMMON["environment"]}.items():
        here = value.replace("/run/secrets", str(tmp_path)).replace(
            "/srv/interlock", str(tmp_path / "root")
        )
        monkeypatch.setenv(name, here)
    monkeypatch.setenv("INTERLOCK_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("WORKSPACE_DIR", str(tmp_path / "workspace"))
    return load_settings()


def test_interlock_starts_with_it(settings):
    assert settings.database_url == "postgresql://interlock:a-long-password@postgres/interlock"
    assert settings.nats.url.get_secret_value() == "nats://interlock:another-password@nats:4222"
    assert (settings.gateway.host, settings.gateway.plain_http) == ("0.0.0.0", True)


def test_browsers_are_answered_at_the_published_ports_and_nowhere_else(settings):
    policy = HostAndOriginPolicy.of(settings.gateway, settings.gateway.port)
    for name in ("gateway-1", "gateway-2"):
        [published] = COMPOSE["services"][name]["ports"]
        _, port, _ = published.split(":")
        assert f"localhost:{port}" in policy.hosts
        assert f"http://localhost:{port}" in policy.origins
    assert not any("*" in host for host in policy.hosts)


def test_without_the_word_for_it_plain_http_beyond_this_machine_is_refused(settings, monkeypatch):
    monkeypatch.delenv("GATEWAY_PLAIN_HTTP")
    with pytest.raises(Exception, match="GATEWAY_HOST"):
        load_settings()


def test_what_is_written_lies_in_volumes_and_the_rest_cannot_be_written():
    assert COMMON["read_only"] is True
    assert COMMON["cap_drop"] == ["ALL"]
    mounted = {volume.split(":")[0]: volume.split(":")[1] for volume in COMMON["volumes"]}
    assert set(mounted) | {"postgres", "nats"} == set(COMPOSE["volumes"])
    text = (ROOT / "deploy" / "docker" / "Dockerfile").read_text()
    assert all(f'"{folder}"' in text for folder in mounted.values())
    assert COMMON["environment"]["TOOL_ALLOWED_ROOTS"] == mounted["roots"]


def test_all_processes_of_a_container_together_are_bounded():
    assert (COMMON["pids_limit"], COMMON["mem_limit"]) == (4096, "8g")
