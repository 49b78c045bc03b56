"""Store, log and sessions above one database, SQLite or PostgreSQL, without the rest of the runtime."""

import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from interlock.config.modes import ToolMode
from interlock.db.database import Database, StoreConfig, open_database
from interlock.db.leases import Leases
from interlock.log.kinds import LogErased
from interlock.log.writer import EventLog
from interlock.questions.service import QuestionService
from interlock.redaction.redactor import Redactor
from interlock.runtime.bus import Bus
from interlock.runtime.tasks import TaskService
from interlock.sessions.erasure import SessionEraser
from interlock.sessions.manager import SessionManager
from interlock.sessions.mode_switch import ModeSwitch
from interlock.sessions.runtime_settings import SettingsStore
from interlock.wiring.projections import ERASE_SESSION, PROJECTIONS


@dataclass
class StoreHarness:
    """The parts above one database, wired as the product wires them."""

    config: StoreConfig
    database: Database
    log: EventLog
    sessions: SessionManager
    leases: Leases
    settings: SettingsStore

    def manager(self, *open_modes: ToolMode) -> SessionManager:
        return SessionManager(
            self.database,
            self.log,
            Redactor(),
            default_mode=ToolMode.chat_safe,
            open_modes=frozenset(open_modes),
        )

    def tasks(self) -> TaskService:
        questions = QuestionService(self.database, self.log, Redactor(), lambda _session_id: None)
        parts = (self.database, self.log, Redactor(), self.sessions, questions, Bus())
        return TaskService(*parts, queue_limit=100)

    async def delete(self, session_id: str, *, who: str = "test") -> None:
        await self.tasks().delete_session(session_id, who=who)

    async def erase(self, session_id: str, *, who: str = "operator") -> LogErased:
        eraser = SessionEraser(self.database, self.log, statements=ERASE_SESSION)
        return await eraser.erase(session_id, who=who)

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


def open_store(config: StoreConfig, redactor: Redactor | None = None) -> StoreHarness:
    database = open_database(config)
    redactor = redactor or Redactor()
    log = EventLog(database, redactor, PROJECTIONS)
    sessions = SessionManager(
        database,
        log,
        redactor,
        default_mode=ToolMode.chat_safe,
        open_modes=frozenset({ToolMode.chat_safe}),
    )
    return StoreHarness(
        config,
        database,
        log,
        sessions,
        Leases(log, seconds=30),
        SettingsStore(database, log, redactor),
    )


def copy_store(template: Path, folder: Path) -> StoreConfig:
    """A copy of an upgraded, empty SQLite store, with an id of its own."""
    folder.mkdir(mode=0o700)
    shutil.copy(template, folder / "interlock.db")
    config = StoreConfig(f"sqlite:///{folder}/interlock.db", busy_timeout_seconds=5)
    connection = config.connect()
    connection.change("UPDATE store_info SET value = ? WHERE key = 'store_id'", (secrets.token_hex(16),))
    connection.close()
    return config
