"""Lets the agent work on a task, and tells whoever watches what it does meanwhile."""

import asyncio
from contextlib import aclosing

from interlock.agent.agent import AgentLoop
from interlock.agent.events import AskUser, TaskEnded
from interlock.agent.recording import Assignment
from interlock.config.modes import ToolMode
from interlock.session.lease import Lease
from interlock.worker.handler import Done, Failed, TaskOutcome, Waiting
from interlock.worker.live import Live
from interlock.worker.rows import Task


class AgentHandler:
    def __init__(self, loop: AgentLoop, live: Live) -> None:
        self._loop = loop
        self._live = live

    async def handle(self, task: Task, lease: Lease, cancelled: asyncio.Event) -> TaskOutcome:
        working = asyncio.ensure_future(self._work(task, lease))
        hearing = asyncio.ensure_future(cancelled.wait())
        try:
            await asyncio.wait({working, hearing}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            return Failed("it was cancelled")
        finally:
            hearing.cancel()
            await _ended(working)
            self._live.ended(task)

    async def _work(self, task: Task, lease: Lease) -> TaskOutcome:
        assignment = Assignment(
            session_id=task.session_id,
            mode=task.mode or ToolMode.chat_safe,
            scope=task.scope,
            lease_token=lease.token,
            attempt=task.attempts,
        )
        outcome: TaskOutcome = Failed("the agent ended without an answer")
        async with aclosing(self._loop.work(assignment)) as events:
            async for event in events:
                self._live.publish(task, event)
                if isinstance(event, AskUser):
                    outcome = Waiting(event.question_id)
                elif isinstance(event, TaskEnded):
                    outcome = Done() if event.status == "done" else Failed(event.sentence)
        return outcome


async def _ended(working: "asyncio.Future[TaskOutcome]") -> None:
    """Whoever is in a hurry waits too: what is left behind would go on beside the session's next task."""
    working.cancel()
    while not working.done():
        try:
            await asyncio.wait({working})
        except asyncio.CancelledError:
            working.cancel()
    if not working.cancelled():
        # Looked at: what went wrong while it was being ended is nobody's any more.
        working.exception()
