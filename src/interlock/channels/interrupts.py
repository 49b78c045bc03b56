"""Ctrl-C while something is carried out for a person at a terminal.

The first one cancels what is worked on, the second does not wait for it, and one more leaves. What was
cancelled stops here at once. It is written down as soon as the store takes it, and before that nobody
leaves without being told.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from interlock.infra.errors import StoreError, TaskNotFound, WrongTaskStatus, may_pass
from interlock.infra.logging import Log
from interlock.worker.rows import Task, TaskStatus
from interlock.worker.session_work import SessionWork
from interlock.worker.tasks import TaskDesk

if TYPE_CHECKING:
    from types import FrameType

_log = Log(__name__)

FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.05, 2.0


class Interrupts:
    """Of one thing that is carried out in one session, by whoever works or follows there."""

    def __init__(self, session_id: str, tasks: TaskDesk, work: SessionWork, *, who: str) -> None:
        self._session_id = session_id
        self._tasks = tasks
        self._work = work
        self._who = who
        self._is_begun = self._came_early = False
        self._task_id: str | None = None
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._leave: Callable[[], object] = lambda: None

    @contextmanager
    def heard(self) -> Iterator[None]:
        """In the main thread: whoever runs this in another one has other ways to cancel."""
        loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
        try:
            loop.add_signal_handler(signal.SIGINT, self._interrupted)
        except (RuntimeError, ValueError):
            yield
            return
        self._leave = lambda: _as_before(before)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            # It would be Python's own instead, which breaks off whatever the loop is at.
            signal.signal(signal.SIGINT, before)
            self._give_up()

    async def beginning(self, begin: Callable[[], Awaitable[Task]]) -> Task:
        """What is begun cannot be called back: interrupted meanwhile, it is cancelled once it is there."""
        self._is_begun = True
        try:
            task = await begin()
        except asyncio.CancelledError:
            _log.error("left_before_the_store_answered", session_id=self._session_id)
            raise
        self._task_id = task.id
        if self._came_early:
            self._cancel((task.id,))
        return task

    @property
    def have_come(self) -> bool:
        return bool(self._writing)

    async def written_down(self) -> None:
        """Until the store says of everything that was cancelled here that it is."""
        await asyncio.gather(*self._writing.values())

    def _interrupted(self) -> None:
        if not self._is_begun or (self._task_id is None and self._came_early):
            self._leave()
        elif self._task_id is None:
            self._came_early = True
        elif new := [each for each in self._work.at_work or (self._task_id,) if each not in self._writing]:
            self._cancel(new)
        elif self._work.at_work and not self._work.hurrying.is_set():
            self._work.hurrying.set()
        else:
            self._leave()

    def _cancel(self, task_ids: "list[str] | tuple[str, ...]") -> None:
        is_here = bool(self._work.at_work)
        for task_id in task_ids:
            self._work.cancel(task_id, who=self._who)
            self._writing[task_id] = asyncio.create_task(self._write(task_id, is_here=is_here))

    async def _write(self, task_id: str, *, is_here: bool) -> None:
        """What was put earlier may be at work elsewhere: then it is that."""
        delay, meant = FIRST_DELAY_SECONDS, [task_id] if is_here else []
        while True:
            try:
                if not meant:
                    running = await self._tasks.list_tasks(
                        session_id=self._session_id, status=TaskStatus.running
                    )
                    meant = [task.id for task in running] or [task_id]
                for each in meant:
                    with suppress(WrongTaskStatus, TaskNotFound):
                        await self._tasks.cancel(each, who=self._who)
                return await self._work.pass_on_cancels()
            except StoreError as error:
                if not may_pass(error):
                    raise
                if delay == FIRST_DELAY_SECONDS:
                    _log.error("cancel_waits_for_the_store", task_id=task_id, error=str(error))
            await asyncio.sleep(delay)
            delay = min(2 * delay, LONGEST_DELAY_SECONDS)

    def _give_up(self) -> None:
        for task_id, writing in self._writing.items():
            if writing.cancel() or writing.cancelled() or writing.exception() is not None:
                _log.error("cancel_not_written", task_id=task_id, then=f"interlock tasks cancel {task_id}")


def _as_before(
    handler: "Callable[[int, FrameType | None], object] | int | signal.Handlers | None",
) -> None:
    if callable(handler):
        handler(signal.SIGINT, None)
