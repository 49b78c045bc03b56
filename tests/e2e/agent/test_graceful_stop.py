"""SIGTERM in the middle of work, however it was started: what runs is finished or left, never lost."""

import asyncio
import json
import signal
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from interlock.config.modes import ToolMode
from interlock.runtime.task_rows import TaskStatus
from tests.e2e.agent.test_working_side_by_side import running
from tests.harness.cli_processes import ended
from tests.harness.model_answers import called, said
from tests.harness.store import open_store
from tests.harness.tasks import TaskHarness, until

WAYS = {
    "worker": ("worker",),
    "supervisor": ("supervisor", "--workers", "2"),
    "serve": ("serve", "--port", "0"),
    "serve with workers": ("serve", "--port", "0", "--workers", "2"),
}


def of_each_way(daily: str) -> pytest.MarkDecorator:
    """One way every day, and the others in `make test-full`."""
    return pytest.mark.parametrize(
        "way", [pytest.param(way, marks=() if way == daily else pytest.mark.full) for way in WAYS]
    )


# A number that no other process has in its command line.
SLEEP = "sleep 300.0375"
QUESTION = {"type": "confirmation", "message": "Shall I?"}


@pytest.fixture
async def tasks(harness):
    harness.variables |= {
        "SESSION_OPEN_MODES": "coding",
        "TOOL_ALLOWED_ROOTS": str(harness.root),
        "WORKER_POLL_SECONDS": "0.1",
        "SESSION_LEASE_SECONDS": "5",
    }
    store = open_store(harness.config)
    yield TaskHarness(store)
    store.close()


@asynccontextmanager
async def at_work(harness, way):
    process = await harness.start(*WAYS[way])
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


def ours(harness):
    """Every process that has this place's state folder in its environment, and so all children."""
    found, wanted = [], f"INTERLOCK_STATE_DIR={harness.state}".encode()
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdecimal() and wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


@of_each_way("worker")
async def test_what_ends_within_the_grace_is_finished(harness, server, tasks, way):
    slow = ("bash", {"cmd": "touch begun; sleep 2; echo late > end", "timeout_seconds": 60})
    server.add(called(slow), said("It is done."))
    session = await tasks.session(ToolMode.coding)
    task = await tasks.put(session, "take your time")
    async with at_work(harness, way) as process:
        await until((harness.root / "begun").exists)
        after = await tasks.put(session, "and then?")
        await stopped(process)
    assert (harness.root / "end").read_text() == "late\n"
    assert (await tasks.tasks.get(task.id)).status is TaskStatus.done
    # Nothing new was begun.
    assert (await tasks.tasks.get(after.id)).status is TaskStatus.queued
    assert harness.messages(session)[-1]["content"] == "It is done."
    assert len(server.asked) == 2
    assert ours(harness) == []


@of_each_way("serve with workers")
async def test_what_takes_longer_is_left_and_the_next_start_goes_on(harness, server, tasks, way):
    harness.variables["WORKER_STOP_GRACE_SECONDS"] = "1"
    slow = ("bash", {"cmd": f"touch begun; {SLEEP} & {SLEEP}", "timeout_seconds": 600})
    server.add(called(slow), said("I was stopped, and here I am."))
    session = await tasks.session(ToolMode.coding)
    task = await tasks.put(session, "take your time")
    async with at_work(harness, way) as process:
        await until((harness.root / "begun").exists)
        took = await stopped(process)
    assert took < 20
    assert running(SLEEP) == []
    assert ours(harness) == []
    assert (await tasks.tasks.get(task.id)).status is TaskStatus.queued
    async with at_work(harness, way) as process:
        [done] = await tasks.ended(task.id)
        assert (done.status, done.attempts) == (TaskStatus.done, 2)
        await stopped(process)
    [result] = harness.results(session)
    assert result["ok"] is False
    assert harness.messages(session)[-1]["content"] == "I was stopped, and here I am."
    harness.assert_sound(session)


@of_each_way("serve")
async def test_a_task_that_waits_holds_no_worker_and_outlives_the_stop(harness, server, tasks, way):
    harness.variables["WORKER_SESSIONS"] = "1"
    server.add(called(("ask_user", QUESTION), ids="one"), said("Hello."), said("You said yes."))
    first, second = await tasks.session(), await tasks.session()
    waiting = await tasks.put(first, "ask me")
    async with at_work(harness, way) as process:
        await tasks.reached(waiting.id, TaskStatus.waiting)
        # There is room for one session only in each process: the one that waits takes none.
        [other] = await tasks.ended((await tasks.put(second, "hello")).id)
        assert other.status is TaskStatus.done
        assert await stopped(process) < 15
    assert (await tasks.tasks.get(waiting.id)).status is TaskStatus.waiting
    [question] = json.loads((await harness.run("questions", "list", "--json")).stdout)
    await harness.run("questions", "answer", question["id"], "--yes")
    async with at_work(harness, way) as process:
        [done] = await tasks.ended(waiting.id)
        assert done.status is TaskStatus.done
        await stopped(process)
    assert harness.messages(first)[-1]["content"] == "You said yes."
    assert ours(harness) == []


async def test_told_twice_it_does_not_wait(harness, server, tasks):
    slow = ("bash", {"cmd": f"touch begun; {SLEEP}", "timeout_seconds": 600})
    server.add(called(slow))
    task = await tasks.put(await tasks.session(ToolMode.coding), "take your time")
    async with at_work(harness, "supervisor") as process:
        await until((harness.root / "begun").exists)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        await asyncio.sleep(1)
        process.send_signal(signal.SIGTERM)
        await ended(process)
    assert time.monotonic() - began < 15
    assert running(SLEEP) == []
    assert (await tasks.tasks.get(task.id)).status is TaskStatus.queued


def kinds(harness):
    return {kind for (kind,) in harness.query("SELECT kind FROM events WHERE stream = 'system'")}


@pytest.mark.parametrize("way", ["worker", "supervisor"])
async def test_where_nothing_serves_people_checkpoints_are_written_and_anchors_sent(harness, tasks, way):
    harness.variables |= {
        "EVENT_CHECKPOINT_EVENTS": "1",
        "EVENT_ANCHORS": f"file:{harness.home}/anchors",
    }
    await tasks.session(ToolMode.coding)
    async with at_work(harness, way) as process:
        await until(lambda: {"log.signed", "worker.started"} <= kinds(harness))
        await stopped(process)
    report = json.loads((await harness.run("events", "verify", "--json")).stdout)
    assert (report["ok"], report["after_checkpoint"], report["after_anchor"]) == (True, 0, 0)
    assert report["anchors"] >= 1
