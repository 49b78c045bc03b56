"""Ctrl-C while a task runs for a person at a terminal.

The first cancels the task at work: an earlier one, or the one just sent. The second does not wait for it,
and a third exits. A cancelled task stops here at once. The cancellation is stored as soon as the store
accepts it; exiting before that prints a warning.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.core.aio import Backoff
from interlock.core.errors import StoreError, TaskNotFound, WrongTaskStatus, is_transient
from interlock.core.logging import StructuredLogger
from interlock.runtime.session_runner import SessionRunner
from interlock.runtime.task_rows import Task, TaskStatus
from interlock.runtime.tasks import TaskService

if TYPE_CHECKING:
    from types import FrameType

_log = StructuredLogger(__name__)

Result = TypeVar("Result")

FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.05, 2.0


class InterruptHandler:
    """Handles Ctrl-C for one request in one session, whether this process works on it or follows.

    With `leaves_nothing`, an interrupt cancels the request itself, even while an earlier task runs.
    """

    def __init__(
        self, session_id: str, tasks: TaskService, work: SessionRunner, *, who: str, leaves_nothing: bool
    ) -> None:
        self._leaves_nothing = leaves_nothing
        self._session_id = session_id
        self._tasks = tasks
        self._work = work
        self._who = who
        self._is_begun = self._came_early = False
        self._task_id: str | None = None
        self._asked: set[str] = set()
        self._writing: list[asyncio.Task[None]] = []
        self._leave: Callable[[], object] = lambda: None

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Handle SIGINT in this context.

        Only in the main thread; elsewhere the caller cancels in other ways.
        """
        loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
        try:
            loop.add_signal_handler(signal.SIGINT, self._interrupted)
        except (RuntimeError, ValueError):
            yield
            return
        self._leave = lambda: _restore_signal_handler(before)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            # Otherwise Python's default handler is installed, which interrupts the event loop anywhere.
            signal.signal(signal.SIGINT, before)
            self._give_up()

    async def begin_task(self, begin: Callable[[], Awaitable[Task]]) -> Task:
        """Start the task.

        It cannot be aborted midway: if interrupted meanwhile, it is cancelled afterwards.
        """
        self._is_begun = True
        try:
            task = await begin()
        except asyncio.CancelledError:
            _log.error("left_before_the_store_answered", session_id=self._session_id)
            raise
        self._task_id = task.id
        if self._came_early:
            self._cancel(task.id)
        return task

    @property
    def were_received(self) -> bool:
        return bool(self._writing)

    async def written_down(self) -> None:
        """Wait until the store has recorded every cancellation made here."""
        await asyncio.gather(*self._writing)

    def _interrupted(self) -> None:
        own, here = self._task_id, self._work.at_work
        if not self._is_begun or (own is None and self._came_early):
            self._leave()
        elif own is None:
            self._came_early = True
        elif new := [each for each in self._meant(own, here) if each not in self._asked]:
            self._cancel(*new)
        elif here and not self._work.is_hurrying:
            self._work.hurry()
        elif here or own in self._asked or not all(each.done() for each in self._writing):
            self._leave()
        else:
            self._write_soon(self._cancel_elsewhere(own))

    def _meant(self, own: str, here: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*here, own))) if self._leaves_nothing else here

    def _cancel(self, *task_ids: str) -> None:
        for task_id in task_ids:
            self._asked.add(task_id)
            self._work.cancel(task_id, who=self._who)
        self._write_soon(self._write(task_ids))

    async def _cancel_elsewhere(self, own: str) -> None:
        """Cancel an earlier task running in another process; if there is none, cancel our own."""
        running = await self._stubbornly(
            lambda: self._tasks.list_tasks(session_id=self._session_id, status=TaskStatus.running)
        )
        ahead = [task.id for task in running if task.id not in {*self._asked, own}]
        if not ahead:
            self._work.cancel(own, who=self._who)
        self._asked |= set(ahead or [own])
        await self._write(ahead or [own])

    async def _write(self, task_ids: Iterable[str]) -> None:
        for task_id in task_ids:
            with suppress(WrongTaskStatus, TaskNotFound):
                await self._stubbornly(partial(self._tasks.cancel, task_id, who=self._who))
        await self._stubbornly(self._work.deliver_cancels)

    def _write_soon(self, writing: Coroutine[Any, Any, None]) -> None:
        self._writing.append(asyncio.create_task(writing))

    async def _stubbornly(self, ask: Callable[[], Awaitable[Result]]) -> Result:
        backoff, is_logged = Backoff(FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS), False
        while True:
            try:
                return await ask()
            except StoreError as error:
                if not is_transient(error):
                    raise
                if not is_logged:
                    _log.error("cancel_waits_for_the_store", task_id=self._task_id, error=str(error))
                    is_logged = True
            await backoff.sleep()

    def _give_up(self) -> None:
        unwritten = [
            each for each in self._writing if each.cancel() or each.cancelled() or each.exception()
        ]
        if unwritten:
            then = f"interlock tasks cancel {self._task_id}"
            _log.error("cancel_not_written", task_id=self._task_id, then=then)


def _restore_signal_handler(
    handler: "Callable[[int, FrameType | None], object] | int | signal.Handlers | None",
) -> None:
    if callable(handler):
        handler(signal.SIGINT, None)
