"""A nest for each test, on either database, with every kind of secret in its environment."""

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import pytest

from interlock.db.database import StoreConfig
from interlock.tools.media import progress
from interlock.tools.shell import command_runner
from tests.canary.canaries import Canaries
from tests.harness.canary import PROCESS_LOG, CanaryHarness
from tests.harness.image_server import ImageServer


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
def store_config(request: pytest.FixtureRequest) -> Iterator[StoreConfig]:
    """The daily run looks at SQLite: what is masked does not depend on the database."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_config")
    else:
        with request.getfixturevalue("postgres_server").database() as config:
            yield config


@pytest.fixture
def canaries(store_config: StoreConfig) -> Canaries:
    """A file has no password."""
    return Canaries(has_database_password=not store_config.is_sqlite)


@pytest.fixture
def surroundings(canaries: Canaries, store_config: StoreConfig, tmp_path: Path) -> dict[str, str]:
    """The environment of a process that holds secrets, and would tell everything of itself."""
    return {
        **canaries.environment,
        "DATABASE_URL": _with_password(store_config, canaries.database_password),
        "INTERLOCK_STATE_DIR": str(tmp_path / "state"),
        "WORKSPACE_DIR": str(tmp_path / "workspace"),
        "IMAGE_MODEL": "dall-e-3",
        "LOG_LEVEL": "debug",
    }


def _with_password(config: StoreConfig, password: str) -> str:
    """The suite's server believes everybody, so any password will do."""
    if config.is_sqlite:
        return config.url
    parts = urlsplit(config.url)
    netloc = f"{parts.username}:{quote(password, safe='')}@{parts.netloc.rpartition('@')[2]}"
    return urlunsplit(parts._replace(netloc=netloc))


@pytest.fixture
async def harness(
    canaries: Canaries, surroundings: dict[str, str], tmp_path: Path, monkeypatch, capsys
) -> AsyncIterator[CanaryHarness]:
    monkeypatch.setattr(progress, "PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(command_runner, "PROGRESS_SECONDS", 0.0)
    endpoint = await ImageServer(canaries.environment["IMAGE_API_KEY"]).start()
    for name, value in {**surroundings, "IMAGE_BASE_URL": endpoint.base_url}.items():
        monkeypatch.setenv(name, value)
    with (tmp_path / PROCESS_LOG).open("w") as process_log:
        monkeypatch.setattr(sys, "stderr", process_log)
        made = await CanaryHarness(canaries, tmp_path, endpoint, capsys).open()
        yield made
        await made.close()
    await endpoint.stop()
