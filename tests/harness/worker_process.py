"""A worker in a process of its own, to be killed, stopped and continued by the tests.

    python -m tests.harness.worker_process URL NAME LEASE_SECONDS MAX_INTERRUPTIONS

What it does for a task is what the message says. It tells what happens as JSON lines, unbuffered.
"""

import asyncio
import json
import os
import signal
import sys
import time
from dataclasses import dataclass

from interlock.config.modes import ToolMode
from interlock.core.errors import SessionFenced
from interlock.db.database import Database, StoreConfig, open_database
from interlock.db.leases import Lease
from interlock.db.process_liveness import ProcessLocks
from interlock.gates.gate import ToolCall
from interlock.gates.runner import ToolRunner
from interlock.log.kinds import SessionRenamed
from interlock.log.writer import EventLog
from interlock.policy.authority import compile_authority
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.redaction.redactor import Redactor
from interlock.runtime.task_handler import DoneOutcome, TaskOutcome, WaitingOutcome
from interlock.runtime.task_rows import Task
from interlock.tools.registry import ToolRegistry
from interlock.tools.tool import Effect, PolicySwitch, ToolContext
from interlock.wiring.projections import PROJECTIONS
from tests.harness.tasks import TaskHarness
from tests.harness.tools import DeclaredTool


@dataclass
class OpenStore:
    database: Database
    log: EventLog


def tell(**facts: object) -> None:
    os.write(1, json.dumps(facts).encode() + b"\n")


class MessageDrivenHandler:
    def __init__(self, shop: TaskHarness, lease_seconds: float) -> None:
        self._shop = shop
        self._lease_seconds = lease_seconds

    async def handle(self, task: Task, lease: Lease, cancelled: asyncio.Event) -> TaskOutcome:
        messages = await self._shop.sessions.transcript(task.session_id, after_seq=task.message_seq - 1)
        tell(began=task.id, attempt=task.attempts)
        try:
            outcome = await getattr(self, messages[0].content)(task, lease)
        except asyncio.CancelledError:
            tell(broken_off=task.id, lost=lease.lost.is_set())
            raise
        tell(ended=task.id)
        return outcome

    async def note(self, task: Task, lease: Lease) -> TaskOutcome:
        """Write a little, twice, with a moment between."""
        for _ in range(2):
            await self._write(task, lease)
            await asyncio.sleep(0.05)
        return DoneOutcome()

    async def call(self, task: Task, lease: Lease) -> TaskOutcome:
        """At the first attempt a tool call that never ends."""
        if task.attempts > 1:
            return DoneOutcome()

        async def run(_arguments: object, _context: object) -> None:
            tell(calling=task.id)
            await asyncio.sleep(3600)

        registry = ToolRegistry()
        switches = frozenset({PolicySwitch.fs})
        registry.register(DeclaredTool("writer", effect=Effect.write, switches=switches, run=run))
        authority = compile_authority(registry, AuthorityInputs(mode=ToolMode.chat_safe))
        runner = ToolRunner(registry, self._shop.store.log, Redactor())
        context = ToolContext(task.session_id, task.scope, lease.token)
        await runner.call(ToolCall("call_1", "writer", "{}"), authority, context)
        return DoneOutcome()

    async def oversleep(self, task: Task, lease: Lease) -> TaskOutcome:
        """At the first attempt wait to be stopped for long, and then try to write."""
        await self._write(task, lease)
        before = time.monotonic()
        while task.attempts == 1:
            await asyncio.sleep(0.02)
            if time.monotonic() - before > self._lease_seconds:
                try:
                    await self._write(task, lease)
                    tell(written_late=task.id)
                except SessionFenced:
                    tell(fenced=task.id)
                    raise
            before = time.monotonic()
        return DoneOutcome()

    async def ask(self, task: Task, lease: Lease) -> TaskOutcome:
        if task.attempts > 1:
            return DoneOutcome()
        return WaitingOutcome((await self._shop.asked(task, lease)).id)

    async def die(self, _task: Task, _lease: Lease) -> TaskOutcome:
        os.kill(os.getpid(), signal.SIGKILL)
        return DoneOutcome()

    async def _write(self, task: Task, lease: Lease) -> None:
        event = SessionRenamed(who=lease.holder, title=task.id)
        await self._shop.store.log.append(task.session_id, event, scope=task.scope, token=lease.token)


async def work(url: str, name: str, lease_seconds: float, max_interruptions: int) -> None:
    database = open_database(StoreConfig(url, busy_timeout_seconds=5))
    log = EventLog(database, Redactor(), PROJECTIONS)
    config = database.config
    shop = TaskHarness(
        OpenStore(database, log),
        lease_seconds=lease_seconds,
        max_interruptions=max_interruptions,
        lives=ProcessLocks(config.path.with_name("lives")) if config.is_sqlite else None,
    )
    worker = shop.worker(
        MessageDrivenHandler(shop, lease_seconds), name, poll_seconds=0.1, stop_grace_seconds=0
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    tell(ready=name)
    await worker.run()
    log.close()
    database.close()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])))
