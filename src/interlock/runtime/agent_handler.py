"""Runs the agent on a task, and publishes its events to subscribers."""

import asyncio
from contextlib import aclosing

from interlock.agent.events import AskUser, TaskEnded
from interlock.agent.loop import AgentLoop
from interlock.agent.task_recorder import TaskAssignment
from interlock.core.errors import InterlockError
from interlock.core.logging import StructuredLogger
from interlock.db.leases import Lease
from interlock.runtime.live_stream import LiveStream
from interlock.runtime.task_handler import DoneOutcome, FailedOutcome, TaskOutcome, WaitingOutcome
from interlock.runtime.task_rows import Task
from interlock.runtime.tasks import TaskService
from interlock.sessions.manager import SessionManager
from interlock.sessions.models import Role

_log = StructuredLogger(__name__)


class AgentHandler:
    def __init__(
        self, loop: AgentLoop, live: LiveStream, sessions: SessionManager, tasks: TaskService
    ) -> None:
        self._loop = loop
        self._live = live
        self._sessions = sessions
        self._tasks = tasks

    async def handle(self, task: Task, lease: Lease, cancelled: asyncio.Event) -> TaskOutcome:
        try:
            return await self._work(task, lease)
        except (Exception, asyncio.CancelledError):
            if not cancelled.is_set():
                raise
            await self._store_shown_text(task, lease)
            return FailedOutcome("it was cancelled")
        finally:
            self._live.ended(task)

    async def _store_shown_text(self, task: Task, lease: Lease) -> None:
        """Store text that was shown before the task was cancelled, so that a reload shows it too."""
        shown = self._live.running_text(task.session_id)
        if shown is None or shown.task_id != task.id or not shown.text.strip():
            return
        try:
            said = await self._sessions.transcript(task.session_id, after_seq=task.message_seq)
            if any(each.role is Role.assistant and each.content.startswith(shown.text) for each in said):
                return
            await self._sessions.append_message(
                task.session_id, Role.assistant, shown.text, scope=task.scope, token=lease.token
            )
        except InterlockError as error:
            _log.warning("text_not_kept", session_id=task.session_id, error=str(error))

    async def _work(self, task: Task, lease: Lease) -> TaskOutcome:
        assignment = TaskAssignment(
            mode=task.mode,
            scope=task.scope,
            lease_token=lease.token,
            is_held=lease.is_held,
            attempt=task.attempts,
            who=task.who,
            take_steering=lambda before: self._tasks.take_steering(task, lease, before),
        )
        outcome: TaskOutcome = FailedOutcome("the agent ended without an answer")
        async with aclosing(self._loop.handle_message(task.session_id, None, assignment)) as events:
            async for event in events:
                self._live.publish(task, event)
                if isinstance(event, AskUser):
                    outcome = WaitingOutcome(event.question_id)
                elif isinstance(event, TaskEnded):
                    outcome = DoneOutcome() if event.status == "done" else FailedOutcome(event.sentence)
        return outcome
