"""Real parts for every test: a SQLite file of its own, and a real PostgreSQL started once."""

import gc
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import hypothesis
import pytest

from interlock.config.settings_report import OWN_PREFIXES
from interlock.db.database import StoreConfig, open_database
from tests.harness.external_services import PostgresServer
from tests.harness.log_capture import reset_logging
from tests.harness.store import StoreHarness, copy_store, open_store

# `make test` gives the same verdict twice; `make test-full` looks further, and elsewhere each time.
hypothesis.settings.register_profile("test", deadline=None, derandomize=True)
hypothesis.settings.register_profile("full", deadline=None, max_examples=3000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))

# A shell that starts the tests in the background has them ignore Ctrl-C, and every child with them; but
# what children do when it comes is what some tests are about.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What was collected stays to the end. Looking through it for garbage took a second, in any test."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No test sees the developer's settings or state, nor leaves its own log configuration behind."""
    for name in list(os.environ):
        if name.startswith((*OWN_PREFIXES, "OPENAI_", "IMAGE_", "WORKSPACE_", "MODEL", "LOG_LEVEL")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg-state"))
    yield
    reset_logging()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    server = PostgresServer(durable=False)
    yield server
    server.remove()


@pytest.fixture
def empty_postgres(postgres_server: PostgresServer) -> Iterator[StoreConfig]:
    with postgres_server.database(template=None) as config:
        yield config


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An upgraded, empty store to copy: to upgrade one for every test costs a fifth of a second each."""
    path = tmp_path_factory.mktemp("template") / "interlock.db"
    open_database(StoreConfig(f"sqlite:///{path}")).close()
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def store_config(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreConfig]:
    """An upgraded, empty store on each database in turn."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_config")
    else:
        with request.getfixturevalue("postgres_server").database() as config:
            yield config


@pytest.fixture
def sqlite_config(tmp_path: Path, sqlite_template: Path) -> StoreConfig:
    return copy_store(sqlite_template, tmp_path / "state")


@pytest.fixture
async def store(store_config: StoreConfig) -> AsyncIterator[StoreHarness]:
    """The same test on SQLite and on PostgreSQL."""
    opened = open_store(store_config)
    yield opened
    opened.close()


@pytest.fixture
async def sqlite_store(sqlite_config: StoreConfig) -> AsyncIterator[StoreHarness]:
    opened = open_store(sqlite_config)
    yield opened
    opened.close()
