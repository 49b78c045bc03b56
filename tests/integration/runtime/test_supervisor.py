"""A supervisor and its real child processes: filled again, given up, stopped, never left behind."""

import asyncio
import os
import signal
import sqlite3
import sys
import time
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from interlock.runtime.supervisor import RestartPolicy, WorkerSupervisor
from tests.harness.store import open_store
from tests.harness.tasks import until

STAYS = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
sys.stdin.read()
"""
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
CRASHES = "import sys; sys.exit(7)"


class Kept:
    """A supervisor at work, and what the log says of it."""

    def __init__(self, store, program, *, workers=1, python=sys.executable, **limits):
        given = {"restart_seconds": 0.05, "stop_seconds": 1.0, "stable_seconds": 60.0} | limits
        self.store = store
        self.supervisor = WorkerSupervisor(
            (str(python), "-c", program),
            workers=workers,
            log=store.log,
            limits=RestartPolicy(**given),
        )
        self.running = asyncio.create_task(self.supervisor.run())

    def told(self, kind):
        rows = self.store.query(
            "SELECT facts, id, parent FROM events WHERE stream = 'system' AND kind = ? ORDER BY seq", kind
        )
        return [orjson.loads(row[0]) | {"id": row[1], "parent": row[2]} for row in rows]

    async def end(self):
        self.supervisor.stop()
        await asyncio.wait_for(self.running, 30)


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def children():
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


async def test_a_worker_that_is_killed_is_started_again(sqlite_store):
    kept = Kept(sqlite_store, STAYS, workers=2)
    await until(lambda: len(kept.told("worker.spawned")) == 2)
    first = kept.told("worker.spawned")[0]
    os.kill(first["pid"], signal.SIGKILL)
    await until(lambda: len(kept.told("worker.spawned")) == 3)
    [exited] = kept.told("worker.exited")
    assert (exited["pid"], exited["code"], exited["place"]) == (first["pid"], -9, first["place"])
    assert kept.told("worker.spawned")[2]["starts"] == 2
    await kept.end()
    pids = {told["pid"] for told in kept.told("worker.spawned")}
    assert not any(is_there(pid) for pid in pids)


async def test_the_log_says_who_stands_under_whom(sqlite_store):
    kept = Kept(sqlite_store, STAYS)
    await until(lambda: bool(kept.told("worker.spawned")))
    await kept.end()
    [started], [spawned], [exited] = (
        kept.told(kind) for kind in ("process.started", "worker.spawned", "worker.exited")
    )
    assert spawned["parent"] == started["id"]
    assert exited["parent"] == spawned["id"]
    assert (started["pid"], started["workers"]) == (os.getpid(), 1)
    # It may have been told before it was ready to hear.
    assert exited["code"] in {0, -signal.SIGTERM}


async def test_one_that_will_not_stay_up_is_given_up(sqlite_store):
    kept = Kept(sqlite_store, CRASHES, workers=2, max_crashes=3)
    await asyncio.wait_for(kept.running, 60)
    assert kept.supervisor.given_up == {1, 2}
    assert not kept.supervisor.is_working
    assert len(kept.told("worker.spawned")) == 6
    assert [(told["exits"], told["code"]) for told in kept.told("crash_loop.detected")] == [(3, 7), (3, 7)]


async def test_one_that_cannot_be_started_counts_as_a_crash_and_ends_nobody_else(sqlite_store, tmp_path):
    program = tmp_path / "python"
    program.symlink_to(sys.executable)
    kept = Kept(sqlite_store, STAYS, python=program, workers=2, max_crashes=3)
    await until(lambda: len(kept.told("worker.spawned")) == 2)
    first, second = kept.told("worker.spawned")
    program.unlink()
    os.kill(first["pid"], signal.SIGKILL)
    await until(lambda: kept.told("crash_loop.detected"))
    [given_up] = kept.told("crash_loop.detected")
    assert (given_up["place"], given_up["code"]) == (first["place"], os.EX_OSERR)
    assert is_there(second["pid"])
    assert kept.supervisor.is_working
    await kept.end()


async def test_the_pause_grows_and_a_stable_run_forgives(sqlite_store):
    kept = Kept(sqlite_store, CRASHES, restart_seconds=0.2, max_crashes=4)
    began = time.monotonic()
    await asyncio.wait_for(kept.running, 60)
    assert time.monotonic() - began >= 0.2 + 0.4 + 0.8
    stable = Kept(sqlite_store, "import time; time.sleep(0.3)", stable_seconds=0.2, max_crashes=2)
    await until(lambda: len(kept.told("worker.spawned")) >= 4 + 4)
    assert stable.supervisor.given_up == set()
    await stable.end()


async def test_one_that_does_not_stop_is_killed(sqlite_store):
    kept = Kept(sqlite_store, DEAF, stop_seconds=0.3)
    await until(lambda: bool(kept.told("worker.spawned")))
    await asyncio.sleep(0.3)
    await kept.end()
    [exited] = kept.told("worker.exited")
    assert exited["code"] == -9
    assert not is_there(exited["pid"])


@pytest.mark.parametrize("how", ["stopped", "cancelled"])
async def test_nobody_is_left_behind(sqlite_store, how):
    kept = Kept(sqlite_store, DEAF, workers=3, stop_seconds=0.2)
    await until(lambda: len(kept.told("worker.spawned")) == 3)
    pids = [told["pid"] for told in kept.told("worker.spawned")]
    if how == "stopped":
        await kept.end()
    else:
        kept.running.cancel()
        await asyncio.gather(kept.running, return_exceptions=True)
    assert not any(is_there(pid) for pid in pids)


async def test_a_worker_is_told_by_which_event_its_start_is_told(sqlite_store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = Kept(
        sqlite_store, "import sys; open('told', 'w').write(' '.join(sys.argv[1:])); sys.stdin.read()"
    )
    await until(lambda: (tmp_path / "told").exists() and (tmp_path / "told").read_text())
    await until(lambda: bool(kept.told("worker.spawned")))
    await kept.end()
    [spawned] = kept.told("worker.spawned")
    assert (tmp_path / "told").read_text() == f"--spawned {spawned['id']}"


async def test_a_store_that_is_away_keeps_nobody_from_working_and_is_told_later(sqlite_config):
    store = open_store(replace(sqlite_config, busy_timeout_seconds=0.1))
    away = sqlite3.connect(sqlite_config.url.removeprefix("sqlite:///"), isolation_level=None)
    away.execute("BEGIN IMMEDIATE")
    before = children()
    kept = Kept(store, STAYS)
    [pid] = await until(lambda: children() - before)
    await asyncio.sleep(0.5)
    assert kept.told("worker.spawned") == []
    assert is_there(pid)
    away.execute("ROLLBACK")
    away.close()
    await until(lambda: kept.told("process.started") and kept.told("worker.spawned"))
    await kept.end()
    [started], [spawned], [exited] = (
        kept.told(kind) for kind in ("process.started", "worker.spawned", "worker.exited")
    )
    assert (spawned["pid"], spawned["parent"], exited["parent"]) == (pid, started["id"], spawned["id"])
    store.close()


async def test_one_that_comes_into_being_while_all_are_told_to_stop_is_told_too(sqlite_store):
    before = children()
    kept = Kept(sqlite_store, STAYS, stop_seconds=30.0)
    while children() == before:
        await asyncio.sleep(0)
    kept.supervisor.stop()
    began = time.monotonic()
    await asyncio.wait_for(kept.running, 60)
    assert time.monotonic() - began < 20
