"""What does the work of a task, and what it may come to."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from interlock.runtime.task_rows import Task
from interlock.sessions.leases import Lease


@dataclass(frozen=True, slots=True)
class DoneOutcome:
    pass


@dataclass(frozen=True, slots=True)
class FailedOutcome:
    """`reason` is one sentence for the person."""

    reason: str


@dataclass(frozen=True, slots=True)
class WaitingOutcome:
    """The task has asked, and goes on when this question is closed. Others of it may still be open then.

    Only for a question that was open when the handler looked: who waits again for a closed one is called
    again at once.
    """

    question_id: str


TaskOutcome = DoneOutcome | FailedOutcome | WaitingOutcome


class TaskHandler(Protocol):
    """It writes under `lease.token` and in `task.scope`, and keeps to `task.mode`.

    When `cancelled` is set it should wind down and return, whatever it returns; a while later it is
    cancelled, as it is at once when the lease is lost. More than one attempt means: go on from the log.
    Calls that a dead worker left open have been settled before.
    """

    async def handle(self, task: Task, lease: Lease, cancelled: asyncio.Event) -> TaskOutcome: ...
