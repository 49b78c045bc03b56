"""`events tree --processes` over real processes: supervisor, worker, agent, turn, tool call (S3-8)."""

import json
import os
import signal
from contextlib import asynccontextmanager

import pytest

from interlock.config.modes import ToolMode
from interlock.db.upgrade import upgrade
from interlock.runtime.task_rows import TaskStatus
from tests.harness.cli_processes import ended, walk
from tests.harness.model_answers import called, said
from tests.harness.store import open_store
from tests.harness.tasks import TaskHarness, until

CHAIN = ["process.started", "worker.spawned", "worker.started", "task.started", "agent.started"]


def time_in(zone):
    return ("current_time", {"timezone": zone})


@pytest.fixture(params=["sqlite", "postgresql"])
async def tasks(request, harness):
    harness.variables |= {
        "SESSION_OPEN_MODES": "coding",
        "TOOL_ALLOWED_ROOTS": str(harness.root),
        "SESSION_LEASE_SECONDS": "2",
        "WORKER_POLL_SECONDS": "0.1",
    }
    if request.param == "postgresql":
        config = request.getfixturevalue("empty_postgres")
        upgrade(config)
        harness.variables["DATABASE_URL"] = config.url
    store = open_store(harness.config)
    yield TaskHarness(store)
    store.close()


@asynccontextmanager
async def supervised(harness, workers=2):
    process = await harness.start("supervisor", "--workers", str(workers))
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        await ended(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def tree(harness, session, *options):
    return json.loads((await harness.run("events", "tree", session, *options, "--json")).stdout)


def kinds(node):
    return [child["kind"] for child in node["children"]]


def the(node, kind):
    [found] = [child for child in node["children"] if child["kind"] == kind]
    return found


async def test_a_task_of_three_turns_hangs_under_its_worker_and_every_call_under_its_turn(
    harness, server, tasks
):
    server.add(
        called(time_in("UTC"), ids="one"),
        called(time_in("Asia/Tokyo"), time_in("Europe/Zurich"), ids="two"),
        called(time_in("America/Lima"), ids="three"),
        said("It is late."),
    )
    session = await tasks.session()
    task = await tasks.put(session, "what time is it?")
    async with supervised(harness):
        await tasks.ended(task.id)
        await until(lambda: len(harness.events("worker.started", session="system")) == 2)
    *outside, supervisor = await tree(harness, session, "--processes")
    assert {node["kind"] for node in outside} == {"session.created", "message.appended", "task.queued"}
    assert supervisor["payload"]["role"] == "supervisor"
    # Only the worker that had a part in it, and how it ended.
    [spawned] = supervisor["children"]
    assert kinds(spawned) == ["worker.started", "worker.exited"]
    worker = spawned["children"][0]
    assert (worker["payload"]["pid"], worker["parent"]) == (spawned["payload"]["pid"], spawned["id"])
    attempt = the(worker, "task.started")
    assert attempt["payload"]["worker"] == worker["payload"]["worker"]
    agent = the(attempt, "agent.started")
    turns = [child for child in agent["children"] if child["kind"] == "turn.completed"]
    assert [kinds(turn).count("tool_call.started") for turn in turns] == [1, 2, 1, 0]
    assert_every_call_has_its_turn(harness.events(session=session), calls=4)
    plain = await harness.run("events", "tree", session, "--processes", "--task", task.id)
    lines = [line for line in plain.stdout.splitlines() if any(f"  {kind}  " in line for kind in CHAIN)]
    assert [line.split("  ")[-2] for line in lines] == CHAIN
    indented = [len(line[8:]) - len(line[8:].lstrip()) for line in lines]
    assert indented == [2 * depth for depth in range(len(CHAIN))]


def assert_every_call_has_its_turn(events, calls):
    """Of the turn whose answer asked for it, whatever number that has: never of the first alone."""
    known = {event.id: event for event in events}
    turn, seen = None, 0
    for event in events:
        if event.kind == "turn.completed":
            turn = event
        if event.kind.startswith("tool_call."):
            above = known[event.parent]
            while above.kind != "turn.completed":
                above = known[above.parent]
            assert above is turn, (event.kind, above.fields["turn"], turn.fields["turn"])
            seen += event.kind == "tool_call.started"
    assert seen == calls


async def test_a_task_whose_worker_was_killed_stands_under_both(harness, server, tasks):
    slow = ("bash", {"cmd": "touch begun; sleep 300.0125", "timeout_seconds": 600})
    server.add(
        called(time_in("UTC"), ids="one"),
        called(slow, ids="two"),
        called(time_in("Asia/Tokyo"), ids="three"),
        said("So be it."),
    )
    session = await tasks.session(ToolMode.coding)
    task = await tasks.put(session, "take your time")
    async with supervised(harness):
        await until((harness.root / "begun").exists)
        [first] = harness.events("task.started", session=session)
        _, pid, _ = first.fields["worker"].rsplit(":", 2)
        os.kill(int(pid), signal.SIGKILL)
        [ended_task] = await tasks.ended(task.id)
        assert ended_task.status is TaskStatus.done
    *_, supervisor = await tree(harness, session, "--processes")
    # In the order in which they were spawned; either may have been the first to take it up.
    killed, other = sorted(
        supervisor["children"], key=lambda spawned: spawned["payload"]["pid"] != int(pid)
    )
    assert the(killed, "worker.exited")["payload"]["code"] == -signal.SIGKILL
    assert killed["payload"]["pid"] == int(pid) != other["payload"]["pid"]
    attempts = [the(the(spawned, "worker.started"), "task.started") for spawned in (killed, other)]
    assert [attempt["payload"]["attempt"] for attempt in attempts] == [1, 2]
    of_first, of_second = ([node["kind"] for node in walk([attempt])] for attempt in attempts)
    assert (of_first.count("turn.completed"), of_first.count("tool_call.started")) == (2, 2)
    assert of_second.count("tool_call.started") == 1
    assert of_first[-1] == "tool_call.interrupted"
    assert of_second[-1] == "task.finished"
    # Nothing is lost on the way: both trees hold the same events of the session.
    whole = {node["id"] for node in walk(await tree(harness, session))}
    hung = {node["id"] for node in walk(await tree(harness, session, "--processes")) if "id" in node}
    assert whole <= hung


@pytest.mark.parametrize("way", [("worker",), ("serve", "--port", "0")], ids=lambda way: way[0])
async def test_a_worker_that_nobody_looks_after_is_a_root(harness, server, tasks, way):
    if "DATABASE_URL" in harness.variables:
        pytest.skip("the same on either database")
    server.add(said("Hello."))
    session = await tasks.session()
    task = await tasks.put(session, "hello")
    process = await harness.start(*way)
    await tasks.ended(task.id)
    await until(lambda: harness.events("worker.started", session="system"))
    process.send_signal(signal.SIGTERM)
    await ended(process)
    *_, worker = await tree(harness, session, "--processes")
    assert (worker["kind"], worker["parent"]) == ("worker.started", None)
    assert worker["payload"]["pid"] == process.pid
    assert kinds(worker) == ["task.started"]


async def test_a_terminal_is_named_though_no_worker(harness, server, tasks):
    server.add(said("Hello."))
    if "DATABASE_URL" in harness.variables:
        pytest.skip("the same on either database")
    await harness.execute("hello", mode="chat_safe")
    *_, process = await tree(harness, harness.session, "--processes")
    assert kinds(process) == ["task.started"]
    assert process["worker"] == process["children"][0]["payload"]["worker"]
    plain = (await harness.run("events", "tree", harness.session, "--processes")).stdout
    assert f"{process['worker']}  (a terminal" in plain
