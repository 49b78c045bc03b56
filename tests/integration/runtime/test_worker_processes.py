"""Workers as processes on one store: killed, stopped, continued. No task is lost, doubled or overtaken."""

import asyncio
import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.core.errors import StoreError
from interlock.db.database import StoreConfig
from interlock.runtime.task_rows import TaskStatus
from tests.harness.store import StoreHarness
from tests.harness.tasks import TaskHarness, until

ROOT = Path(__file__).parents[3]

# Long enough for a machine that is busy with other tests: who is not let run for that long is fenced, and
# rightly so, but that is not what these tests are about.
LEASE_SECONDS = 3.0

WHO_RUNS = """
SELECT l.holder FROM leases l JOIN tasks t ON 'session:' || t.session_id = l.name
WHERE t.status = 'running' AND l.expires_ms > 0
"""


class WorkerProcess:
    def __init__(
        self, store: StoreHarness, name: str, errors: Path, max_interruptions: int, lease_seconds: float
    ) -> None:
        command = [sys.executable, "-m", "tests.harness.worker_process", store.config.url, name]
        self.name = name
        with errors.open("ab") as stderr:
            self._process = subprocess.Popen(
                [*command, str(lease_seconds), str(max_interruptions)],
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=ROOT,
            )

    async def told(self, **wanted: object) -> dict:
        """The next line that says this; those before it are passed over."""
        while True:
            line = await asyncio.wait_for(asyncio.to_thread(self._process.stdout.readline), 60)
            assert line, f"{self.name} ended without a word"
            fact = json.loads(line)
            if wanted.items() <= fact.items():
                return fact

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    async def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        if not self.has_ended:
            self.send(number)
        code = await asyncio.to_thread(self._process.wait, 30)
        self._process.stdout.close()
        return code


@pytest.fixture
def start(store, tmp_path) -> Iterator:
    started = []

    def starting(
        name: str, *, max_interruptions: int = 100, lease_seconds: float = LEASE_SECONDS
    ) -> WorkerProcess:
        process = WorkerProcess(store, name, tmp_path / "stderr", max_interruptions, lease_seconds)
        started.append(process)
        return process

    yield starting
    for process in started:
        if not process.has_ended:
            process.send(signal.SIGKILL)
            process._process.wait(30)
        process._process.stdout.close()


@pytest.fixture
def harness(store) -> TaskHarness:
    return TaskHarness(store, lease_seconds=LEASE_SECONDS)


def started_by(harness: TaskHarness, session: str) -> list[tuple[str, int]]:
    return [(p["worker"], p["attempt"]) for kind, p in harness.events(session) if kind == "task.started"]


async def test_a_killed_workers_task_is_gone_on_with_by_another(harness, start):
    session = await harness.session()
    task, after = await harness.put(session, "call"), await harness.put(session, "note")
    first = start("first")
    await first.told(calling=task.id)
    second = start("second")
    await second.told(ready="second")
    assert await first.end() == -signal.SIGKILL
    ended = await harness.ended(task.id, after.id)
    assert [one.status for one in ended] == [TaskStatus.done] * 2
    assert ended[0].interruptions >= 1
    assert started_by(harness, session)[:2] == [("first", 1), ("second", 2)]
    kinds = harness.kinds(session)
    resumed = kinds.index("tool_call.interrupted")
    assert kinds[resumed - 1 : resumed + 2] == [
        "tool_call.started",
        "tool_call.interrupted",
        "task.started",
    ]
    assert harness.ends(session) == [(task.id, "done"), (after.id, "done")]
    assert await second.end(signal.SIGTERM) == 0
    assert harness.faults() == []


@pytest.mark.parametrize("store_config", ["sqlite"], indirect=True)
async def test_what_a_killed_worker_held_is_not_waited_for_on_one_machine(harness, start):
    session = await harness.session()
    task = await harness.put(session, "call")
    first = start("first", lease_seconds=3600)
    await first.told(calling=task.id)
    second = start("second", lease_seconds=3600)
    await second.told(ready="second")
    assert await first.end() == -signal.SIGKILL
    (ended,) = await harness.ended(task.id)
    assert (ended.status, ended.attempts, ended.interruptions) == (TaskStatus.done, 2, 1)
    assert started_by(harness, session) == [("first", 1), ("second", 2)]
    assert harness.faults() == []


@pytest.mark.parametrize("store_config", ["sqlite"], indirect=True)
async def test_what_a_stopped_worker_holds_is_left_to_it(harness, start):
    session = await harness.session()
    task = await harness.put(session, "call")
    first = start("first", lease_seconds=3600)
    await first.told(calling=task.id)
    await stop_outside_a_transaction(harness, first)
    elsewhere = await harness.put(await harness.session(), "note")
    second = start("second", lease_seconds=3600)
    await second.told(ended=elsewhere.id)
    # It has looked for work at least twice since it was started.
    again = await harness.put(elsewhere.session_id, "note")
    await second.told(ended=again.id)
    assert started_by(harness, session) == [("first", 1)]


async def stop_outside_a_transaction(harness: TaskHarness, process: WorkerProcess) -> None:
    """Stopped while it writes, a process holds SQLite's only lock: then let it go on, and try again."""
    impatient = StoreConfig(harness.store.config.url, busy_timeout_seconds=0.3)
    while True:
        process.send(signal.SIGSTOP)
        connection = impatient.connect()
        try:
            connection.begin(write=True)
            connection.rollback()
            return
        except StoreError:
            process.send(signal.SIGCONT)
            await asyncio.sleep(0.05)
        finally:
            connection.close()


async def test_a_stopped_worker_that_wakes_up_late_writes_nothing(harness, start):
    session, elsewhere = await harness.session(), await harness.session()
    task = await harness.put(session, "oversleep")
    late = start("late")
    await late.told(began=task.id)
    await until(lambda: "session.renamed" in harness.kinds(session))
    await stop_outside_a_transaction(harness, late)
    other = start("other")
    (ended,) = await harness.ended(task.id)
    assert ended.status is TaskStatus.done
    assert await other.end(signal.SIGTERM) == 0
    before = harness.events(session)
    late.send(signal.SIGCONT)
    told = await late.told()
    while not told.keys() & {"fenced", "broken_off"}:
        told = await late.told()
    again = await harness.put(elsewhere, "note")
    await late.told(ended=again.id)
    assert (await harness.ended(again.id))[0].status is TaskStatus.done
    assert harness.events(session) == before
    writers = [p["who"] for kind, p in before if kind == "session.renamed"]
    assert (writers[0], set(writers[1:])) == ("late", {"other"})
    assert harness.ends(session) == [(task.id, "done")]
    assert await late.end(signal.SIGTERM) == 0
    assert harness.faults() == []


async def test_a_question_is_answered_while_no_worker_is_there(harness, start):
    session = await harness.session()
    task = await harness.put(session, "ask")
    first = start("first")
    waiting = await harness.reached(task.id, TaskStatus.waiting)
    assert await first.end() == -signal.SIGKILL
    await harness.questions.answer(waiting.question_id, {"confirmed": True}, who="ada")
    start("second")
    (ended,) = await harness.ended(task.id)
    assert ended.status is TaskStatus.done
    assert started_by(harness, session)[:2] == [("first", 1), ("second", 2)]
    assert harness.faults() == []


async def test_a_terminated_worker_leaves_its_task_to_the_next_at_once(harness, start):
    session = await harness.session()
    task = await harness.put(session, "call")
    first = start("first")
    await first.told(calling=task.id)
    assert await first.end(signal.SIGTERM) == 0
    left = await harness.tasks.get(task.id)
    assert (left.status, left.interruptions) == (TaskStatus.queued, 0)
    assert await harness.backlog.find_work(10) == [session]
    start("second")
    assert (await harness.ended(task.id))[0].status is TaskStatus.done
    assert harness.faults() == []


async def test_a_task_that_kills_its_workers_is_given_up_and_the_next_goes_on(harness, start):
    session = await harness.session()
    task, after = await harness.put(session, "die"), await harness.put(session, "note")
    deaths, process = 0, start("w0", max_interruptions=2)
    while not (await harness.tasks.get(after.id)).status.is_end:
        if process.has_ended:
            deaths += 1
            assert deaths < 10
            process = start(f"w{deaths}", max_interruptions=2)
        await asyncio.sleep(0.05)
    ended = await harness.tasks.get(task.id)
    assert (ended.status, ended.attempts) == (TaskStatus.failed, 3)
    assert "its worker was lost 3 times" in ended.reason
    assert harness.ends(session) == [(task.id, "failed"), (after.id, "done")]
    assert harness.faults() == []


@pytest.mark.full
@pytest.mark.parametrize("kills", [6, 40])
async def test_while_workers_are_killed_every_task_ends_once_and_in_order(harness, start, kills):
    chance = random.Random(20261120)
    sessions = [await harness.session() for _ in range(8)]
    workers, tasks = {f"w{number}": start(f"w{number}") for number in range(3)}, []
    for name, worker in workers.items():
        await worker.told(ready=name)

    def busy() -> list[str]:
        holders = {str(row[0]).split()[0] for row in harness.store.query(WHO_RUNS)}
        return sorted(holders & workers.keys())

    for number in range(kills):
        for session in sessions:
            open_tasks = await harness.tasks.list_tasks(session_id=session, status=TaskStatus.queued)
            if len(open_tasks) < 10:
                tasks += [await harness.put(session, "note") for _ in range(2)]
        await asyncio.sleep(chance.uniform(0, 0.2))
        await workers.pop(chance.choice(await until(busy))).end()
        name = f"w{number + 3}"
        workers[name] = start(name)
        await workers[name].told(ready=name)
    ended = await harness.ended(*(task.id for task in tasks))
    assert {task.status for task in ended} == {TaskStatus.done}
    assert sum(task.interruptions for task in ended) >= kills / 3
    for session in sessions:
        mine = [task.id for task in tasks if task.session_id == session]
        assert harness.ends(session) == [(task_id, "done") for task_id in mine]
        worked = [p["title"] for kind, p in harness.events(session) if kind == "session.renamed"]
        assert worked == sorted(worked, key=mine.index), "a task was begun before the one ahead had ended"
    assert harness.faults() == []
    assert harness.store.deadlocks() == 0
