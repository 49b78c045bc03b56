"""Workers on a real PostgreSQL and a real NATS server, beside the same scheme with empty tasks.

The tasks of one side: the agent, a scripted model in the process, one call of a tool, an answer in pieces,
and everything that is recorded of it. Of the other: taken up and ended. Both are put by this process, which
also hears the answers, as a gateway would.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.harness.external_services import NatsServer, PostgresServer

from bench.environments import ROOT
from bench.rows import Row
from interlock.config.settings import load_settings
from interlock.runtime.bus import LogAppended, TextAppended
from interlock.wiring import open_runtime
from interlock.wiring.agents import AgentRuntime, open_agent_runtime

SESSIONS, TASKS, ALONE = 48, 10, 60
WORKERS = (1, 2, 4)
SCRIPT = ["call:current_time {}", "msg:" + "word " * 40] * (2 * TASKS + ALONE + 5)
DONE = "SELECT count(*) FROM tasks WHERE status = 'done'"


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as home, _servers(Path(home)) as servers:
        return asyncio.run(_measured(servers))


@contextmanager
def _servers(home: Path) -> Iterator["Servers"]:
    postgres, nats = PostgresServer(), NatsServer(home / "nats").start()
    given = {
        "DATABASE_URL": postgres.url,
        "NATS_URL": nats.url,
        "INTERLOCK_STATE_DIR": str(home / "state"),
        "WORKSPACE_DIR": str(home / "workspace"),
        "MODEL": f"scripted:{json.dumps(SCRIPT)}",
        "CONTROL_MAX_TURNS": "1000",
    }
    os.environ.update(given)
    try:
        yield Servers(postgres.pid, nats.pid)
    finally:
        nats.stop()
        postgres.remove()
        for name in given:
            del os.environ[name]


async def _measured(servers: "Servers") -> list[Row]:
    empty = {count: await _run("empty", count, servers) for count in WORKERS}
    agent = {count: await _run("agent", count, servers) for count in WORKERS}
    found = []
    for count in WORKERS:
        ours, bare = agent[count], empty[count]
        name = f"{count} worker{'s' if count > 1 else ''}"
        found += [
            Row(f"tasks a second, {name}", ours.rate, bare.rate, "/s", "empty tasks /s", None),
            Row(f"a task, {name}", ours.cpu_ms, bare.cpu_ms, "ms CPU", "empty task"),
            Row("PostgreSQL for it", ours.postgres_ms, bare.postgres_ms, "ms CPU", "for an empty task"),
            Row("NATS for it", ours.nats_ms, bare.nats_ms, "ms CPU", "for an empty task"),
            Row(
                f"sent to heard, {name}, nothing else going on, p50", ours.p50, bare.p50, "ms", "empty task"
            ),
            Row("the same, p99", ours.p99, bare.p99, "ms", "empty task"),
        ]
    rate = {count: run.rate for count, run in agent.items()}
    # Where the cores are full, more workers bring no more, and should cost little.
    more = 1.4 if (os.cpu_count() or 1) > 2 else 1.1
    return [
        *found,
        Row("2 workers", rate[2], rate[1], "tasks/s", "with 1", more, higher_is_better=True),
        Row("4 workers", rate[4], rate[2], "tasks/s", "with 2", 0.8, higher_is_better=True),
    ]


@dataclass(frozen=True, slots=True)
class Servers:
    """The processes of both, and what they used."""

    postgres: int
    nats: int

    def used(self) -> tuple[float, float]:
        return _seconds_of_tree(self.postgres), _seconds_of_tree(self.nats)


def _seconds_of_tree(pid: int) -> float:
    """Of a process, of its children that live, and of those that have ended."""
    pids = [pid, *(int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    return sum(_seconds(each) for each in pids)


def _seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Run:
    """Milliseconds, and tasks a second."""

    rate: float
    cpu_ms: float
    postgres_ms: float
    nats_ms: float
    waits: list[float]

    @property
    def p50(self) -> float:
        return statistics.median(self.waits) * 1000

    @property
    def p99(self) -> float:
        return statistics.quantiles(self.waits, n=100)[98] * 1000


async def _run(kind: str, count: int, servers: Servers) -> Run:
    async with _office() as agent_runtime:
        workers = [_started(kind) for _ in range(count)]
        try:
            for worker in workers:
                assert (await asyncio.to_thread(worker.stdout.readline)).strip() == "ready"
            # What a process does for the first time takes it longer.
            await _crowd(agent_runtime, 2)
            waits = await _alone(agent_runtime, kind)
            before = servers.used()
            seconds = await _crowd(agent_runtime, TASKS)
            after = servers.used()
        finally:
            used = [await asyncio.to_thread(_ended, worker) for worker in workers]
    total = SESSIONS * TASKS
    worked = SESSIONS * (TASKS + 2) + ALONE
    postgres, nats = ((end - begin) * 1000 / total for begin, end in zip(before, after, strict=True))
    return Run(total / seconds, sum(used) * 1000 / worked, postgres, nats, waits)


def _started(kind: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench.fleet_worker", kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def _ended(worker: subprocess.Popen[str]) -> float:
    told, _ = worker.communicate(timeout=60)
    return float(told.split()[-1])


@asynccontextmanager
async def _office() -> AsyncIterator[AgentRuntime]:
    runtime = open_runtime(load_settings())
    agent_runtime = open_agent_runtime(runtime)
    listening = asyncio.create_task(runtime.bus.run())
    async with asyncio.timeout(20):
        while not runtime.bus.has_others:  # noqa: ASYNC110 - as below
            await asyncio.sleep(0.01)
    try:
        yield agent_runtime
    finally:
        listening.cancel()
        await asyncio.wait({listening})
        await agent_runtime.close()
        await runtime.close()


async def _alone(agent_runtime: AgentRuntime, kind: str) -> list[float]:
    """From sending a message to hearing of it: the first piece of the answer, or that it was taken up."""
    session_id = (await agent_runtime.runtime.sessions.create(opened_by="bench")).id
    heard, waits = asyncio.Event(), []
    leave = agent_runtime.runtime.bus.subscribe(
        lambda _message: heard.set(),
        TextAppended if kind == "agent" else LogAppended,
        session_id=session_id,
    )
    # Other processes know of the watch a moment later.
    await asyncio.sleep(0.5)
    for _ in range(ALONE):
        heard.clear()
        began = time.perf_counter()
        task = await agent_runtime.tasks.put(session_id, "go", who="bench")
        await asyncio.wait_for(heard.wait(), 20)
        waits.append(time.perf_counter() - began)
        await _until(partial(_has_ended, agent_runtime, task.id))
    leave()
    return waits


async def _crowd(agent_runtime: AgentRuntime, tasks: int) -> float:
    """The seconds until all are done, all put as fast as it goes."""
    sessions = [
        (await agent_runtime.runtime.sessions.create(opened_by="bench")).id for _ in range(SESSIONS)
    ]
    before = await _done(agent_runtime)
    began = time.perf_counter()
    for _ in range(tasks):
        await asyncio.gather(
            *(agent_runtime.tasks.put(session_id, "go", who="bench") for session_id in sessions)
        )
    await _until(lambda: _are_done(agent_runtime, before + SESSIONS * tasks))
    return time.perf_counter() - began


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(300):
        while not await condition():  # noqa: ASYNC110 - other processes set no event
            await asyncio.sleep(0.01)


async def _has_ended(agent_runtime: AgentRuntime, task_id: str) -> bool:
    return (await agent_runtime.tasks.get(task_id)).status.is_end


async def _are_done(agent_runtime: AgentRuntime, count: int) -> bool:
    return await _done(agent_runtime) >= count


async def _done(agent_runtime: AgentRuntime) -> int:
    rows = await agent_runtime.runtime.database.read(lambda db: db.query(DONE))
    return int(rows[0][0])
