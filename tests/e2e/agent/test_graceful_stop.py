"""SIGTERM in the middle of work, however it was started: what runs is finished or left, never lost."""

import asyncio
import json
import signal
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from interlock.config.modes import ToolMode
from interlock.worker.rows import TaskStatus
from tests.conftest import open_store
from tests.doubles.openai_answers import called, said
from tests.e2e.agent.place import ended
from tests.e2e.agent.test_working_side_by_side import running
from tests.integration.worker.shop import Shop, until

WAYS = {
    "worker": ("worker",),
    "supervisor": ("supervisor", "--workers", "2"),
    "serve": ("serve", "--port", "0"),
    "serve with workers": ("serve", "--port", "0", "--workers", "2"),
}
of_each_way = pytest.mark.parametrize("way", WAYS)
# A number that no other process has in its command line.
SLEEP = "sleep 300.0375"
QUESTION = {"type": "confirmation", "message": "Shall I?"}


@pytest.fixture
async def shop(place):
    place.variables |= {
        "SESSION_OPEN_MODES": "coding",
        "TOOL_ALLOWED_ROOTS": str(place.root),
        "WORKER_POLL_SECONDS": "0.1",
        "SESSION_LEASE_SECONDS": "5",
    }
    store = open_store(place.config)
    yield Shop(store)
    store.close()


@asynccontextmanager
async def at_work(place, way):
    process = await place.start(*WAYS[way])
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def stopped(process):
    """How long it took from SIGTERM to its end, which must be a good one."""
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    await ended(process)
    return time.monotonic() - began


def ours(place):
    """Every process that has this place's state folder in its environment, and so all children."""
    found, wanted = [], f"INTERLOCK_STATE_DIR={place.state}".encode()
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdecimal() and wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


@of_each_way
async def test_what_ends_within_the_grace_is_finished(place, server, shop, way):
    slow = ("bash", {"cmd": "touch begun; sleep 2; echo late > end", "timeout_seconds": 60})
    server.add(called(slow), said("It is done."))
    session = await shop.session(ToolMode.coding)
    task = await shop.put(session, "take your time")
    async with at_work(place, way) as process:
        await until((place.root / "begun").exists)
        after = await shop.put(session, "and then?")
        await stopped(process)
    assert (place.root / "end").read_text() == "late\n"
    assert (await shop.tasks.get(task.id)).status is TaskStatus.done
    # Nothing new was begun.
    assert (await shop.tasks.get(after.id)).status is TaskStatus.queued
    assert place.messages(session)[-1]["content"] == "It is done."
    assert len(server.asked) == 2
    assert ours(place) == []


@of_each_way
async def test_what_takes_longer_is_left_and_the_next_start_goes_on(place, server, shop, way):
    place.variables["WORKER_STOP_GRACE_SECONDS"] = "1"
    slow = ("bash", {"cmd": f"touch begun; {SLEEP} & {SLEEP}", "timeout_seconds": 600})
    server.add(called(slow), said("I was stopped, and here I am."))
    session = await shop.session(ToolMode.coding)
    task = await shop.put(session, "take your time")
    async with at_work(place, way) as process:
        await until((place.root / "begun").exists)
        took = await stopped(process)
    assert took < 20
    assert running(SLEEP) == []
    assert ours(place) == []
    assert (await shop.tasks.get(task.id)).status is TaskStatus.queued
    async with at_work(place, way) as process:
        [done] = await shop.ended(task.id)
        assert (done.status, done.attempts) == (TaskStatus.done, 2)
        await stopped(process)
    [result] = place.results(session)
    assert result["ok"] is False
    assert place.messages(session)[-1]["content"] == "I was stopped, and here I am."
    place.assert_sound(session)


@of_each_way
async def test_a_task_that_waits_holds_no_worker_and_outlives_the_stop(place, server, shop, way):
    place.variables["WORKER_SESSIONS"] = "1"
    server.add(called(("ask_user", QUESTION), ids="one"), said("Hello."), said("You said yes."))
    first, second = await shop.session(), await shop.session()
    waiting = await shop.put(first, "ask me")
    async with at_work(place, way) as process:
        await shop.reached(waiting.id, TaskStatus.waiting)
        # There is room for one session only in each process: the one that waits takes none.
        [other] = await shop.ended((await shop.put(second, "hello")).id)
        assert other.status is TaskStatus.done
        assert await stopped(process) < 15
    assert (await shop.tasks.get(waiting.id)).status is TaskStatus.waiting
    [question] = json.loads((await place.run("questions", "list", "--json")).stdout)
    await place.run("questions", "answer", question["id"], "--yes")
    async with at_work(place, way) as process:
        [done] = await shop.ended(waiting.id)
        assert done.status is TaskStatus.done
        await stopped(process)
    assert place.messages(first)[-1]["content"] == "You said yes."
    assert ours(place) == []


async def test_told_twice_it_does_not_wait(place, server, shop):
    slow = ("bash", {"cmd": f"touch begun; {SLEEP}", "timeout_seconds": 600})
    server.add(called(slow))
    task = await shop.put(await shop.session(ToolMode.coding), "take your time")
    async with at_work(place, "supervisor") as process:
        await until((place.root / "begun").exists)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        await asyncio.sleep(1)
        process.send_signal(signal.SIGTERM)
        await ended(process)
    assert time.monotonic() - began < 15
    assert running(SLEEP) == []
    assert (await shop.tasks.get(task.id)).status is TaskStatus.queued
