"""A conversation with one session, from a terminal or a script.

Messages are worked on in this process, under the session's lease and with the modes opened here. If another
process holds the session, that one works, and this one follows the log.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any

import orjson

from interlock.agent.events import (
    AgentEvent,
    TextDelta,
    ToolCallInfo,
    ToolDenied,
    ToolResultInfo,
    TurnCompleted,
    shown_arguments,
)
from interlock.channels.terminal.interrupts import InterruptHandler
from interlock.core.aio import cancel_and_wait
from interlock.core.errors import (
    ErrorClass,
    ErrorCode,
    SessionBusy,
    SessionFenced,
    StoreError,
    StoreUnavailable,
    WrongTaskStatus,
    is_transient,
)
from interlock.db.leases import Lease, Leases
from interlock.questions.rows import Question
from interlock.questions.service import QuestionService
from interlock.runtime.live_stream import LiveStream, LiveSubscription
from interlock.runtime.session_runner import SessionRunner
from interlock.runtime.task_rows import Task, TaskStatus, new_task_id
from interlock.runtime.tasks import TaskService
from interlock.sessions.manager import SessionManager
from interlock.sessions.models import Message, Role

# How often the store is polled for cancellations and for progress of another process.
LOOK_SECONDS = 0.3
# How often the lease is requested while another process holds it: that process may have died.
TAKE_SECONDS = 3.0
# Delays before a message is queued again, if it is unknown whether the store accepted it.
PUT_RETRY_SECONDS = (0.1, 0.5, 1.0)

ShowEvent = Callable[[AgentEvent], None]


@dataclass(slots=True)
class _TaskProgress:
    """The task, and the number of its last message that was shown."""

    task: Task | None = None
    shown: int = 0


class LocalSession:
    def __init__(
        self,
        session_id: str,
        *,
        person: str,
        holder: str,
        show: ShowEvent,
        sessions: SessionManager,
        tasks: TaskService,
        questions: QuestionService,
        leases: Leases,
        live: LiveStream,
        work: SessionRunner,
    ) -> None:
        self.session_id = session_id
        self._person = person
        self._holder = holder
        self._show = show
        self._sessions = sessions
        self._tasks = tasks
        self._questions = questions
        self._leases = leases
        self._live = live
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
        said = _TaskProgress()
        with interrupts.heard():
            while said.task is None or not _is_idle(said.task):
                try:
                    await self._run_or_follow(said, begin, interrupts)
                except StoreError as error:
                    if not interrupts.were_received or not is_transient(error):
                        raise
                    # Record cancellations before releasing the session: other processes do not know of them
                    # yet.
                    await interrupts.written_down()
                    await asyncio.sleep(LOOK_SECONDS)
            await interrupts.written_down()
        return said.task

    async def _run_or_follow(
        self, said: _TaskProgress, begin: Callable[[], Awaitable[Task]], interrupts: InterruptHandler
    ) -> None:
        """Take the lease first: no other process can start the task with other open modes."""
        async with AsyncExitStack() as stack:
            lease: Lease | None = None
            with suppress(SessionBusy):
                held = self._leases.held(self.session_id, self._holder)
                lease = await stack.enter_async_context(held)
            task = said.task = said.task or await interrupts.begin_task(begin)
            if lease is not None:
                # The lease was lost while the store was slow: take it again, or follow.
                with suppress(SessionFenced):
                    await self._work_on(lease)
            else:
                said.shown = await self._follow(task, max(said.shown, task.message_seq))
        said.task = await self._tasks.get(task.id)
        if not _is_idle(said.task) and (ahead := await self._waiting()) is not None:
            said.task = ahead

    async def _waiting(self) -> Task | None:
        """A task that waits for an answer, which blocks later ones."""
        found = await self._tasks.list_tasks(session_id=self.session_id, status=TaskStatus.waiting)
        return found[-1] if found else None

    async def _work_on(self, lease: Lease) -> None:
        self._work.take_time()
        with self._live.watch(self.session_id) as watching:
            showing = asyncio.create_task(self._show_all(watching))
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
                watching.end()
                await showing

    async def _show_all(self, watching: LiveSubscription) -> None:
        async for _task, event in watching:
            self._show(event)

    # -- following another process --

    async def _follow(self, task: Task, shown: int) -> int:
        """Follow for a while, or until idle. Returns the number of the last message shown."""
        until = asyncio.get_running_loop().time() + TAKE_SECONDS
        while True:
            present = await self._tasks.get(task.id)
            for message in await self._sessions.transcript(self.session_id, after_seq=shown):
                shown = max(shown, message.seq)
                for event in events_from_message(message):
                    self._show(event)
            if _is_idle(present) or asyncio.get_running_loop().time() >= until:
                return shown
            await asyncio.sleep(LOOK_SECONDS)


def _is_idle(task: Task) -> bool:
    """Whether the task has ended or waits for an answer."""
    return task.status.is_end or task.status is TaskStatus.waiting


def events_from_message(message: Message) -> Iterator[AgentEvent]:
    """The events that the loop emitted for a stored message."""
    if message.role is Role.assistant:
        if message.content:
            yield TextDelta(0, 0, f"{message.content}\n")
        for call in message.tool_calls or ():
            arguments, called_as = shown_arguments(str(call["arguments"])), str(call.get("called_as", ""))
            yield ToolCallInfo(str(call["id"]), str(call["name"]), arguments, called_as)
        if not message.tool_calls:
            yield TurnCompleted(0, message.content, 0, 0, 0)
    elif message.role is Role.tool:
        yield _result(message)


def _result(message: Message) -> AgentEvent:
    call_id, envelope = message.tool_call_id or "", _decoded(message.content)
    if isinstance(envelope, str):
        return ToolResultInfo(call_id, "", {"ok": True, "stdout": envelope})
    name = str(envelope.get("tool_name", ""))
    if _is_denial(str(envelope.get("error_code", ""))):
        fields = ("mode", "error_code", "message", "next_action")
        mode, code, said, step = (str(envelope.get(field, "")) for field in fields)
        return ToolDenied(call_id, name, mode, code, said, step)
    return ToolResultInfo(call_id, name, envelope)


def _is_denial(code: str) -> bool:
    return code in ErrorCode.__members__ and ErrorCode(code).error_class is ErrorClass.policy


def _decoded(text: str) -> dict[str, Any] | str:
    try:
        decoded = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        return text
    return decoded if isinstance(decoded, dict) else text
