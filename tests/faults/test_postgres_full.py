"""A disk of PostgreSQL runs full: nothing that was acknowledged is lost, tasks wait, and they go on by
themselves when there is space again. Without space for its tables it refuses to write; without space for
its write-ahead log it ends, and somebody has to start it again."""

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from interlock.core.errors import StoreError, StoreFull, StoreUnavailable, is_transient
from interlock.db.database import StoreConfig
from interlock.log.kinds import SessionRenamed
from interlock.runtime.task_handler import DoneOutcome
from tests.faults.disks import Disk, mounting, small_disk
from tests.harness.external_services import PostgresServer
from tests.harness.store import open_store
from tests.harness.tasks import ScriptedHandler, TaskHarness, until

pytestmark = mounting


@contextmanager
def _on_small_disk(address: str) -> Iterator[tuple[StoreConfig, Disk]]:
    name = f"small_{secrets.token_hex(6)}"
    # Not in pytest's folder: the server runs under an account of its own.
    folder = Path(tempfile.mkdtemp(prefix="interlock-small-pg-"))
    folder.chmod(0o755)
    with (
        small_disk(folder / "disk", size="48m", inodes=5000) as disk,
        psycopg.connect(address, autocommit=True) as admin,
    ):
        tables = disk.path / "tables"
        tables.mkdir(mode=0o700)
        shutil.chown(tables, _account_of(admin))
        try:
            admin.execute(f"CREATE TABLESPACE {name} LOCATION '{tables}'")
            admin.execute(f"CREATE DATABASE {name} TEMPLATE interlock_template TABLESPACE {name}")
            url = address.replace("/postgres?", f"/{name}?")
            yield StoreConfig(url, busy_timeout_seconds=5), disk
        finally:
            admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            admin.execute(f"DROP TABLESPACE IF EXISTS {name}")
    shutil.rmtree(folder, ignore_errors=True)


def _account_of(admin: psycopg.Connection) -> int:
    (row,) = admin.execute("SELECT pg_backend_pid()").fetchall()
    return Path(f"/proc/{row[0]}").stat().st_uid


@pytest.fixture
def small(postgres_server: PostgresServer) -> Iterator[tuple[StoreConfig, Disk]]:
    with _on_small_disk(postgres_server.address) as made:
        yield made


def _renamed(number: int) -> SessionRenamed:
    return SessionRenamed(who="test", title=f"{number} " + "x" * 2000)


async def _until_full(store, session_id: str) -> tuple[list, StoreError]:
    """What was acknowledged, and what was said when there was no space left."""
    acknowledged = []
    for number in range(3000):
        try:
            acknowledged += await store.log.append(session_id, _renamed(number))
        except StoreError as error:
            return acknowledged, error
    raise AssertionError("the disk never became full")


async def test_what_was_acknowledged_before_the_servers_disk_was_full_is_there_afterwards(small):
    config, disk = small
    store = open_store(config)
    session = await store.sessions.create(opened_by="test")
    disk.fill(leaving=300_000)
    acknowledged, refusal = await _until_full(store, session.id)
    assert acknowledged, "the disk was full from the start"
    assert isinstance(refusal, StoreFull)
    assert is_transient(refusal)
    assert "no space left" in str(refusal)
    assert "\n" not in str(refusal)
    assert (await store.sessions.get(session.id)).id == session.id, "reading goes on"
    disk.free()
    after = (await store.log.append(session.id, _renamed(9999)))[0]
    assert after.seq == acknowledged[-1].seq + 1, "no hole, and nothing unacknowledged"
    stored = dict(store.query("SELECT id, seq FROM events WHERE stream = ?", session.id))
    assert all(stored[each.id] == each.seq for each in acknowledged)
    assert TaskHarness(store).faults() == []
    store.close()


async def test_a_task_waits_for_space_on_the_servers_disk_and_goes_on_by_itself(small):
    config, disk = small
    store = open_store(config)
    harness = TaskHarness(store)
    session, other = await harness.session(), await harness.session()
    begun, full, met = asyncio.Event(), asyncio.Event(), []

    async def handling(task, lease, _cancelled):
        begun.set()
        await full.wait()
        try:
            for number in range(20):
                await store.log.append(session, _renamed(number), token=lease.token)
        except StoreFull as error:
            met.append(error)
            if len(met) == 1:
                asyncio.get_running_loop().call_later(0.5, disk.free)
            raise
        return DoneOutcome()

    async with harness.working(ScriptedHandler(handling)):
        task = await harness.put(session)
        await begun.wait()
        disk.fill()
        await _until_full(store, other)
        full.set()
        (ended,) = await harness.ended(task.id)
    assert met, "it never met the full disk"
    assert (ended.status.value, ended.interruptions) == ("done", 0)
    assert harness.faults() == []
    with suppress(FileNotFoundError):
        disk.free()
    store.close()


@pytest.fixture
def elsewhere() -> Iterator[tuple[PostgresServer, Disk]]:
    """A server that keeps its write-ahead log on a small disk."""
    server = PostgresServer()
    folder = Path(tempfile.mkdtemp(prefix="interlock-small-wal-"))
    folder.chmod(0o755)
    try:
        with small_disk(folder / "disk", size="48m", inodes=500) as disk:
            server.keep_write_ahead_log_in(disk.path / "wal")
            yield server, disk
            server.remove()
    finally:
        server.remove()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.full
async def test_a_task_waits_for_a_server_that_ended_for_want_of_space_and_goes_on_by_itself(elsewhere):
    server, disk = elsewhere
    store = open_store(StoreConfig(server.url, busy_timeout_seconds=5))
    harness = TaskHarness(store)
    session = await harness.session()
    acknowledged, met = [], []

    async def handling(task, lease, _cancelled):
        try:
            for _ in range(2_000):
                # Nothing that the server could make smaller.
                renamed = SessionRenamed(who="test", title=secrets.token_hex(25_000))
                acknowledged.extend(await store.log.append(session, renamed, token=lease.token))
                if met:
                    return DoneOutcome()
        except StoreError as error:
            met.append(error)
            raise

    async with harness.working(ScriptedHandler(handling)):
        disk.fill()
        task = await harness.put(session)
        await until(lambda: met and not server.is_there)
        disk.free()
        server.restart()
        (ended,) = await harness.ended(task.id)
    assert all(isinstance(error, StoreUnavailable | StoreFull) and is_transient(error) for error in met), (
        met
    )
    assert ended.status.value == "done"
    stored = dict(store.query("SELECT id, seq FROM events WHERE stream = ?", session))
    assert all(stored[each.id] == each.seq for each in acknowledged)
    assert harness.faults() == []
    store.close()
