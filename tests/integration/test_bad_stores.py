"""Stores that cannot be used: each is one sentence, and nothing about them is changed."""

import asyncio
import hashlib
import os
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import (
    AuditUnavailable,
    StoreCorrupt,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreLocked,
    StoreTooNew,
    StoreUnavailable,
    StoreUnwritable,
    is_transient,
)
from interlock.db.database import StoreConfig, open_database
from interlock.gates.gate import ToolCall
from interlock.gates.runner import ToolRunner
from interlock.log.kinds import SessionRenamed
from interlock.log.stream_appender import NO_SCOPE
from interlock.policy.authority import compile_authority
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.redaction.redactor import Redactor
from interlock.tools.registry import ToolRegistry
from interlock.tools.tool import ToolContext
from tests.harness.store import open_store
from tests.harness.tools import DeclaredTool


def _can_mount() -> bool:
    """Root in a container often may not; the test with a limit on file sizes stands in there."""
    with tempfile.TemporaryDirectory() as folder:
        if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True).returncode:
            return False
        subprocess.run(["umount", folder], check=True)
        return True


END_ALL = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""

root_only = pytest.mark.skipif(not _can_mount(), reason="this user may not mount a file system")


def config_at(path: Path) -> StoreConfig:
    return StoreConfig(f"sqlite:///{path}", busy_timeout_seconds=0.3)


def fingerprint(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def refused(path: Path, error: type[Exception]) -> str:
    before = fingerprint(path)
    with pytest.raises(error) as raised:
        open_database(config_at(path))
    assert fingerprint(path) == before
    assert "\n" not in str(raised.value)
    assert str(path) in str(raised.value)
    return str(raised.value)


def test_a_file_that_is_no_database_is_left_untouched(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("my shopping list\n" * 500)
    assert "not an Interlock database" in refused(path, StoreForeign)


def test_another_programs_database_is_left_untouched(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE precious (x)")
    other.close()
    assert "another program's" in refused(path, StoreForeign)
    assert not list(tmp_path.glob("other.db-*"))


@pytest.mark.parametrize("revision", ["9999", "0015"], ids=["of the future", "of 0.1"])
def test_a_schema_of_another_version_is_left_untouched(sqlite_config, revision):
    with sqlite3.connect(sqlite_config.path) as newer:
        newer.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    newer.close()
    sentence = refused(sqlite_config.path, StoreTooNew)
    assert revision in sentence
    assert "newer Interlock, or by 0.1" in sentence


def test_a_schema_nobody_knows_is_left_untouched(sqlite_config):
    with sqlite3.connect(sqlite_config.path) as odd:
        odd.execute("UPDATE alembic_version SET version_num = 'abcdef'")
    odd.close()
    assert "unknown schema" in refused(sqlite_config.path, StoreForeign)


def test_a_damaged_database_is_said_to_be_damaged(sqlite_config):
    content = bytearray(sqlite_config.path.read_bytes())
    content[100:4000] = os.urandom(3900)
    sqlite_config.path.write_bytes(bytes(content))
    assert "is damaged; restore a backup" in refused(sqlite_config.path, StoreCorrupt)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (1, "not an Interlock database"),
        (15, "not an Interlock database"),
        (16, "not an Interlock database"),
        (50, "is damaged; restore a backup"),
        (99, "is damaged; restore a backup"),
    ],
)
def test_a_database_cut_short_is_refused(sqlite_config, size, said):
    sqlite_config.path.write_bytes(sqlite_config.path.read_bytes()[:size])
    assert said in refused(sqlite_config.path, StoreError)


async def test_a_locked_database_is_waited_for_and_then_said_to_be_locked(sqlite_config):
    store = open_store(StoreConfig(sqlite_config.url, busy_timeout_seconds=0.3))
    session = await store.sessions.create(opened_by="test")
    other = sqlite3.connect(sqlite_config.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreLocked, match="locked by another process"):
        await store.log.append(session.id, SessionRenamed(who="t", title="x"))
    other.execute("ROLLBACK")
    other.close()
    recorded = await store.log.append(session.id, SessionRenamed(who="t", title="x"))
    assert recorded[0].seq == 2
    store.close()


@root_only
def test_a_state_folder_that_cannot_be_written_is_said_so(tmp_path):
    folder = mounted(tmp_path, "ro,size=1m")
    with pytest.raises(StoreUnwritable, match="not writable"):
        open_database(config_at(folder / "interlock.db"))
    with pytest.raises(StoreUnwritable, match="cannot be created"):
        open_database(config_at(folder / "deeper" / "interlock.db"))
    subprocess.run(["umount", folder], check=True)


def test_a_state_folder_that_is_a_file_is_said_so(tmp_path):
    (tmp_path / "state").write_text("")
    with pytest.raises(StoreUnwritable, match="cannot be created"):
        open_database(config_at(tmp_path / "state" / "interlock.db"))


# -- if an intent cannot be written, the tool does not run (for real) --


def mounted(tmp_path: Path, options: str) -> Path:
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    return folder


def fill(folder: Path) -> None:
    filler = os.open(folder / "filler", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    with pytest.raises(OSError, match="No space left"):
        while True:
            os.write(filler, b"x" * 4096)
    os.close(filler)


async def call_through(store, session_id: str, tool: DeclaredTool) -> None:
    registry = ToolRegistry()
    registry.register(tool)
    authority = compile_authority(registry, AuthorityInputs(mode=ToolMode.chat_safe))
    runner = ToolRunner(registry, store.log, Redactor())
    await runner.call(ToolCall("c", tool.name, "{}"), authority, ToolContext(session_id))


@root_only
async def test_on_a_full_disk_no_tool_runs_and_nothing_is_damaged(tmp_path):
    from interlock.wiring.projections import verify

    folder = mounted(tmp_path, "size=8m")
    store = open_store(config_at(folder / "state" / "interlock.db"))
    try:
        session = await store.sessions.create(opened_by="test")
        tool = DeclaredTool()
        await call_through(store, session.id, tool)
        fill(folder)
        with pytest.raises(AuditUnavailable) as raised:
            for _ in range(100):
                await call_through(store, session.id, tool)
        assert isinstance(raised.value.__cause__, StoreFull)
        # Giving its connection up, SQLite may have folded its write-ahead file back in, and so freed some.
        fill(folder)
        ran = tool.calls
        with pytest.raises(AuditUnavailable):
            await call_through(store, session.id, tool)
        assert tool.calls == ran
        (folder / "filler").unlink()
        await call_through(store, session.id, tool)
        assert tool.calls == ran + 1
        with store.database.reading() as connection:
            assert verify(connection).ok
        started = store.query("SELECT count(*) FROM events WHERE kind = 'tool_call.started'")[0][0]
        assert started >= tool.calls
    finally:
        store.close()
        subprocess.run(["umount", folder], check=True)


async def test_on_a_read_only_store_no_tool_runs(sqlite_config):
    store = open_store(sqlite_config)
    session = await store.sessions.create(opened_by="test")
    store.log.close()
    read_only = open_store(sqlite_config)

    def connect():
        connection = sqlite_config.connect()
        connection.query("PRAGMA query_only = ON")
        return connection

    read_only.log._writer._connect = connect
    tool = DeclaredTool()
    with pytest.raises(AuditUnavailable) as raised:
        await call_through(read_only, session.id, tool)
    assert isinstance(raised.value.__cause__, StoreUnwritable)
    assert tool.calls == 0
    read_only.close()
    store.database.close()


# -- PostgreSQL --


def test_a_postgres_that_is_not_there_is_one_sentence():
    config = StoreConfig("postgresql://nobody@127.0.0.1:1/none", busy_timeout_seconds=1)
    with pytest.raises(StoreError, match=r"PostgreSQL: .*refused") as raised:
        open_database(config)
    assert "\n" not in str(raised.value)


def test_an_empty_postgres_asks_to_be_upgraded(empty_postgres):
    with pytest.raises(StoreError, match="interlock db upgrade"):
        open_database(empty_postgres)


def test_a_foreign_postgres_is_left_untouched(empty_postgres):
    connection = empty_postgres.connect()
    connection.change("CREATE TABLE precious (x int)")
    connection.close()
    with pytest.raises(StoreForeign, match="another program's"):
        open_database(empty_postgres)


async def test_a_postgres_connection_that_is_lost_is_replaced_unnoticed(postgres_server):
    import psycopg

    with postgres_server.database() as config:
        store = open_store(config)
        session = await store.sessions.create(opened_by="test")
        await asyncio.gather(*(store.sessions.get(session.id) for _ in range(8)))
        with psycopg.connect(config.url, autocommit=True) as admin:
            admin.execute(END_ALL)
        recorded = await store.log.append(session.id, SessionRenamed(who="t", title="x"))
        assert recorded[0].seq == 2
        assert (await store.sessions.get(session.id)).id == session.id
        store.close()


async def test_a_connection_that_is_lost_in_a_transaction_is_told(postgres_server):
    """Nobody can know whether it was committed: whoever asked decides."""
    import psycopg

    with postgres_server.database() as config:
        store = open_store(config)
        session = await store.sessions.create(opened_by="test")

        def work(transaction):
            transaction.next_seq()
            with psycopg.connect(config.url, autocommit=True) as admin:
                admin.execute(END_ALL)
            transaction.record(SessionRenamed(who="t", title="lost"), NO_SCOPE)

        with pytest.raises(StoreUnavailable, match="PostgreSQL") as raised:
            await store.log.transact(session.id, work)
        assert is_transient(raised.value)
        with pytest.raises(StoreUnavailable):
            await store.database.read(lambda db: [_ended(config, db)])
        assert (await store.sessions.get(session.id)).id == session.id
        recorded = await store.log.append(session.id, SessionRenamed(who="t", title="y"))
        assert recorded[0].seq == 2, "what was under way when the connection was lost was not written"
        store.close()


def _ended(config, connection):
    import psycopg

    with psycopg.connect(config.url, autocommit=True) as admin:
        admin.execute(END_ALL)
    return connection.query("SELECT 1")
