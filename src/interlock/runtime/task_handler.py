"""The interface of the code that works on a task, and its outcomes."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from interlock.db.leases import Lease
from interlock.runtime.task_rows import Task


@dataclass(frozen=True, slots=True)
class DoneOutcome:
    pass


@dataclass(frozen=True, slots=True)
class FailedOutcome:
    """The task failed. `reason` is one sentence for the person."""

    reason: str


@dataclass(frozen=True, slots=True)
class WaitingOutcome:
    """The task waits until this question is closed. Its other questions may still be open then.

    Only for a question that was open when the handler checked: waiting for a closed one restarts the
    handler at once.
    """

    question_id: str


TaskOutcome = DoneOutcome | FailedOutcome | WaitingOutcome


class TaskHandler(Protocol):
    """Works on a task: writes under `lease.token` and in `task.scope`, and keeps to `task.mode`.

    Its coroutine is cancelled when it must end. If `cancelled` is set by then, the task itself was
    cancelled: the handler has a grace period to store what is left, and may return anything. More than one
    attempt means: resume from the log. Calls left open by a dead worker have been settled before.
    """

    async def handle(self, task: Task, lease: Lease, cancelled: asyncio.Event) -> TaskOutcome: ...
