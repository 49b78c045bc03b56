"""Migrations, the same on both databases: in historical steps, all or nothing, after a copy."""

import sqlite3
import threading

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from interlock.config.modes import ToolMode
from interlock.db import upgrade as upgrading
from interlock.db.database import SCHEMA_REVISION, StoreConfig, open_database, stored_revision
from interlock.db.tables import metadata
from interlock.db.upgrade import alembic_config, engine_for, upgrade
from tests.harness.store import open_store

NEW_SESSION = "INSERT INTO sessions (id, kind, title, opened_by, created_us)"
REVISIONS = [f"{number:04}" for number in range(1, 16)]


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request, tmp_path) -> StoreConfig:
    if request.param == "sqlite":
        return StoreConfig(f"sqlite:///{tmp_path}/state/interlock.db", busy_timeout_seconds=5)
    return request.getfixturevalue("empty_postgres")


def run(config: StoreConfig, sql: str, *parameters: object) -> None:
    connection = config.connect()
    connection.change(sql, parameters)
    connection.close()


def test_the_program_knows_its_newest_step():
    scripts = ScriptDirectory.from_config(alembic_config())
    assert scripts.get_heads() == [SCHEMA_REVISION]
    assert [step.revision for step in reversed(list(scripts.walk_revisions()))] == REVISIONS


def test_the_steps_lead_exactly_to_the_schema(empty):
    upgrade(empty)
    engine = engine_for(empty)
    with engine.connect() as connection:
        # Only PostgreSQL needs this index; elsewhere the rows' own order serves.
        leave_out = {"events_txid_position"} if empty.is_sqlite else set()
        # Each database has its own kind of word index, of which SQLAlchemy knows nothing.
        options = {
            "compare_type": True,
            "include_name": lambda name, *_: (
                name not in leave_out and not (name or "").startswith("memory_fts")
            ),
        }
        options["include_object"] = lambda _object, name, *_: name not in leave_out
        context = MigrationContext.configure(connection, opts=options)
        differences = compare_metadata(context, metadata)
    engine.dispose()
    assert differences == []


def test_each_step_can_be_stopped_at_and_gone_on_from(empty):
    for revision in REVISIONS:
        assert upgrade(empty, revision) == revision
    assert upgrade(empty) == SCHEMA_REVISION


async def test_sessions_from_before_modes_become_chat_safe(empty):
    """S0-5.1.2, S0-8.1.12: rows that existed before the column."""
    upgrade(empty, "0001")
    for number in range(3):
        run(
            empty,
            f"{NEW_SESSION} VALUES (?, 'chat', 'old', 'x', 1)",
            f"old{number}",
        )
        run(
            empty,
            "INSERT INTO stream_heads (stream, seq, hash, time_us) VALUES (?, 0, ?, 1)",
            f"old{number}",
            b"0",
        )
    upgrade(empty)
    store = open_store(empty)
    assert store.query("SELECT mode FROM sessions") == [("chat_safe",)] * 3
    for number in range(3):
        assert await store.sessions.get_mode(f"old{number}") is ToolMode.chat_safe
    opened = store.manager(ToolMode.coding)
    assert await opened.get_mode("old0") is ToolMode.chat_safe
    store.close()


def test_a_mode_can_never_be_null(empty):
    upgrade(empty)
    connection = empty.connect()
    columns = "id, kind, title, opened_by, created_us, mode"
    insert = f"INSERT INTO sessions ({columns}) VALUES ('a', 'c', '', '', 1, ?)"
    with pytest.raises(Exception, match=r"(?i)null"):
        connection.change(insert, (None,))
    connection.close()


def test_the_embedded_store_copies_itself_before_an_upgrade(tmp_path):
    config = StoreConfig(f"sqlite:///{tmp_path}/state/interlock.db")
    upgrade(config, "0001")
    run(
        config,
        f"{NEW_SESSION} VALUES ('a', 'chat', 'kept', 'x', 1)",
    )
    open_database(config).close()
    assert stored_revision(config) == SCHEMA_REVISION
    (copy,) = (tmp_path / "state" / "backups").glob("*.db")
    assert "schema0001" in copy.name
    assert copy.stat().st_mode & 0o077 == 0
    with sqlite3.connect(copy) as old:
        assert old.execute("SELECT title FROM sessions").fetchall() == [("kept",)]
        assert "mode" not in [row[1] for row in old.execute("PRAGMA table_info(sessions)")]
    old.close()


def test_copies_do_not_pile_up(tmp_path, monkeypatch):
    config = StoreConfig(f"sqlite:///{tmp_path}/state/interlock.db")
    upgrade(config)
    for number in range(upgrading.KEPT_COPIES + 3):
        monkeypatch.setattr(upgrading.time, "strftime", lambda *_, n=number: f"2026{n:04}T000000Z")
        upgrading._keep_copy(config, "0001")
    kept = sorted(path.name for path in (tmp_path / "state" / "backups").glob("*.db"))
    assert len(kept) == upgrading.KEPT_COPIES
    assert "20260007" in kept[-1]


def test_a_step_that_fails_leaves_the_store_as_it_was(tmp_path):
    config = StoreConfig(f"sqlite:///{tmp_path}/state/interlock.db")
    upgrade(config, "0001")
    run(config, "CREATE TABLE settings_versions (x TEXT)")
    with pytest.raises(Exception, match="already exists"):
        upgrade(config)
    assert stored_revision(config) == "0001"
    connection = config.connect()
    assert "mode" not in [row[1] for row in connection.query("PRAGMA table_info(sessions)")]
    connection.close()


def test_two_that_start_together_upgrade_once(empty, monkeypatch):
    errors: list[Exception] = []
    runs: list[str] = []
    run_steps = upgrading._run

    def counted(config: StoreConfig, revision: str) -> None:
        runs.append(revision)
        run_steps(config, revision)

    monkeypatch.setattr(upgrading, "_run", counted)

    def start() -> None:
        try:
            upgrade(empty)
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert runs == ["head"]
    assert stored_revision(empty) == SCHEMA_REVISION


def test_sqlalchemy_is_only_needed_to_upgrade(sqlite_config):
    """A start on an up-to-date store loads neither SQLAlchemy nor Alembic: they cost more than the rest."""
    import subprocess
    import sys

    code = (
        "import sys; from interlock.db.database import StoreConfig, open_database;"
        f"open_database(StoreConfig({sqlite_config.url!r})).close();"
        "print([m for m in ('sqlalchemy', 'alembic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert sqlalchemy.__version__
