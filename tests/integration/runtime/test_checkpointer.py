"""Checkpoints that nobody asks for, on both databases."""

import asyncio
import shutil
from contextlib import asynccontextmanager, suppress

import pytest

from interlock.log.checkpoint import CheckpointInterval
from interlock.log.signing import SigningKeyStore
from interlock.log.verify.event_log import verify
from interlock.runtime import checkpointer
from interlock.runtime.checkpointer import Checkpointer
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
async def running(*checkpointers: Checkpointer):
    tasks = [asyncio.create_task(each.run()) for each in checkpointers]
    try:
        yield
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
