"""Checkpoints that nobody asks for, on both databases."""

import asyncio
import shutil
from contextlib import asynccontextmanager, closing, suppress

import pytest

from interlock.log.checkpoint import CheckpointInterval
from interlock.log.signing import SigningKeyStore
from interlock.runtime import checkpointer
from interlock.runtime.anchor_sender import AnchorSender
from interlock.runtime.checkpointer import Checkpointer
from interlock.wiring.projections import verify
from tests.escape.victim import new_session, renamed
from tests.harness.log_capture import capture_logs
from tests.harness.store import StoreHarness, open_store
from tests.harness.tasks import until

HOUR = 3600.0


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    monkeypatch.setattr(checkpointer, "LOOK_SECONDS", 0.01)


def open_checkpointer(store: StoreHarness, folder, *, events=1000, seconds=HOUR) -> Checkpointer:
    interval = CheckpointInterval(events, seconds)
    return Checkpointer(store.database, store.log, SigningKeyStore(folder), interval)


@asynccontextmanager
async def running(*loops: Checkpointer | AnchorSender):
    tasks = [asyncio.create_task(each.run()) for each in loops]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def checkpoints(store: StoreHarness) -> int:
    return store.query("SELECT count(*) FROM events WHERE kind = 'log.checkpoint'")[0][0]


async def test_several_processes_write_each_checkpoint_once(store, tmp_path):
    session, other = await new_session(store), open_store(store.config)
    both = [open_checkpointer(each, tmp_path / "signing", events=3) for each in (store, other)]
    async with running(*both):
        for count in range(1, 4):
            await store.log.append(session, *[renamed()] * 3)
            await until(lambda count=count: checkpoints(store) == count)
        await asyncio.sleep(0.1)
        assert checkpoints(store) == 3
    other.close()
    with store.database.reading() as connection:
        report = verify(connection)
    assert report.ok
    assert report.coverage.signed == 3


async def test_a_checkpoint_is_due_after_a_time_and_at_the_end_only_if_anything_is_new(store, tmp_path):
    session = await new_session(store)
    async with running(open_checkpointer(store, tmp_path / "signing", seconds=0.2)):
        await until(lambda: checkpoints(store) == 1)
        await store.log.append(session, renamed())
        await until(lambda: checkpoints(store) == 2)
    late = open_checkpointer(store, tmp_path / "signing")
    await late.finish()
    assert checkpoints(store) == 2
    await store.log.append(session, renamed())
    await late.finish()
    assert checkpoints(store) == 3


async def test_without_the_key_it_says_so_once_and_goes_on_when_the_key_is_back(store, tmp_path):
    session = await new_session(store)
    await open_checkpointer(store, tmp_path / "signing").finish()
    await store.log.append(session, renamed())
    with capture_logs() as logs:
        async with running(open_checkpointer(store, tmp_path / "other", events=1)):
            await until(lambda: logs)
            await asyncio.sleep(0.1)
            assert [line["event"] for line in logs] == ["checkpoint_not_written"]
            shutil.copytree(tmp_path / "signing", tmp_path / "other")
            await until(lambda: checkpoints(store) == 2)


async def test_a_fault_in_what_the_log_says_does_not_end_the_checkpointer(store, tmp_path):
    """As a checkpoint that somebody changed: it is said once, and the process goes on."""
    session = await new_session(store)
    await open_checkpointer(store, tmp_path / "signing").finish()
    store.execute("UPDATE events SET facts = replace(facts, '\"heads\":[', '\"heads\":[1,')")
    await store.log.append(session, renamed())
    with capture_logs() as logs:
        async with running(open_checkpointer(store, tmp_path / "signing", events=1)) as (loop,):
            await until(lambda: logs)
            await asyncio.sleep(0.1)
            assert not loop.done()
            assert [line["event"] for line in logs] == ["checkpoint_not_written"]
            store.execute("UPDATE events SET facts = replace(facts, '\"heads\":[1,', '\"heads\":[')")
            await until(lambda: checkpoints(store) == 2)


async def test_a_transaction_that_stays_open_causes_no_checkpoint_after_another(postgres_server, tmp_path):
    """Events after it are left to a later checkpoint, so they must not make the next one due at once."""
    with (
        postgres_server.database() as config,
        closing(open_store(config)) as store,
        closing(config.connect()) as other,
    ):
        await new_session(store)
        other.begin(write=True)
        other.query("SELECT pg_current_xact_id()")
        await new_session(store)
        async with running(open_checkpointer(store, tmp_path / "signing", events=1)):
            await until(lambda: checkpoints(store) == 1)
            await asyncio.sleep(0.1)
            assert checkpoints(store) == 1
            other.commit()
            await until(lambda: checkpoints(store) == 2)
