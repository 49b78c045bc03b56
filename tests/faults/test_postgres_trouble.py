"""A PostgreSQL that hangs, lets nobody in or nothing be written; and workers whom nobody rings for."""

import asyncio
import os
import signal
import time
from contextlib import contextmanager, suppress

import psycopg
import pytest

from interlock.core.errors import StoreError, StoreUnavailable, StoreUnwritable, is_transient
from interlock.db.database import StoreConfig
from interlock.log.kinds import SessionRenamed
from interlock.runtime.bus import Bus
from interlock.runtime.task_handler import DoneOutcome
from tests.harness.store import open_store
from tests.harness.tasks import ScriptedHandler, TaskHarness, until


@pytest.fixture
def postgres(postgres_server):
    with postgres_server.database() as config:
        yield config


@contextmanager
def administrator(config: StoreConfig):
    with psycopg.connect(config.url, autocommit=True) as connection:
        yield connection


def backends(config: StoreConfig) -> list[int]:
    """The server's processes behind the product's connections to this database."""
    with administrator(config) as admin:
        rows = admin.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name = 'interlock'"
        ).fetchall()
    return [pid for (pid,) in rows]


def named(title: str) -> SessionRenamed:
    return SessionRenamed(who="test", title=title)


# -- nobody rings --


async def test_without_any_ring_work_is_found_and_cancelled_by_looking(store):
    harness = TaskHarness(store)
    sessions = [await harness.session() for _ in range(5)]
    began = asyncio.Event()

    async def handling(task, _lease, cancelled):
        if task.session_id == sessions[0]:
            began.set()
            await cancelled.wait()
        return DoneOutcome()

    # The workers hear of nothing.
    async with harness.working(ScriptedHandler(handling), bus=Bus()):
        tasks = [await harness.put(session) for session in sessions]
        ended = await harness.ended(*(task.id for task in tasks[1:]))
        assert {task.status.value for task in ended} == {"done"}
        await asyncio.wait_for(began.wait(), 30)
        await harness.tasks.cancel(tasks[0].id, who="ada")
        (stopped,) = await harness.ended(tasks[0].id)
        assert stopped.status.value == "cancelled"
    assert harness.faults() == []


# -- the server hangs --


async def test_a_server_that_hangs_costs_a_holder_its_session_in_time_and_nothing_is_lost(postgres):
    """The server's own processes are stopped: connections stay open, and no answer comes."""
    store = open_store(StoreConfig(postgres.url, busy_timeout_seconds=2))
    harness = TaskHarness(store, lease_seconds=2.0)
    session = await harness.session()
    begun, lost = asyncio.Event(), asyncio.Event()

    async def handling(task, lease, _cancelled):
        if task.attempts > 1:
            return DoneOutcome()
        begun.set()
        await lease.lost.wait()
        lost.set()
        return DoneOutcome()

    async with harness.working(ScriptedHandler(handling)):
        task = await harness.put(session)
        await begun.wait()
        stopped = backends(postgres)
        assert stopped
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            hung_at = time.monotonic()
            await asyncio.wait_for(lost.wait(), 30)
            assert time.monotonic() - hung_at < 20, "it believed for too long that the session was its own"
        finally:
            for pid in stopped:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        (ended,) = await harness.ended(task.id)
        assert ended.status.value == "done"
    assert harness.faults() == []
    store.close()


# -- nobody is let in --


async def test_a_server_without_a_connection_to_give_is_waited_for(postgres):
    store = open_store(postgres)
    session = await store.sessions.create(opened_by="test")
    with administrator(postgres) as admin:
        (name,) = admin.execute("SELECT current_database()").fetchone()
        admin.execute("CREATE ROLE limited LOGIN CONNECTION LIMIT 0")
        try:
            admin.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO limited")
            address = postgres.url.replace("postgresql://postgres:", "postgresql://limited:")
            with pytest.raises(StoreUnavailable) as raised:
                StoreConfig(address, busy_timeout_seconds=2).connect()
            assert is_transient(raised.value)
            assert "too many connections" in str(raised.value)
            assert "\n" not in str(raised.value)
        finally:
            admin.execute("DROP OWNED BY limited")
            admin.execute("DROP ROLE limited")
    assert name
    assert (await store.log.append(session.id, named("x")))[0].seq == 2
    store.close()


# -- nothing can be written: a standby after a failover --


async def test_a_server_that_became_read_only_is_waited_for_and_gone_on_with(postgres):
    store = open_store(postgres)
    harness = TaskHarness(store)
    session = await harness.session()
    with administrator(postgres) as admin:
        (name,) = admin.execute("SELECT current_database()").fetchone()
        admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        for pid in backends(postgres):
            admin.execute("SELECT pg_terminate_backend(%s)", (pid,))
    with pytest.raises(StoreUnwritable) as raised:
        await store.log.append(session, named("x"))
    assert is_transient(raised.value)
    assert "does not allow Interlock to write" in str(raised.value)
    assert (await harness.sessions.get(session)).id == session, "reading goes on"
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        admin.execute("SET default_transaction_read_only = off")
        admin.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        for pid in backends(postgres):
            admin.execute("SELECT pg_terminate_backend(%s)", (pid,))

    async def written():
        with suppress(StoreError):
            return await store.log.append(session, named("y"))

    assert (await until(written))[0].seq == 2
    assert harness.faults() == []
    store.close()


# -- many at one row --


async def test_a_storm_on_one_stream_writes_each_event_once(postgres):
    """Processes of their own, as it were: each has its writer, and all append to one session."""
    stores = [open_store(postgres) for _ in range(4)]
    session = await stores[0].sessions.create(opened_by="test")

    async def storm(number: int) -> list[int]:
        seqs = []
        for each in range(25):
            recorded = await stores[number].log.append(session.id, named(f"{number} {each}"))
            seqs.append(recorded[0].seq)
        return seqs

    seqs = [seq for part in await asyncio.gather(*map(storm, range(4))) for seq in part]
    assert sorted(seqs) == list(range(2, 102))
    assert TaskHarness(stores[0]).faults() == []
    for store in stores:
        store.close()
