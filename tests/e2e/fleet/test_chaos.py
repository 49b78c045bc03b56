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
from pathlib import Path

import pytest

from tests.doubles.openai_server import KEY, OpenAIServer
from tests.e2e.fleet import model
from tests.e2e.fleet.crowd import Conversation, Person, begin
from tests.e2e.fleet.fleet import Fleet
from tests.e2e.fleet.judging import judge
from tests.e2e.fleet.mischief import Mischief
from tests.nats_server import NatsServer
from tests.postgres_server import PostgresServer

LEASE_SECONDS = 3.0
# What a person waits for, before something is lost.
PATIENCE_SECONDS = 420


def seed() -> int:
    """`CHAOS_SEED` repeats a run's dice; the order in which processes get to run is another matter."""
    return int(os.environ.get("CHAOS_SEED") or secrets.randbelow(2**31))


def tell(line: str) -> None:
    """Shown where the test fails, or with -s."""
    sys.stdout.write(f"{line}\n")


def settings(root: Path, server: OpenAIServer, **more: str) -> dict[str, str]:
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


async def chaos_on_many_machines(tmp_path: Path, *, sessions: int, tasks: int, pause: float) -> None:
    dice = random.Random(chosen := seed())
    root = tmp_path / "root"
    root.mkdir()
    postgres = await asyncio.to_thread(PostgresServer)
    nats = NatsServer(tmp_path / "nats").start()
    try:
        async with OpenAIServer(model.decide) as server:
            server.keeps_requests = False
            shared = {"DATABASE_URL": postgres.url, "NATS_URL": nats.url}
            fleet = Fleet(tmp_path, settings(root, server, **shared))
            try:
                for _ in range(3):
                    fleet.add_worker()
                for _ in range(2):
                    fleet.add_gateway()
                await fleet.opened()
                talks = await conversations(fleet, sessions, tasks)
                mischief = Mischief(fleet, dice, LEASE_SECONDS, postgres, nats, pause)
                began = time.monotonic()
                crowd = await crowded(fleet, mischief, talks, people=20)
                seconds = time.monotonic() - began
                figures = await asyncio.to_thread(judge, fleet, talks, root)
                assert {deed.__name__ for deed in mischief.deeds} <= set(mischief.done)
                comebacks = sum(person.comebacks for person in crowd)
                tell(f"seed {chosen}: {figures} in {seconds:.0f} s; {comebacks} comebacks; {mischief.done}")
            except BaseException:
                tell(f"CHAOS_SEED={chosen}")
                raise
            finally:
                await fleet.end()
            assert server.faults == []
    finally:
        nats.stop()
        await asyncio.to_thread(postgres.remove)


async def test_a_fleet_on_postgresql_and_nats_keeps_its_promises(tmp_path):
    await chaos_on_many_machines(tmp_path, sessions=200, tasks=10, pause=2.0)


@pytest.mark.full
@pytest.mark.parametrize("_round", range(5))
async def test_the_same_again_and_again(tmp_path, _round):
    await chaos_on_many_machines(tmp_path, sessions=200, tasks=10, pause=0.5)
