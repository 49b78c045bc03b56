"""Attacks on files, backups and durability that once worked, and proofs that the disk is really asked."""

import os
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path

import orjson
import pytest

from interlock.core.errors import (
    SessionFenced,
    StatementRefused,
    StoreForeign,
    StoreLocked,
    UserError,
)
from interlock.db.backup_and_restore import create_backup, restore
from interlock.db.database import StoreConfig, open_database
from tests.escape.victim import faults, new_session, renamed
from tests.harness.store import open_store


def test_a_question_mark_does_not_lead_to_another_programs_database(tmp_path):
    other = tmp_path / "app.db"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE users (x)")
    database.close()
    before = other.read_bytes()
    open_database(StoreConfig(f"sqlite:///{other}?cache=shared")).close()
    assert other.read_bytes() == before


def test_something_that_is_not_a_file_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.db")
    with pytest.raises(StoreForeign, match="not a file"):
        open_database(StoreConfig(f"sqlite:///{tmp_path}/pipe.db"))


async def test_nobody_can_begin_to_use_a_store_while_it_is_replaced(sqlite_config, tmp_path):
    store = open_store(sqlite_config)
    await store.sessions.create(opened_by="test", session_id="old")
    create_backup(store.database, tmp_path / "b.zip")
    await store.sessions.create(opened_by="test", session_id="newer")
    store.close()
    hasty = StoreConfig(sqlite_config.url, busy_timeout_seconds=0.1)
    refused = []

    def check(_connection) -> None:
        with pytest.raises(StoreLocked, match="being restored"):
            open_store(hasty)
        with pytest.raises(StoreLocked, match="in use"):
            restore(hasty, tmp_path / "b.zip", replace_existing=True, check=lambda _c: None)
        refused.append(True)

    restore(sqlite_config, tmp_path / "b.zip", replace_existing=True, check=check)
    assert refused
    again = open_store(sqlite_config)
    assert again.query("SELECT id FROM sessions") == [("old",)]
    assert faults(again) == []
    again.close()


async def test_a_damaged_store_can_be_restored_over_and_is_kept(sqlite_config, tmp_path):
    store = open_store(sqlite_config)
    await store.sessions.create(opened_by="test", session_id="old")
    create_backup(store.database, tmp_path / "b.zip")
    store.close()
    content = bytearray(sqlite_config.path.read_bytes())
    content[100:4000] = b"\xff" * 3900
    sqlite_config.path.write_bytes(bytes(content))
    kept = restore(sqlite_config, tmp_path / "b.zip", replace_existing=True, check=lambda _c: None)
    assert kept.read_bytes() == bytes(content)
    again = open_store(sqlite_config)
    assert faults(again) == []
    again.close()


def test_another_programs_file_is_never_replaced(tmp_path, sqlite_config):
    database = open_database(sqlite_config)
    create_backup(database, tmp_path / "b.zip")
    database.close()
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as foreign:
        foreign.execute("CREATE TABLE users (x)")
    foreign.close()
    before = other.read_bytes()
    with pytest.raises(StoreForeign):
        restore(
            StoreConfig(f"sqlite:///{other}"),
            tmp_path / "b.zip",
            replace_existing=True,
            check=lambda _c: None,
        )
    assert other.read_bytes() == before


async def test_a_restore_ends_every_lease_and_meets_no_old_token_again(postgres_server, tmp_path):
    with postgres_server.database() as config:
        store = open_store(config)
        session = await new_session(store)
        create_backup(store.database, tmp_path / "b.zip")
        old = await store.leases.take(session, "old")
        restore(config, tmp_path / "b.zip", replace_existing=True, check=lambda _c: None)
        new = await store.leases.take(session, "new")
        assert new.token > old.token
        with pytest.raises(SessionFenced):
            await store.log.append(session, renamed(), token=old.token)
        with pytest.raises(SessionFenced):
            await store.leases.renew(old)
        store.close()


def hostile(source: Path, target: Path, member: str, change) -> Path:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, change(data) if name == member else data)
    return target


MANIFESTS = {
    "a list": lambda _data: b"[1]",
    "null": lambda _data: b"null",
    "no tables": lambda data: orjson.dumps(orjson.loads(data) | {"tables": {}}),
    "schema 0000": lambda data: orjson.dumps(orjson.loads(data) | {"schema": "0000"}),
    "schema -1": lambda data: orjson.dumps(orjson.loads(data) | {"schema": "-1"}),
    "odd columns": lambda data: data.replace(b'"title"', b'"title) --"'),
}


@pytest.mark.parametrize("what", MANIFESTS)
async def test_a_hostile_manifest_replaces_nothing(sqlite_store, tmp_path, what):
    await new_session(sqlite_store)
    create_backup(sqlite_store.database, tmp_path / "b.zip")
    bad = hostile(tmp_path / "b.zip", tmp_path / "bad.zip", "manifest.json", MANIFESTS[what])
    target = StoreConfig(f"sqlite:///{tmp_path}/new/interlock.db")
    with pytest.raises(UserError):
        restore(target, bad, replace_existing=False, check=lambda _c: None)
    assert not target.path.exists() or target.path.stat().st_size == 0


ROWS = {
    "a time that is text": lambda row: [*row[:4], "noon", *row[5:]],
    "a time beyond 64 bits": lambda row: [*row[:4], 2**80, *row[5:]],
    "a negative time": lambda row: [*row[:4], -1, *row[5:]],
    "an id that is a number": lambda row: [5, *row[1:]],
    "an id that is null": lambda row: [None, *row[1:]],
    "too few values": lambda row: row[:-1],
}


@pytest.mark.parametrize("what", ROWS)
async def test_rows_of_the_wrong_type_replace_nothing(sqlite_store, tmp_path, what):
    from hashlib import sha256

    await new_session(sqlite_store)
    create_backup(sqlite_store.database, tmp_path / "b.zip")
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        row = orjson.loads(archive.read("sessions.jsonl"))
    import json

    line = json.dumps(ROWS[what](row)).encode() + b"\n"
    bad = hostile(tmp_path / "b.zip", tmp_path / "one.zip", "sessions.jsonl", lambda _data: line)

    def fitting(data: bytes) -> bytes:
        manifest = orjson.loads(data)
        manifest["tables"]["sessions"]["sha256"] = sha256(line).hexdigest()
        return orjson.dumps(manifest)

    bad = hostile(bad, tmp_path / "two.zip", "manifest.json", fitting)
    target = StoreConfig(f"sqlite:///{tmp_path}/new/interlock.db")
    with pytest.raises(UserError):
        restore(target, bad, replace_existing=False, check=lambda _c: None)


async def test_an_endless_row_is_not_read_into_memory(sqlite_store, tmp_path, monkeypatch):
    monkeypatch.setattr("interlock.db.backup_and_restore.MAX_LINE_BYTES", 1_000_000)
    await new_session(sqlite_store)
    create_backup(sqlite_store.database, tmp_path / "b.zip")
    bad = hostile(
        tmp_path / "b.zip", tmp_path / "bomb.zip", "events.jsonl", lambda _data: b" " * 50_000_000
    )
    target = StoreConfig(f"sqlite:///{tmp_path}/new/interlock.db")
    with pytest.raises(UserError, match="incomplete row"):
        restore(target, bad, replace_existing=False, check=lambda _c: None)


@pytest.mark.full
def test_on_a_disk_that_takes_no_more_the_intent_fails_and_the_tool_does_not_run(tmp_path):
    """For any user, for real: the child's files may not grow beyond a limit the kernel enforces."""
    script = """
import asyncio, resource, signal, sys
from tests.harness.store import open_store
from tests.integration.test_bad_stores import call_through, config_at
from tests.harness.tools import DeclaredTool
from interlock.core.errors import AuditUnavailable
from pathlib import Path

async def main():
    store = open_store(config_at(Path(sys.argv[1]) / "state" / "interlock.db"))
    session = await store.sessions.create(opened_by="test")
    tool = DeclaredTool()
    await call_through(store, session.id, tool)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    size = max(path.stat().st_size for path in Path(sys.argv[1]).rglob("*"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    ran = tool.calls
    try:
        while True:
            ran = tool.calls
            await call_through(store, session.id, tool)
    except AuditUnavailable as error:
        print("refused", tool.calls - ran, type(error.__cause__).__name__)

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    _, ran, cause = done.stdout.splitlines()[-1].split()
    # Either the intent was refused (nothing ran) or the outcome was (then the intent is on disk).
    assert int(ran) in {0, 1}
    assert cause in {"StoreFull", "StoreUnavailable"}
    again = open_store(StoreConfig(f"sqlite:///{tmp_path}/state/interlock.db"))
    assert faults(again) == []
    again.close()


def test_durability_is_what_the_settings_say(sqlite_config):
    for name, level in (("full", 2), ("normal", 1)):
        connection = StoreConfig(sqlite_config.url, synchronous=name).connect()
        assert connection.query("PRAGMA synchronous") == [(level,)]
        assert connection.query("PRAGMA journal_mode") == [("wal",)]
        assert connection.query("PRAGMA secure_delete") == [(1,)]
        connection.close()
    assert StoreConfig(sqlite_config.url).synchronous == "full"


@pytest.mark.skipif(shutil.which("strace") is None, reason="counting system calls needs strace")
def test_every_acknowledged_event_was_synced_to_disk(tmp_path):
    script = """
import asyncio, sys
from tests.harness.store import open_store
from interlock.db.database import StoreConfig
from interlock.log.kinds import SessionRenamed

async def main():
    store = open_store(StoreConfig(f"sqlite:///{sys.argv[1]}/interlock.db"))
    session = await store.sessions.create(opened_by="test")
    for _ in range(20):
        await store.log.append(session.id, SessionRenamed(who="t", title="x"))

asyncio.run(main())
"""
    report = tmp_path / "strace.txt"
    command = [
        "strace",
        "-f",
        "-e",
        "trace=fdatasync,fsync",
        "-o",
        str(report),
        sys.executable,
        "-c",
        script,
    ]
    done = subprocess.run([*command, str(tmp_path)], cwd=Path(__file__).parents[2], capture_output=True)
    if b"ptrace" in done.stderr:
        pytest.skip("this machine does not allow tracing")
    assert done.returncode == 0, done.stderr
    assert report.read_text().count("sync(") >= 21


async def test_a_refused_statement_is_told_as_one(store):
    with pytest.raises(StatementRefused):
        await store.database.read(lambda db: db.query("SELECT nonsense"))
