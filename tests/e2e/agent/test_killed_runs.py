"""The example workflow under SIGKILL, and on two worker processes: no step is lost, none is done twice."""

import asyncio
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.config.modes import ToolMode
from interlock.config.settings import Settings
from interlock.db.database import open_database
from interlock.wiring import open_runtime
from interlock.wiring.agents import open_agent_runtime
from interlock.wiring.projections import verify
from tests.e2e.agent.dying_worker import Round
from tests.e2e.agent.test_killed_at_every_event import KILLED, WELL, play
from tests.harness.cli_processes import PATIENCE_SECONDS, ProcessHarness
from tests.harness.workflows import EXAMPLE

SLOWLY = '{"msg": "It is built.", "sleep_ms": 1500}'
WAY = ["plan", "build", "review", "verdict", "build", "review", "verdict", "done"]
WORKING = {
    "MODEL": f"scripted:{EXAMPLE}/script.txt",
    "SESSION_OPEN_MODES": "coding",
    "SESSION_LEASE_SECONDS": "4",
    "WORKER_POLL_SECONDS": "0.1",
}


@dataclass(frozen=True)
class Begun:
    harness: ProcessHarness
    run: str

    def copied(self, home: Path) -> "Begun":
        shutil.copytree(self.harness.home, home)
        more = {"TOOL_ALLOWED_ROOTS": str(home / "project")}
        return Begun(ProcessHarness(home, self.harness.variables | more), self.run)

    def round(self, moment: str = "", at: int = 0) -> Round:
        return Round(
            environment=self.harness.environment,
            session=self.run,
            task="",
            acknowledged=str(self.harness.home / "acknowledged"),
            moment=moment,
            at=at,
            is_run=True,
        )


@pytest.fixture
def begin(tmp_path, new_state, sqlite_template, monkeypatch):
    async def beginning(count: int = 1) -> list[Begun]:
        harness = ProcessHarness(tmp_path / "begun", dict(WORKING))
        harness.root.mkdir(parents=True)
        harness.variables["TOOL_ALLOWED_ROOTS"] = str(harness.root)
        shutil.copytree(new_state, harness.state, dirs_exist_ok=True)
        shutil.copy(sqlite_template, harness.state / "interlock.db")
        shutil.copytree(EXAMPLE, harness.home / "workspace" / "workflows" / EXAMPLE.name)
        for name, value in harness.environment.items():
            monkeypatch.setenv(name, value)
        runtime = open_runtime(Settings())
        agent_runtime = open_agent_runtime(runtime)
        begun = []
        for number in range(count):
            session = await agent_runtime.runs.create(EXAMPLE.name, opened_by="test", mode=ToolMode.coding)
            await agent_runtime.runs.start(session.id, EXAMPLE.name, f"greet {number}", who="ada")
            begun.append(Begun(harness, session.id))
        await agent_runtime.close()
        await runtime.close()
        return begun

    return beginning


def assert_done_once(begun: Begun) -> None:
    """Every node once and in order; every call answered once; what was written was written once."""
    harness = begun.harness
    assert harness.query("SELECT status, outcome FROM runs WHERE session_id = ?", begun.run) == [
        ("done", "done")
    ]
    rows = harness.query(
        "SELECT node, status FROM run_nodes WHERE session_id = ? ORDER BY number", begun.run
    )
    assert rows == [(node, "completed") for node in WAY]
    kinds = [event.kind for event in harness.events(session=begun.run)]
    assert kinds.count("node.completed") == kinds.count("node.entered") == len(WAY)
    assert kinds.count("task.queued") == kinds.count("task.finished") == kinds.count("node.begun") == 5
    assert kinds.count("run.finished") == 1
    database = open_database(harness.config)
    with database.reading() as connection:
        assert verify(connection, only=begun.run).ok
    database.close()
    started = [
        event.fields["arguments"].get("content")
        for event in harness.events("tool_call.started", session=begun.run)
        if event.fields["tool_name"] == "write_file"
    ]
    assert sorted(started) == ["Goodbye, Ada.\n", "Hello, Ada.\n"]


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.full)])
async def test_killed_after_every_kind_of_event_of_a_step_the_run_is_done_and_no_step_twice(
    tmp_path, begin, every
):
    """Daily after one of them; after every one in `make test-full`."""
    (begun,) = await begin()
    undisturbed = begun.copied(tmp_path / "undisturbed")
    assert await play([undisturbed.round()]) == [[WELL]]
    assert_done_once(undisturbed)
    assert (undisturbed.harness.root / "greeting.txt").read_text() == "Hello, Ada.\nGoodbye, Ada.\n"
    moments = moments_of(undisturbed)
    if not every:
        moments = [moments[len(moments) // 2]]
    copies = [begun.copied(tmp_path / f"after-{at}") for at in moments]
    codes = await play(one.round("after", at) for one, at in zip(copies, moments, strict=True))
    for one, at, ends in zip(copies, moments, codes, strict=True):
        assert ends == [KILLED, WELL], at
        try:
            assert_done_once(one)
        except AssertionError as error:
            error.add_note(f"killed after event {at}: {one.harness.home}")
            raise


def moments_of(begun: Begun) -> list[int]:
    """In the first time that `build` is worked on: after the first commit with each kind of event in it.

    And in `review`, where the word that decides was about to be said.
    """
    events = begun.harness.events(session=begun.run)
    first = next(e.seq for e in events if e.kind == "node.entered" and e.fields["node"] == "build")
    last = next(e.seq for e in events if e.kind == "node.entered" and e.fields["node"] == "review")
    lines = (begun.harness.home / "acknowledged").read_text().splitlines()
    commits = sorted({int(line.split()[0]) for line in lines})
    found: dict[str, int] = {}
    for event in events:
        if first <= event.seq <= last:
            tool = event.fields.get("tool_name", "")
            found.setdefault(f"{event.kind} {tool}", next(c for c in commits if c >= event.seq))
    words = [
        event.seq
        for event in events
        if event.kind == "tool_call.started" and event.fields["tool_name"] == "complete_step"
    ]
    found["the word of review"] = next(commit for commit in commits if commit >= words[2])
    assert {
        "node.decided ",
        "tool_call.started write_file",
        "tool_call.started complete_step",
    } <= found.keys()
    return sorted(set(found.values()))


@pytest.mark.full
async def test_two_worker_processes_share_the_runs_and_one_of_them_is_killed(begin):
    begun = await begin(4)
    harness = begun[0].harness
    slow = (EXAMPLE / "script.txt").read_text().replace("msg:It is built.", SLOWLY)
    (harness.home / "slow.txt").write_text(slow)
    harness.variables |= {"MODEL": f"scripted:{harness.home}/slow.txt", "WORKER_SESSIONS": "2"}
    workers = [await harness.start("worker") for _ in range(2)]
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not {worker.pid for worker in workers} <= _at_work(harness, begun, "build"):
                await asyncio.sleep(0.02)
            assert not _ended(harness, at_least=1)
            os.kill(workers[0].pid, signal.SIGKILL)
            while not _ended(harness, at_least=4):
                await asyncio.sleep(0.1)
    finally:
        for worker in workers:
            if worker.returncode is None:
                worker.send_signal(signal.SIGTERM)
            await asyncio.wait_for(worker.communicate(), PATIENCE_SECONDS)
    assert any(len(pids) == 2 for pids in (_workers_of(harness, each) for each in begun))
    for each in begun:
        # They write the same file: a later run finds it there, and may be refused to create it.
        rows = harness.query(
            "SELECT node, status FROM run_nodes WHERE session_id = ? ORDER BY number", each.run
        )
        assert rows == [(node, "completed") for node in WAY]


def _workers_of(harness: ProcessHarness, begun: Begun) -> set[int]:
    """The processes that worked on a run."""
    started = harness.events("task.started", session=begun.run)
    return {int(event.fields["worker"].split(":")[1]) for event in started}


def _at_work(harness: ProcessHarness, begun: list[Begun], node: str) -> set[int]:
    """The processes that work on that node of some run."""
    found: set[int] = set()
    for each in begun:
        statement = "SELECT 1 FROM run_nodes WHERE session_id = ? AND node = ? AND status = 'active'"
        if harness.query(statement, each.run, node):
            found |= _workers_of(harness, each)
    return found


def _ended(harness: ProcessHarness, *, at_least: int) -> bool:
    return harness.query("SELECT count(*) FROM runs WHERE ended_us IS NOT NULL")[0][0] >= at_least
