"""Lets the agent work on a task, and tells whoever follows what it does meanwhile."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from interlock.agent.agent import AgentLoop
from interlock.agent.events import AgentEvent, AskUser, TaskEnded
from interlock.agent.recording import Assignment
from interlock.config.modes import ToolMode
from interlock.session.lease import Lease
from interlock.worker.handler import Done, Failed, TaskOutcome, Waiting
from interlock.worker.rows import Task

# Called with the task and what its agent just did; it must not wait.
Publish = Callable[[Task, AgentEvent], None]


class AgentHandler:
    def __init__(self, loop: AgentLoop, publish: Publish) -> None:
        self._loop = loop
        self._publish = publish

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
            working.cancel()
            await asyncio.wait({working})

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
                self._publish(task, event)
                if isinstance(event, AskUser):
                    outcome = Waiting(event.question_id)
                elif isinstance(event, TaskEnded):
                    outcome = Done() if event.status == "done" else Failed(event.sentence)
        return outcome
