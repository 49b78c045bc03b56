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
from interlock.sessions.manager import SessionManager
from interlock.sessions.models import Role

_log = StructuredLogger(__name__)


class AgentHandler:
    def __init__(self, loop: AgentLoop, live: LiveStream, sessions: SessionManager) -> None:
        self._loop = loop
        self._live = live
        self._sessions = sessions

    async def handle(self, task: Task, lease: Lease, cancelled: asyncio.Event) -> TaskOutcome:
        working = asyncio.ensure_future(self._work(task, lease))
        hearing = asyncio.ensure_future(cancelled.wait())
        try:
            await asyncio.wait({working, hearing}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            shown = self._live.running_text(task.session_id)
            await _ended(working)
            if shown is not None and shown.task_id == task.id:
                await self._keep(task, lease, shown.text)
            return FailedOutcome("it was cancelled")
        finally:
            hearing.cancel()
            await _ended(working)
            self._live.ended(task)

    async def _keep(self, task: Task, lease: Lease, text: str) -> None:
        """Store text that was shown before the task was cancelled, so that a reload shows it too."""
        try:
            said = await self._sessions.transcript(task.session_id, after_seq=task.message_seq)
            is_stored = any(each.role is Role.assistant and each.content.startswith(text) for each in said)
            if is_stored or not text.strip():
                return
            await self._sessions.append_message(
                task.session_id, Role.assistant, text, scope=task.scope, token=lease.token
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


async def _ended(working: "asyncio.Future[TaskOutcome]") -> None:
    """Cancel and wait, even in a hurry: leftover work would overlap with the session's next task."""
    working.cancel()
    while not working.done():
        try:
            await asyncio.wait({working})
        except asyncio.CancelledError:
            working.cancel()
    if not working.cancelled():
        # Retrieve the exception so that asyncio does not log it.
        working.exception()
