"""Workers, gateways, the database and NATS are killed, stopped and restarted while hundreds of tasks run.

Every task ends once, in the order of its session; nothing is written twice; every chain verifies; whoever
follows misses nothing.
"""

import asyncio
import os
import random
import secrets
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.fleet import model
from tests.e2e.fleet.crowd import Conversation, Person, begin
from tests.e2e.fleet.fleet import Fleet
from tests.e2e.fleet.judging import judge
from tests.e2e.fleet.mischief import Mischief
from tests.harness.external_services import NatsServer, PostgresServer
from tests.harness.model_server import KEY, ModelServer

pytestmark = pytest.mark.full

# Under a load of many processes on two cores, a heartbeat may come late.
LEASE_SECONDS = 6.0
# What a person waits for, before something is lost.
PATIENCE_SECONDS = 420


def dice_of_this_run() -> random.Random:
    """`CHAOS_SEED` repeats a run's dice; the order in which processes get to run is another matter."""
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(2**31))
    tell(f"CHAOS_SEED={seed}")
    return random.Random(seed)


def tell(line: str) -> None:
    """Shown where the test fails, or with -s."""
    sys.stdout.write(f"{line}\n")


def settings(root: Path, server: ModelServer, **more: str) -> dict[str, str]:
    return {
        "MODEL": "openai:double-1",
        "OPENAI_BASE_URL": server.base_url,
        "OPENAI_API_KEY": KEY,
        "SESSION_OPEN_MODES": "coding",
        "SESSION_LEASE_SECONDS": str(LEASE_SECONDS),
        "TOOL_ALLOWED_ROOTS": str(root),
        **more,
    }


async def conversations(fleet: Fleet, sessions: int, tasks: int) -> list[Conversation]:
    made = await begin(fleet.gateways[0].port, fleet.token, sessions, "coding")
    found = []
    for session_id in made:
        ids = [f"t_{secrets.token_hex(8)}" for _ in range(tasks)]
        messages = [(task_id, model.order(task_id, f"{session_id}.txt")) for task_id in ids]
        found.append(Conversation(session_id, messages))
    return found


async def crowded(fleet: Fleet, mischief: Mischief, talks: list[Conversation], people: int) -> list[Person]:
    """All talk until their tasks have ended, while things go wrong."""
    ports = [gateway.port for gateway in fleet.gateways]
    crowd = [
        Person(ports[place % len(ports) :] + ports[: place % len(ports)], fleet.token, talks[place::people])
        for place in range(people)
    ]
    trouble = asyncio.create_task(mischief.run())
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*(person.run() for person in crowd))
            mischief.is_over = True
            await trouble
    except TimeoutError:
        open_tasks = [each.session_id for each in talks if not each.is_over]
        pytest.fail(f"after {mischief.done}: {len(open_tasks)} sessions are not done: {open_tasks[:5]}")
    finally:
        trouble.cancel()
        await asyncio.gather(trouble, return_exceptions=True)
    return crowd


@asynccontextmanager
async def at_work(folder: Path, shared: Mapping[str, str]) -> AsyncIterator[tuple[Fleet, Path]]:
    """A fleet without processes yet, whose model does as it is told, and the folder they all work in."""
    root = folder / "root"
    root.mkdir()
    async with ModelServer(model.decide) as server:
        server.keeps_requests = False
        fleet = Fleet(folder, settings(root, server, **shared), shares_state="DATABASE_URL" not in shared)
        try:
            yield fleet, root
        finally:
            await fleet.end()
        assert server.faults == []


async def chaos(mischief: Mischief, root: Path, *, sessions: int, tasks: int, people: int) -> int:
    """How many tasks were done, each of them once; it raises where a promise was broken."""
    fleet = await mischief.fleet.opened()
    talks = await conversations(fleet, sessions, tasks)
    began = time.monotonic()
    crowd = await crowded(fleet, mischief, talks, people)
    seconds = time.monotonic() - began
    figures = await asyncio.to_thread(judge, fleet, talks, root)
    assert {deed.__name__ for deed in mischief.deeds} <= set(mischief.done)
    comebacks = sum(person.comebacks for person in crowd)
    tell(f"{figures} in {seconds:.0f} s; {comebacks} comebacks; {mischief.done}")
    done: int = figures["tasks"]
    return done


async def chaos_on_many_machines(folder: Path, *, sessions: int, tasks: int, pause: float) -> int:
    dice = dice_of_this_run()
    postgres = await asyncio.to_thread(PostgresServer)
    nats = NatsServer(folder / "nats").start()
    try:
        shared = {"DATABASE_URL": postgres.url, "NATS_URL": nats.url}
        async with at_work(folder, shared) as (fleet, root):
            for _ in range(3):
                fleet.add_worker()
            for _ in range(2):
                fleet.add_gateway()
            mischief = Mischief(fleet, dice, LEASE_SECONDS, postgres, nats, pause)
            return await chaos(mischief, root, sessions=sessions, tasks=tasks, people=20)
    finally:
        nats.stop()
        await asyncio.to_thread(postgres.remove)


async def test_a_fleet_on_postgresql_and_nats_keeps_its_promises(tmp_path):
    assert await chaos_on_many_machines(tmp_path, sessions=200, tasks=4, pause=1.5) == 800


@pytest.mark.full
@pytest.mark.parametrize("_round", range(5))
async def test_the_same_again_and_again(tmp_path, _round):
    assert await chaos_on_many_machines(tmp_path, sessions=200, tasks=10, pause=0.5) == 2000


async def test_one_machine_with_two_workers_keeps_them_too(tmp_path):
    async with at_work(tmp_path, {"WORKER_STABLE_SECONDS": "0.5"}) as (fleet, root):
        serving = fleet.add_gateway("--workers", "2")
        fleet.add_children(serving, 2)
        mischief = Mischief(fleet, dice_of_this_run(), LEASE_SECONDS, pause_seconds=1.5)
        assert await chaos(mischief, root, sessions=24, tasks=5, people=6) == 120
