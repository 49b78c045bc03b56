"""A shop in which things happened at times, and what a sweep left of them."""

import json
from collections import defaultdict

from interlock.log import task_events
from interlock.log.retention import RetentionSweeper, SweepReport
from interlock.log.stream_appender import EventScope
from interlock.runtime.task_rows import Task, TaskStatus
from interlock.sessions.models import Role
from interlock.wiring.projections import verify
from tests.harness.store import StoreHarness
from tests.harness.tasks import TaskHarness

DAY_US = 86_400_000_000
NOON_US = 20_000 * DAY_US + DAY_US // 2
CALLS = [{"id": "c1", "name": "clock", "arguments": "{}"}]


class Clock:
    """What time it is for everybody who writes."""

    def __init__(self) -> None:
        self.now_us = NOON_US

    def __call__(self) -> int:
        return self.now_us

    def days_ago(self, days: float) -> None:
        self.now_us = NOON_US - int(days * DAY_US)


class Archive:
    """A shop in which things happened at times, and what is left of them."""

    def __init__(self, store: StoreHarness, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.shop = TaskHarness(store, lease_seconds=3600)

    async def say(self, session: str, role: Role, text: str, task: str | None = None, **more) -> None:
        await self.store.sessions.append_message(session, role, text, scope=EventScope(task), **more)

    async def begin(self, session: str, days_ago: float) -> tuple[Task, object]:
        """A task that asks a person and calls a tool."""
        self.clock.days_ago(days_ago)
        task, lease = await self.shop.started(session)
        turn = {"turn": 1, "finish_reason": "stop", "tool_calls": 1, "latency_ms": 1.0, "model": "m"}
        said = {"content": f"thinking of {task.id}", "calls": CALLS}
        used = task_events.TurnCompletedEvent(**turn, **said, input_tokens=10, output_tokens=1)
        await self.store.log.append(session, used, scope=task.scope)
        question = await self.shop.asked(task, lease)
        await self.shop.questions.answer(question.id, {"confirmed": True}, who="ada")
        await self.say(session, Role.assistant, f"answer to {task.id}", task.id)
        return task, lease

    async def end(self, task: Task, lease, days_ago: float) -> None:
        self.clock.days_ago(days_ago)
        await self.shop.tasks.finish(task.id, TaskStatus.failed, f"because of {task.id}", lease)
        await self.shop.leases.release(lease)

    async def task(self, session: str, days_ago: float) -> Task:
        task, lease = await self.begin(session, days_ago)
        await self.end(task, lease, days_ago)
        return task

    async def session(self, days_ago: float, identity: str | None = None) -> str:
        self.clock.days_ago(days_ago)
        created = await self.shop.sessions.create(opened_by="ada", title="a talk", session_id=identity)
        return created.id

    def retention(self, days: int = 30, store: StoreHarness | None = None) -> RetentionSweeper:
        self.clock.days_ago(0)
        chosen = store or self.store
        return RetentionSweeper(chosen.log, chosen.database, days, self.clock)

    async def sweep(self, days: int = 30) -> SweepReport:
        return await self.retention(days).sweep()

    def faults(self, **options) -> list[str]:
        with self.store.database.reading() as connection:
            return [str(fault) for fault in verify(connection, **options).faults]

    def told(self, kind: str = "log.erased") -> list[dict]:
        rows = self.store.query("SELECT facts FROM events WHERE kind = ? ORDER BY position", kind)
        return [json.loads(row[0]) for row in rows]

    def left(self, session: str, task: str | None = None) -> set[str]:
        """The kinds of which content is left."""
        rows = self.store.query(
            "SELECT kind, task FROM events WHERE stream = ? AND content IS NOT NULL", session
        )
        return {kind for kind, of in rows if task is None or of == task}

    def erased(self, session: str) -> list[int]:
        erased = "content IS NULL AND content_hash IS NOT NULL"
        sql = f"SELECT seq FROM events WHERE stream = ? AND {erased} ORDER BY seq"
        return [row[0] for row in self.store.query(sql, session)]

    async def words(self, session: str) -> list[str]:
        return [message.content for message in await self.store.sessions.transcript(session)]

    def dump(self) -> str:
        """Every text that is in the store."""
        rows: list = []
        for table in ("events", "event_texts", "questions", "tasks"):
            rows += self.store.query(f"SELECT * FROM {table}")
        return repr(rows)


def numbers(ranges: list[list[int]]) -> list[int]:
    return [number for first, last in ranges for number in range(first, last + 1)]


def halves(store: StoreHarness) -> list[str]:
    """Tasks of which some messages are left and some are not."""
    sql = "SELECT task, content IS NULL FROM events WHERE kind IN "
    sql += "('message.appended', 'turn.completed', 'tool_call.completed', 'tool_call.failed')"
    states = defaultdict(set)
    for task, is_gone in store.query(sql):
        states[task].add(bool(is_gone))
    return [task for task, found in states.items() if len(found) == 2]
