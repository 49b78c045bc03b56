"""Everything about tasks above one store, and small handlers to work on them with."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.config.modes import ToolMode
from interlock.db.leases import Lease, Leases, session_lease
from interlock.db.process_liveness import ProcessLocks
from interlock.log.kinds import ToolCallStarted
from interlock.log.read import iter_stream
from interlock.log.stream_appender import EventScope
from interlock.log.tree import payload_of
from interlock.questions.service import AskingCall, QuestionService
from interlock.questions.widgets import read_widget
from interlock.redaction.redactor import Redactor
from interlock.runtime.bus import Bus, WorkAvailable
from interlock.runtime.task_handler import DoneOutcome, TaskOutcome
from interlock.runtime.task_rows import Task, TaskStatus
from interlock.runtime.tasks import MAX_INTERRUPTIONS, TaskService
from interlock.runtime.work_queue import WorkQueue
from interlock.runtime.worker import Worker, WorkerLimits
from interlock.runtime.workflow_runs import WorkflowRunService
from interlock.sessions.manager import SessionManager
from interlock.wiring.projections import verify
from interlock.workflow.directory import WorkflowDirectory
from interlock.workflow.run_reader import RunReader

# The processes of these tests start in a fraction of the time without what only pytest needs.
if TYPE_CHECKING:
    from tests.harness.store import StoreHarness

CONFIRMATION = {"type": "confirmation", "message": "Delete the folder?"}
SECRET = "sk-known-secret-value"
PATIENCE_SECONDS = 90.0

Handling = Callable[[Task, Lease, asyncio.Event], Awaitable[TaskOutcome]]


class ScriptedHandler:
    """Does what it is given, and remembers which tasks it was called for."""

    def __init__(self, handling: Handling | None = None) -> None:
        self._handling = handling
        self.seen: list[Task] = []

    async def handle(self, task: Task, lease: Lease, cancelled: asyncio.Event) -> TaskOutcome:
        self.seen.append(task)
        return DoneOutcome() if self._handling is None else await self._handling(task, lease, cancelled)


class TaskHarness:
    def __init__(
        self,
        store: "StoreHarness",
        *,
        queue_limit: int = 20,
        lease_seconds: float = 5.0,
        max_interruptions: int = MAX_INTERRUPTIONS,
        lives: ProcessLocks | None = None,
    ) -> None:
        self.store = store
        self.redactor = Redactor([SECRET])
        self.bus = Bus()
        self.questions = QuestionService(store.database, store.log, self.redactor, self.notify)
        self.sessions = SessionManager(
            *(store.database, store.log, self.redactor),
            default_mode=ToolMode.chat_safe,
            open_modes=frozenset(ToolMode),
        )
        self.leases = Leases(store.log, seconds=lease_seconds, lives=lives)
        self.backlog = WorkQueue(store.database, self.leases.is_gone)
        self.tasks = TaskService(
            *(store.database, store.log, self.redactor, self.sessions, self.questions, self.bus),
            queue_limit=queue_limit,
            max_interruptions=max_interruptions,
        )
        self.runs = WorkflowRunService(
            *(RunReader(store.database, store.log, self.redactor), self.tasks, self.sessions),
            *(store.log, self.redactor, self.bus),
            WorkflowDirectory(Path("no-workflows"), (), dict),
        )

    def notify(self, session_id: str) -> None:
        self.bus.publish(WorkAvailable(session_id))

    def worker(self, handler, name: str = "w1", *, bus=None, **limits) -> Worker:
        return Worker(
            name,
            handler,
            log=self.store.log,
            tasks=self.tasks,
            backlog=self.backlog,
            bus=bus or self.bus,
            leases=self.leases,
            limits=WorkerLimits(**{"poll_seconds": 0.2, **limits}),
        )

    @asynccontextmanager
    async def working(self, handler, *args, **options) -> AsyncIterator[Worker]:
        worker = self.worker(handler, *args, **options)
        run = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()
            await asyncio.wait_for(run, PATIENCE_SECONDS)

    async def session(self, mode: ToolMode = ToolMode.chat_safe) -> str:
        return (await self.sessions.create(opened_by="test", mode=mode)).id

    async def put(self, session_id: str, content: str = "hello") -> Task:
        return await self.tasks.put(session_id, content, who="ada")

    async def started(self, session_id: str) -> tuple[Task, Lease]:
        """A task of its own, taken up by a worker that holds the session."""
        task = await self.put(session_id)
        lease = await self.leases.take(session_id, "w1")
        return await self.tasks.start(task.id, lease), lease

    async def asked(self, task: Task, lease: Lease):
        """A question that the task put, as the tool would."""
        intent = ToolCallStarted(
            call_id="call_1",
            tool_name="ask_user",
            mode=task.mode,
            authority_digest="d",
            redacted=False,
            requested_name="ask_user",
            arguments=CONFIRMATION,
            effect="ask",
            timeout_seconds=30,
        )
        (recorded,) = await self.store.log.append(
            task.session_id, intent, scope=task.scope, token=lease.token
        )
        call = AskingCall(
            *(task.session_id, "call_1", "ask_user", task.mode, "d"),
            scope=EventScope(task.id, recorded.id),
            lease_token=lease.token,
        )
        return await self.questions.ask(read_widget(CONFIRMATION), call)

    async def parked(self, session_id: str):
        """A task that waits for the answer to a question, and nobody holds the session."""
        task, lease = await self.started(session_id)
        question = await self.asked(task, lease)
        task = await self.tasks.wait(task.id, question.id, lease)
        await self.leases.release(lease)
        return task, question

    async def ended(self, *task_ids: str) -> list[Task]:
        return [await self.reached(task_id, *(s for s in TaskStatus if s.is_end)) for task_id in task_ids]

    async def reached(self, task_id: str, *statuses: TaskStatus) -> Task:
        async def there() -> Task | None:
            task = await self.tasks.get(task_id)
            return task if task.status in statuses else None

        return await until(there)

    def events(self, session_id: str) -> list[tuple[str, dict]]:
        with self.store.database.reading() as connection:
            stored = list(iter_stream(connection, session_id))[1:]
        return [(event.header.kind, payload_of(event)) for event in stored]

    def kinds(self, session_id: str) -> list[str]:
        return [kind for kind, _ in self.events(session_id)]

    def ends(self, session_id: str) -> list[tuple[str, str]]:
        """How each task ended, as the log tells it, in order."""
        return [
            (payload["task_id"], payload.get("status", "cancelled"))
            for kind, payload in self.events(session_id)
            if kind in {"task.finished", "task.cancelled"}
        ]

    def faults(self) -> list[str]:
        with self.store.database.reading() as connection:
            return [str(fault) for fault in verify(connection).faults]

    def expire_lease(self, session_id: str) -> None:
        self.store.execute("UPDATE leases SET expires_ms = 1 WHERE name = ?", session_lease(session_id))


async def until(condition, seconds: float = PATIENCE_SECONDS):
    """What `condition` comes to, as soon as that is something."""
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            found = await found if asyncio.iscoroutine(found) else found
            if found:
                return found
            await asyncio.sleep(0.01)
