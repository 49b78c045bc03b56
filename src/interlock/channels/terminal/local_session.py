"""A conversation with one session, from a terminal or a script.

Messages are worked on in this process, under the session's lease and with the modes opened here. If another
process holds the session, that one works. Either way, what is shown comes from the session's feed.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from interlock.agent.events import AgentEvent, ToolProgress
from interlock.channels.terminal.agent_events import AgentEventReader
from interlock.channels.terminal.interrupts import InterruptHandler
from interlock.core.aio import cancel_and_wait
from interlock.core.errors import (
    SessionBusy,
    SessionFenced,
    StoreError,
    StoreUnavailable,
    WrongTaskStatus,
    is_transient,
)
from interlock.db.leases import Lease, Leases
from interlock.feed.follow import FeedHub
from interlock.feed.frames import FeedItem
from interlock.questions.rows import Question
from interlock.questions.service import QuestionService
from interlock.runtime.bus import Bus, ProgressReported
from interlock.runtime.session_runner import SessionRunner
from interlock.runtime.task_rows import Task, TaskStatus, new_task_id
from interlock.runtime.tasks import TaskService

# How often the store is polled for cancellations and for progress of another process.
LOOK_SECONDS = 0.3
# How often the lease is requested while another process holds it: that process may have died.
TAKE_SECONDS = 3.0
# Delays before a message is queued again, if it is unknown whether the store accepted it.
PUT_RETRY_SECONDS = (0.1, 0.5, 1.0)
# At the end, how long to wait for what was not shown yet, if the store is slow.
CATCH_UP_SECONDS = 10.0

ShowEvent = Callable[[AgentEvent], None]


@dataclass(slots=True)
class _Progress:
    """The task that is waited for, once there is one."""

    task: Task | None = None


class LocalSession:
    def __init__(
        self,
        session_id: str,
        *,
        person: str,
        holder: str,
        show: ShowEvent,
        tasks: TaskService,
        questions: QuestionService,
        leases: Leases,
        hub: FeedHub[FeedItem],
        bus: Bus,
        work: SessionRunner,
    ) -> None:
        self.session_id = session_id
        self._person = person
        self._holder = holder
        self._show = show
        self._tasks = tasks
        self._questions = questions
        self._leases = leases
        self._hub = hub
        self._bus = bus
        self._reader = AgentEventReader()
        self._output_error: Exception | None = None
        self._work = work

    async def say(self, text: str, *, leaves_nothing: bool = False) -> Task:
        """Send a message and wait until the task ends or waits for an answer from the person.

        If an earlier task of the session waits for one, that task is returned. With `leaves_nothing`, an
        interrupt cancels the new task, even while an earlier one runs.
        """

        task_id = new_task_id()

        async def begin() -> Task:
            for delay in PUT_RETRY_SECONDS:
                with suppress(StoreUnavailable):
                    return await self._put(text, task_id)
                # It may have been stored with only the reply lost: retry under the same id, to avoid a
                # duplicate.
                await asyncio.sleep(delay)
            return await self._put(text, task_id)

        return await self._carried_out(begin, leaves_nothing=leaves_nothing)

    async def _put(self, text: str, task_id: str) -> Task:
        return await self._tasks.put(self.session_id, text, who=self._person, task_id=task_id)

    async def steer(self, text: str) -> Task:
        """Send a message for the task at work, and do not wait."""
        return await self._tasks.put(
            self.session_id, text, who=self._person, task_id=new_task_id(), steer=True
        )

    async def present(self, task: Task) -> Task:
        return await self._tasks.get(task.id)

    async def answer(self, question: Question, given: Mapping[str, Any]) -> Task:
        """Answer a question and continue its task. Raises `InvalidAnswer` if it is not valid."""

        async def begin() -> Task:
            await self._questions.answer(question.id, given, who=self._person)
            return await self._tasks.get(question.task or "")

        return await self._carried_out(begin)

    async def run_until_idle(self, begin: Callable[[], Awaitable[Task]]) -> Task:
        """Run the task that `begin` creates or finds, until it ends or waits for an answer."""
        return await self._carried_out(begin)

    async def unfinished(self) -> Task | None:
        """The oldest unfinished task of the session, if any."""
        for task in reversed(await self._tasks.list_tasks(session_id=self.session_id)):
            if not task.status.is_end:
                return task
        return None

    async def go_on(self, task: Task) -> Task:
        async def begin() -> Task:
            return task

        return await self._carried_out(begin)

    async def open_question(self, task: Task) -> Question | None:
        """The question that the task waits for."""
        for question in await self._questions.open_questions(self.session_id):
            if question.task == task.id:
                return question
        return None

    async def cancel(self, task: Task) -> Task:
        with suppress(WrongTaskStatus):
            await self._tasks.cancel(task.id, who=self._person)
        return await self._tasks.get(task.id)

    # -- running --

    async def _carried_out(
        self, begin: Callable[[], Awaitable[Task]], *, leaves_nothing: bool = False
    ) -> Task:
        interrupts = InterruptHandler(
            *(self.session_id, self._tasks, self._work), who=self._person, leaves_nothing=leaves_nothing
        )
        progress = _Progress()
        with interrupts.heard():
            async with self._followed():
                while progress.task is None or not _is_idle(progress.task):
                    try:
                        await self._run_or_wait(progress, begin, interrupts)
                    except StoreError as error:
                        if not interrupts.were_received or not is_transient(error):
                            raise
                        # Record cancellations before releasing the session: other processes do not know of
                        # them yet.
                        await interrupts.written_down()
                        await asyncio.sleep(LOOK_SECONDS)
                await interrupts.written_down()
        return progress.task

    async def _run_or_wait(
        self, progress: _Progress, begin: Callable[[], Awaitable[Task]], interrupts: InterruptHandler
    ) -> None:
        """Take the lease first: no other process can start the task with other open modes."""
        async with AsyncExitStack() as stack:
            lease: Lease | None = None
            with suppress(SessionBusy):
                held = self._leases.held(self.session_id, self._holder)
                lease = await stack.enter_async_context(held)
            task = progress.task = progress.task or await interrupts.begin_task(begin)
            if lease is not None:
                # The lease was lost while the store was slow: take it again, or follow.
                with suppress(SessionFenced):
                    await self._work_on(lease)
            else:
                await self._wait_for_other(task)
        progress.task = await self._tasks.get(task.id)
        if not _is_idle(progress.task) and (ahead := await self._waiting()) is not None:
            progress.task = ahead

    async def _waiting(self) -> Task | None:
        """A task that waits for an answer, which blocks later ones."""
        found = await self._tasks.list_tasks(session_id=self.session_id, status=TaskStatus.waiting)
        return found[-1] if found else None

    async def _work_on(self, lease: Lease) -> None:
        self._work.take_time()
        working = asyncio.create_task(self._work.run(lease))
        try:
            while not working.done():
                await asyncio.wait({working}, timeout=LOOK_SECONDS)
                # If the store is unavailable for a moment, the worker waits for it.
                with suppress(StoreError):
                    await self._work.deliver_cancels()
            await working
        finally:
            await cancel_and_wait(working)

    async def _wait_for_other(self, task: Task) -> None:
        """Wait for a while, or until idle, while another process works."""
        until = asyncio.get_running_loop().time() + TAKE_SECONDS
        while not _is_idle(await self._tasks.get(task.id)) and asyncio.get_running_loop().time() < until:
            await self._hub.catch_up(self.session_id)
            await asyncio.sleep(LOOK_SECONDS)

    # -- following the session --

    @asynccontextmanager
    async def _followed(self) -> AsyncIterator[None]:
        """Show what happens in the session meanwhile, whichever process works, to its end."""
        self._reader, self._output_error = AgentEventReader(), None
        unsubscribe = self._bus.subscribe(self._show_progress, ProgressReported, session_id=self.session_id)
        try:
            await self._hub.follow(self.session_id, self)
            yield
            with suppress(TimeoutError):
                async with asyncio.timeout(CATCH_UP_SECONDS):
                    await self._hub.catch_up(self.session_id)
            if self._output_error is not None:
                raise self._output_error
        finally:
            unsubscribe()
            await self._hub.leave(self.session_id, self)

    def deliver(self, item: FeedItem, /) -> None:
        for event in self._reader.read(item):
            self._show_event(event)

    async def ready(self) -> None:
        """There is always room: what is shown is not kept."""

    def _show_progress(self, message: ProgressReported) -> None:
        self._show_event(ToolProgress(message.call_id, message.text))

    def _show_event(self, event: AgentEvent) -> None:
        """Show an event. A broken pipe, say, ends the output and not the task; it is raised at the end."""
        if self._output_error is None:
            try:
                self._show(event)
            except Exception as error:  # noqa: BLE001 - see above
                self._output_error = error


def _is_idle(task: Task) -> bool:
    """Whether the task has ended or waits for an answer."""
    return task.status.is_end or task.status is TaskStatus.waiting
