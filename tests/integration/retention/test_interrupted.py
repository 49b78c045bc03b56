"""A sweep that is killed, that is not alone or that fails leaves nothing half."""

import asyncio
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from interlock.core.errors import StoreLocked
from interlock.log import retention
from interlock.sessions.models import Role
from tests.harness.log_capture import capture_logs
from tests.harness.store import StoreHarness, open_store
from tests.integration.retention.archive import halves, numbers

ROOT = Path(__file__).parents[3]
WITH_CONTENT = "SELECT 1 FROM events WHERE content IS NOT NULL"


@pytest.mark.parametrize("batch", [1, 3, 10])
async def test_after_every_transaction_each_task_is_whole_and_all_is_on_record(archive, monkeypatch, batch):
    monkeypatch.setattr(retention, "BATCH", batch)
    session = await archive.session(60)
    for days_ago in (50, 48, 46):
        await archive.task(session, days_ago)
    transact, seen = archive.store.log.transact, []

    async def watched(stream, job, **more):
        result = await transact(stream, job, **more)
        assert halves(archive.store) == []
        assert archive.faults() == []
        seen.append(result.events)
        return result

    monkeypatch.setattr(archive.store.log, "transact", watched)
    swept = await archive.sweep()
    assert (sum(seen), swept.messages) == (swept.events, 12)
    assert len(seen) == len(archive.told()) >= 2
    assert archive.left(session) == set()


@pytest.mark.full
async def test_a_sweep_that_is_killed_leaves_nothing_half_and_the_next_one_goes_on(archive):
    # Much more than it is let do: on a busy machine it goes on for a while before it is killed.
    sessions = [await archive.session(400, f"s{number}") for number in range(10)]
    for session in sessions:
        for _ in range(3):
            await archive.task(session, 300)
    total = len(archive.store.query(WITH_CONTENT))
    for kills in range(3):
        assert await _killed_after(archive.store, lines=2 + 2 * kills) is True
        assert archive.faults() == []
        assert halves(archive.store) == []
    erased = len(
        archive.store.query("SELECT 1 FROM events WHERE content IS NULL AND content_hash IS NOT NULL")
    )
    assert 0 < erased < total
    assert (await archive.sweep()).events == total - erased
    assert (await archive.sweep()).events == 0
    assert archive.faults() == []
    told = defaultdict(list)
    for each in archive.told():
        told[each["of"]] += numbers(each["ranges"])
    for session in sessions:
        assert sorted(told[session]) == archive.erased(session)
        assert archive.left(session) == set()


async def _killed_after(store: StoreHarness, *, lines: int) -> bool:
    """Whether it was killed before it was done."""
    # By this machine's clock everything above happened years ago.
    command = [sys.executable, "-m", "tests.integration.retention.process", store.config.url, "30", "4"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
    try:
        for _ in range(lines):
            line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), 60)
            if b"done" in line:
                return False
        return True
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        process.stdout.close()


async def test_two_who_sweep_at_once_erase_and_tell_everything_once(archive, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 5)
    for number in range(5):
        session = await archive.session(60, f"s{number}")
        await archive.task(session, 50)
    other = open_store(archive.store.config)
    total = len(archive.store.query(WITH_CONTENT))
    both = await asyncio.gather(archive.retention().sweep(), archive.retention(store=other).sweep())
    other.close()
    assert sum(swept.events for swept in both) == total
    assert sum(each["events"] for each in archive.told()) == total
    assert archive.faults() == []
    assert archive.store.deadlocks() == 0


async def test_people_go_on_talking_and_deleting_while_it_sweeps(archive, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 2)
    sessions = [await archive.session(60, f"s{number}") for number in range(4)]
    for session in sessions:
        await archive.task(session, 50)
    archive.clock.days_ago(0)

    async def live() -> None:
        for number in range(20):
            await archive.shop.put(sessions[0], f"new {number}")
            await archive.say(sessions[1], Role.user, f"new {number}")
        await archive.store.delete(sessions[2], who="ada")

    await asyncio.gather(archive.sweep(), live())
    assert archive.faults() == []
    assert halves(archive.store) == []
    assert [word for word in await archive.words(sessions[1]) if word.startswith("new")] == [
        f"new {number}" for number in range(20)
    ]


async def test_it_sweeps_by_itself_and_a_failure_is_tried_again(archive, monkeypatch):
    monkeypatch.setattr(retention, "_HOUR_SECONDS", 0.01)
    session = await archive.session(60)
    await archive.task(session, 50)
    swept = archive.retention()
    sweep, tries = swept.sweep, []

    async def fails_first():
        tries.append(1)
        if len(tries) == 1:
            raise StoreLocked("busy")
        return await sweep()

    monkeypatch.setattr(swept, "sweep", fails_first)
    with capture_logs() as logged:
        running = asyncio.create_task(swept.run_hourly())
        async with asyncio.timeout(30):
            while not archive.told():
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert len(tries) == 2, "what was swept up to the same midnight is not swept again"
    assert [entry["event"] for entry in logged] == ["events_not_swept", "events_swept"]
