"""Migrations, the same on both databases: in historical steps, all or nothing, after a copy."""

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from interlock.config.modes import ToolMode
from interlock.core.errors import StatementRefused, StoreConflict
from interlock.db import upgrade as upgrading
from interlock.db.database import SCHEMA_REVISION, StoreConfig, open_database, stored_revision
from interlock.db.driver import DbConnection
from interlock.db.schema import FOLDER, STEPS, TableColumn, create_tables, read_tables
from interlock.db.upgrade import upgrade
from tests.harness.store import open_store

FAILS_AT_THE_END = """
CREATE TRIGGER stop BEFORE UPDATE ON alembic_version BEGIN SELECT RAISE(ABORT, 'no new version'); END
"""
NEW_SESSION = "INSERT INTO sessions (id, kind, title, opened_by, created_us)"
REVISIONS = [step[:4] for step in STEPS]


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request, tmp_path) -> StoreConfig:
    if request.param == "sqlite":
        return StoreConfig(f"sqlite:///{tmp_path}/state/interlock.db", busy_timeout_seconds=5)
    return request.getfixturevalue("empty_postgres")


def run(config: StoreConfig, sql: str, *parameters: object) -> None:
    connection = config.connect()
    connection.change(sql, parameters)
    connection.close()


def tables_of(config: StoreConfig) -> dict[str, list[TableColumn]]:
    connection = config.connect()
    tables = read_tables(connection)
    connection.close()
    return tables


def definitions(config: StoreConfig) -> set[tuple[str, ...]]:
    """SQLite: of everything but Alembic's own table."""
    with closing(sqlite3.connect(config.path)) as store:
        return set(
            store.execute("SELECT type, name, sql FROM sqlite_schema WHERE tbl_name != 'alembic_version'")
        )


def test_every_step_has_its_sql_and_its_revision():
    scripts = ScriptDirectory(str(FOLDER.parent))
    modules = [Path(script.path).stem for script in scripts.walk_revisions()]
    assert modules[::-1] == STEPS
    assert scripts.get_heads() == [SCHEMA_REVISION]


def test_both_databases_have_the_same_tables(sqlite_config, empty_postgres):
    upgrade(empty_postgres)
    sqlite, postgres = tables_of(sqlite_config), tables_of(empty_postgres)
    del sqlite["alembic_version"], postgres["alembic_version"]
    assert sqlite == postgres


def test_the_steps_lead_to_what_a_new_store_is(empty, request, tmp_path):
    """A new store is made without Alembic, which runs each step of an older one."""
    for revision in REVISIONS:
        assert upgrade(empty, revision) == revision
    if empty.is_sqlite:
        new = StoreConfig(f"sqlite:///{tmp_path}/new/interlock.db")
        upgrade(new)
        assert definitions(empty) == definitions(new)
        assert tables_of(empty) == tables_of(new)
    else:
        with request.getfixturevalue("postgres_server").database() as new:
            assert tables_of(empty) == tables_of(new)


async def test_sessions_from_before_modes_become_chat_safe(empty):
    """S0-5.1.2, S0-8.1.12: rows that existed before the column."""
    assert upgrade(empty, "0001") == "0001"
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
    run(config, FAILS_AT_THE_END)
    with pytest.raises(StoreConflict, match="no new version"):
        upgrade(config)
    assert stored_revision(config) == "0001"
    connection = config.connect()
    assert "mode" not in [row[1] for row in connection.query("PRAGMA table_info(sessions)")]
    connection.close()


@pytest.mark.parametrize(("before", "step"), [(None, "_create"), ("0001", "_run")])
def test_those_that_start_together_do_it_once(empty, monkeypatch, before, step):
    if before is not None:
        upgrade(empty, before)
    runs: list[str] = []
    run_steps = getattr(upgrading, step)

    def counted(config: StoreConfig, revision: str) -> None:
        runs.append(revision)
        run_steps(config, revision)

    monkeypatch.setattr(upgrading, step, counted)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: upgrade(empty), range(4))) == [SCHEMA_REVISION] * 4
    assert runs == [SCHEMA_REVISION]


def test_a_store_that_is_half_made_is_not_there(empty, monkeypatch):
    monkeypatch.setattr(upgrading, "create_tables", half_made)
    with pytest.raises(StatementRefused):
        upgrade(empty)
    assert stored_revision(empty) is None
    monkeypatch.undo()
    assert upgrade(empty) == SCHEMA_REVISION


def half_made(connection: DbConnection, revision: str) -> None:
    create_tables(connection, revision)
    connection.change("INSERT INTO nowhere VALUES (1)")


def test_each_store_has_a_name_of_its_own(empty, tmp_path):
    names = set()
    for config in (empty, StoreConfig(f"sqlite:///{tmp_path}/another/interlock.db")):
        upgrade(config)
        connection = config.connect()
        names.update(connection.query("SELECT value FROM store_info WHERE key = 'store_id'"))
        connection.close()
    assert len(names) == 2
    assert all(len(name) == 32 for (name,) in names)


@pytest.mark.parametrize("exists", [True, False])
def test_a_start_needs_no_libraries_of_an_upgrade(tmp_path, exists):
    """They are a third of a first start, and of its memory."""
    config = StoreConfig(f"sqlite:///{tmp_path}/state/interlock.db")
    if exists:
        upgrade(config)
    code = (
        "import sys; from interlock.db.database import StoreConfig, open_database;"
        f"open_database(StoreConfig({config.url!r})).close();"
        "print([m for m in ('sqlalchemy', 'alembic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
