"""A process that writes to a session, to be fought with, stopped and killed by the tests.

    python -m tests.e2e.writer_process ROLE URL SESSION NAME

It prints one JSON line for every acknowledged write, unbuffered, after the acknowledgement.
"""

import asyncio
import json
import os
import sys

from interlock.config.modes import ToolMode
from interlock.core.errors import SessionFenced
from interlock.db.database import StoreConfig, open_database
from interlock.db.leases import Leases
from interlock.gates.gate import ToolCall
from interlock.gates.runner import ToolRunner
from interlock.log.kinds import SessionRenamed
from interlock.log.stream_appender import EventScope
from interlock.log.writer import EventLog
from interlock.policy.authority import compile_authority
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.redaction.redactor import Redactor
from interlock.tools.registry import ToolRegistry
from interlock.tools.tool import Effect, PolicySwitch, ToolContext
from interlock.wiring.projections import PROJECTIONS
from tests.harness.tools import DeclaredTool

APPENDS_PER_TURN = 5


def tell(**facts: object) -> None:
    os.write(1, json.dumps(facts).encode() + b"\n")


async def fight(log: EventLog, session: str, name: str) -> None:
    """Take the session whenever it is free, write a little, give it back: until killed or told to end."""
    leases = Leases(log, seconds=10)
    for _ in range(40):
        lease = await leases.take(session, name)
        while lease is None:
            await asyncio.sleep(0.001)
            lease = await leases.take(session, name)
        for _ in range(APPENDS_PER_TURN):
            event = SessionRenamed(who=name, title=str(lease.token))
            (recorded,) = await log.append(session, event, token=lease.token)
            tell(seq=recorded.seq, token=lease.token)
        await leases.release(lease)


async def pour(log: EventLog, session: str, name: str) -> None:
    """Append as fast as possible from several coroutines at once, until killed."""

    async def one(number: int) -> None:
        for count in range(1_000_000):
            title = f"{number}-{count}"
            (recorded,) = await log.append(session, SessionRenamed(who=name, title=title))
            tell(seq=recorded.seq, title=title)

    await asyncio.gather(*(one(number) for number in range(8)))


async def wake_late(log: EventLog, session: str, name: str) -> None:
    """Write once under a short lease, wait to be told, and try to write again under the same one."""
    lease = await Leases(log, seconds=1.0).take(session, name)
    assert lease is not None
    await log.append(session, SessionRenamed(who=name, title="in time"), token=lease.token)
    tell(held=lease.token)
    sys.stdin.readline()
    try:
        await log.append(session, SessionRenamed(who=name, title="too late"), token=lease.token)
        tell(outcome="written")
    except SessionFenced:
        tell(outcome="fenced")


async def call_for_ever(log: EventLog, session: str, name: str) -> None:
    """Make one tool call that tells it is running and never ends."""

    async def run(_arguments: object, _context: object) -> None:
        tell(running=True)
        await asyncio.sleep(3600)

    registry = ToolRegistry()
    registry.register(
        DeclaredTool("writer", effect=Effect.write, switches=frozenset({PolicySwitch.fs}), run=run)
    )
    authority = compile_authority(registry, AuthorityInputs(mode=ToolMode.chat_safe))
    runner = ToolRunner(registry, log, Redactor())
    await runner.call(ToolCall(name, "writer", "{}"), authority, ToolContext(session, EventScope("task_1")))


def main() -> None:
    role, url, session, name = sys.argv[1:]
    database = open_database(StoreConfig(url, busy_timeout_seconds=30))
    log = EventLog(database, Redactor(), PROJECTIONS)
    asyncio.run(ROLES[role](log, session, name))
    log.close()
    database.close()


ROLES = {"fight": fight, "pour": pour, "wake_late": wake_late, "call_for_ever": call_for_ever}

if __name__ == "__main__":
    main()
