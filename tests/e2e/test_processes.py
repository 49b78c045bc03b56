"""Several processes on one store: never two writers, nothing acknowledged lost, the late fenced out."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from interlock.core.errors import StoreLocked
from interlock.gates.recovery import record_interrupted_calls
from interlock.log.read import iter_stream
from interlock.wiring.projections import verify
from tests.harness.store import StoreHarness

KILLS = 4
ROOT = Path(__file__).parents[2]


def start(role: str, store: StoreHarness, session: str, name: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.writer_process", role, store.config.url, session, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )


def end(process: subprocess.Popen) -> int:
    process.stdin.close()
    process.stdout.close()
    return process.wait(timeout=30)


def told(process: subprocess.Popen) -> dict:
    line = process.stdout.readline()
    assert line, "the process ended without a word"
    return json.loads(line)


def stored(store: StoreHarness, session: str) -> list[tuple[int, str, str]]:
    with store.database.reading() as connection:
        events = [(event.header.seq, event.event()) for event in iter_stream(connection, session)]
    return [(seq, event.who, event.title) for seq, event in events[1:]]


def verified(store: StoreHarness) -> None:
    with store.database.reading() as connection:
        assert verify(connection).faults == []


async def test_two_processes_that_fight_for_one_session_never_both_write(store):
    session = (await store.sessions.create(opened_by="test")).id
    fighters = [start("fight", store, session, name) for name in ("one", "two")]
    said: dict[str, list[dict]] = {}

    def listen(name: str, process: subprocess.Popen) -> None:
        said[name] = [json.loads(line) for line in process.stdout]

    threads = [
        threading.Thread(target=listen, args=(name, process))
        for name, process in zip(("one", "two"), fighters, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert [end(process) for process in fighters] == [0, 0]

    written = stored(store, session)
    assert [seq for seq, _, _ in written] == list(range(2, 402))
    acknowledged = sorted((fact["seq"], name) for name, facts in said.items() for fact in facts)
    assert acknowledged == [(seq, who) for seq, who, _ in written]
    tokens = [int(title) for _, _, title in written]
    assert tokens == sorted(tokens), "a holder wrote after the next one had begun"
    holders = {title: who for _, who, title in written}
    assert all(holders[title] == who for _, who, title in written)
    assert len(set(holders.values())) == 2
    assert store.deadlocks() == 0
    verified(store)


@pytest.mark.parametrize("times", [KILLS, pytest.param(125 * KILLS, marks=pytest.mark.full)])
async def test_killed_many_times_while_writing_nothing_acknowledged_is_lost(store, times):
    session = (await store.sessions.create(opened_by="test")).id
    chance = random.Random(20261115)
    acknowledged: dict[int, str] = {}
    for _ in range(times):
        process = start("pour", store, session, "poured")
        for _ in range(chance.randint(1, 120)):
            fact = told(process)
            acknowledged[fact["seq"]] = fact["title"]
        os.kill(process.pid, signal.SIGKILL)
        for line in process.stdout.read().splitlines():
            if line.endswith(b"}"):
                fact = json.loads(line)
                acknowledged[fact["seq"]] = fact["title"]
        assert end(process) == -signal.SIGKILL
    written = {seq: title for seq, _, title in stored(store, session)}
    assert len(acknowledged) > times
    assert {seq: written.get(seq) for seq in acknowledged} == acknowledged
    assert sorted(written) == list(range(2, len(written) + 2))
    verified(store)


async def test_a_call_that_died_with_its_process_is_told_and_not_repeated(store):
    """Killed between intent and outcome: the intent is on disk, and the next one to come says so."""
    session = (await store.sessions.create(opened_by="test")).id
    process = start("call_for_ever", store, session, "call_7")
    assert told(process)["running"]
    os.kill(process.pid, signal.SIGKILL)
    assert end(process) == -signal.SIGKILL
    (settled,) = await record_interrupted_calls(store.log, session, token=None)
    assert (settled.call_id, settled.tool_name) == ("call_7", "writer")
    assert await record_interrupted_calls(store.log, session, token=None) == []
    with store.database.reading() as connection:
        _, started, interrupted = iter_stream(connection, session)
    assert (started.header.kind, interrupted.header.kind) == ("tool_call.started", "tool_call.interrupted")
    assert (interrupted.header.parent, interrupted.header.task) == (started.header.id, "task_1")
    verified(store)


async def test_a_process_that_wakes_after_its_lease_writes_nothing(store):
    session = (await store.sessions.create(opened_by="test")).id
    process = start("wake_late", store, session, "late")
    held = told(process)["held"]
    os.kill(process.pid, signal.SIGSTOP)
    lease = None
    while lease is None:
        try:
            lease = await store.leases.take(session, "present")
        except StoreLocked:
            continue
    assert lease.token > held
    await store.sessions.rename(session, "taken over", who="present")
    os.kill(process.pid, signal.SIGCONT)
    process.stdin.write(b"go\n")
    process.stdin.flush()
    assert told(process)["outcome"] == "fenced"
    assert end(process) == 0
    assert [(who, title) for _, who, title in stored(store, session)] == [
        ("late", "in time"),
        ("present", "taken over"),
    ]
    verified(store)
