"""Queues, reads, cancels and ends tasks, for people and for workers.

Each change of a task and its event are one transaction under the session's head, so that conflicting
changes are serialised. A worker's changes are fenced by its lease.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import orjson

from interlock.config.modes import ToolMode, stricter
from interlock.core.errors import (
    QuestionNotFound,
    SessionBusy,
    SessionNotFound,
    UserError,
    WrongTaskStatus,
)
from interlock.core.text import sanitize_text
from interlock.db.database import Database
from interlock.db.driver import DbConnection
from interlock.db.leases import Lease
from interlock.log.hash_chain import now_us
from interlock.log.stream_appender import NO_SCOPE, EventScope
from interlock.log.task_events import (
    TaskCancelled,
    TaskCancelRequested,
    TaskFinished,
    TaskQueued,
    TaskRequeued,
    TaskStarted,
    TaskSteered,
    TaskWaiting,
)
from interlock.log.writer import EventLog, Transaction
from interlock.questions.service import QuestionService
from interlock.redaction.redactor import Redactor
from interlock.runtime.bus import Bus, WorkAvailable
from interlock.runtime.task_rows import (
    CANCEL,
    COUNT_QUEUED,
    FINISH,
    FIRST_OPEN,
    IS_NOT_REVOKED,
    OPEN_TASKS,
    QUESTION_STATUS,
    QUEUED_BEHIND,
    READ_SHOWN,
    REQUEST_CANCEL,
    SESSION_OF,
    STEER,
    Task,
    TaskStatus,
    find_task,
    first_runnable,
    list_statement,
    new_task_id,
    read_task,
    steered_task,
    stored_mode,
    task_from_row,
)
from interlock.sessions.manager import SessionManager
from interlock.sessions.models import Message, Role, SessionKind, title_from_message
from interlock.sessions.storable_message import StorableMessage, require_session
from interlock.sessions.transcript import read_message, read_steering
from interlock.workflow import engine
from interlock.workflow.run_rows import NextStep

MAX_WHO = 200
TASK_ID = re.compile("t_[0-9a-f]{16}")
MAX_REASON = 500

# A task that kills its worker on each attempt must not do so forever.
MAX_INTERRUPTIONS = 5


FindUnansweredCalls = Callable[[DbConnection, Task], Sequence[tuple[str, str]]]
NextStepAfter = Callable[[Transaction, Task], NextStep | None]
ReleaseLease = Callable[[Transaction], None]

KIND_AND_MODE = "SELECT kind, mode FROM sessions WHERE id = ? AND deleted_us IS NULL"

_WHY_CLOSED = {
    TaskStatus.done: "its task is done",
    TaskStatus.failed: "its task failed",
    TaskStatus.cancelled: "its task was cancelled",
}


class TaskService:
    def __init__(
        self,
        database: Database,
        log: EventLog,
        redactor: Redactor,
        sessions: SessionManager,
        questions: QuestionService,
        bus: Bus,
        *,
        queue_limit: int,
        max_interruptions: int = MAX_INTERRUPTIONS,
        leftovers: FindUnansweredCalls = lambda _connection, _task: (),
        follow: NextStepAfter = lambda _transaction, _task: None,
    ) -> None:
        """`leftovers` returns results for a task's unanswered calls, `follow` the session's next step.

        Both run in the transaction that ends a task.
        """
        self._leftovers = leftovers
        self._follow = follow
        self._database = database
        self._events = log
        self._redactor = redactor
        self._sessions = sessions
        self._questions = questions
        self._bus = bus
        self._queue_limit = queue_limit
        self._max_interruptions = max_interruptions

    # -- for people --

    async def put(
        self,
        session_id: str,
        content: str,
        *,
        who: str,
        credential_id: str | None = None,
        scope: EventScope = NO_SCOPE,
        task_id: str | None = None,
        steer: bool = False,
        only_own: bool = False,
    ) -> Task:
        """Queue a message as a task. Open questions of the session are closed.

        With `steer`, the task at work gets it before its next turn, as part of its request; if none is at
        work, or it ends before that, the message is a task like any other. `only_own`: so it is too if the
        task at work is another person's.

        With a `task_id` of the caller, a message sent again because its arrival is unknown is still one
        task: the existing one is returned.
        """
        draft = self._checked_draft(content, task_id)
        return await self._put(
            *(session_id, draft, who, scope),
            credential_id=credential_id,
            task_id=task_id,
            steer=steer,
            only_own=only_own,
        )

    async def put_in_new_session(
        self,
        session_id: str,
        content: str,
        *,
        who: str,
        credential_id: str | None = None,
        task_id: str | None = None,
    ) -> Task:
        """Queue a message in a new session of that id, in one transaction; its beginning is the title.

        Sent again with the same `task_id`, it returns the existing task and creates no session.
        """
        draft = self._checked_draft(content, task_id)
        create = self._sessions.creating(session_id, opened_by=who, title=title_from_message(draft.content))
        put = self.putting(session_id, draft, who, credential_id=credential_id, task_id=task_id)

        def work(transaction: Transaction) -> Task:
            if task_id is not None and transaction.connection.query(SESSION_OF, (task_id,)):
                return read_task(transaction.connection, task_id, READ_SHOWN)
            create(transaction)
            return put(transaction)

        task = await self._events.transact(session_id, work)
        self._bus.publish(WorkAvailable(task.session_id))
        return task

    async def retry(
        self, task_id: str, *, who: str, credential_id: str | None = None, as_task: str | None = None
    ) -> Task:
        """Queue the same request again, as a new task at the end of its session's queue."""
        task = await self.get(task_id)
        if task.status not in {TaskStatus.failed, TaskStatus.cancelled}:
            raise WrongTaskStatus(
                f"task {task.id} is {task.status}; only a failed or cancelled task can be retried"
            )
        message = await self._database.read(lambda db: read_message(db, task.session_id, task.message_seq))
        if message is None:
            raise WrongTaskStatus(f"the message of task {task.id} has been erased; send it again")
        steering = await self._database.read(lambda db: read_steering(db, task.session_id, task.id))
        # What steered the task is part of its request.
        request = "\n\n".join(each.content for each in (message, *steering))
        draft = self._sessions.draft(Role.user, request)
        return await self._put(
            task.session_id,
            draft,
            who,
            NO_SCOPE,
            credential_id=credential_id,
            retry_of=task.id,
            task_id=as_task or new_task_id(),
        )

    async def cancel(self, task_id: str, *, who: str, reason: str = "") -> Task:
        """Cancel a task: at once if it does not run, else by a request to its worker."""
        task = await self.present(task_id)

        def work(transaction: Transaction) -> Task:
            present = self.cancel_within(transaction, task.id, who, reason)
            if present is None:
                ended = read_task(transaction.connection, task.id)
                raise WrongTaskStatus(f"task {task.id} is already {ended.status}; nothing was changed")
            return present

        cancelled = await self._events.transact(task.session_id, work, on_full_disk=True)
        # Also if it has ended: the session's next task may have waited for it.
        self._bus.publish(WorkAvailable(task.session_id))
        return cancelled

    async def delete_session(self, session_id: str, *, who: str) -> None:
        """Hide a session and cancel its open tasks. Nothing is erased.

        A running call is cancelled, and its outcome is still recorded.
        """
        author = self._line(who, MAX_WHO)
        hide = self._sessions.deleting(session_id, who=author)

        def work(transaction: Transaction) -> None:
            transaction.next_seq()
            hide(transaction)
            engine.stop_if_open(transaction, session_id, author)
            for (task_id,) in transaction.connection.query(OPEN_TASKS, (session_id,)):
                self.cancel_within(transaction, task_id, author)
            self._questions.close_open(
                transaction, session_id, reason="its session was deleted", who=author
            )

        await self._events.transact(session_id, work, on_full_disk=True)
        self._bus.publish(WorkAvailable(session_id))

    async def get(self, task_id: str) -> Task:
        return await self._database.read(lambda db: read_task(db, sanitize_text(task_id), READ_SHOWN))

    async def list_tasks(
        self, *, session_id: str | None = None, status: TaskStatus | None = None, limit: int = 100
    ) -> list[Task]:
        """Tasks of one session or of all, newest first."""
        statement = list_statement(of_session=session_id is not None, of_status=status is not None)
        wanted: list[object] = [] if session_id is None else [sanitize_text(session_id)]
        if status is not None:
            wanted.append(status.value)
        rows = await self._database.read(lambda db: db.query(statement, (*wanted, limit)))
        return [task_from_row(row) for row in rows]

    # -- for a worker that holds the session --

    async def present(self, task_id: str) -> Task:
        """The current task, whether or not its session was deleted."""
        return await self._database.read(lambda db: read_task(db, sanitize_text(task_id)))

    async def resumable(self, session_id: str) -> Task | None:
        """The task to work on now; if it is running, its earlier worker has died."""
        return first_runnable(await self._database.fetch(FIRST_OPEN, (session_id,)))

    def begin_first(self, transaction: Transaction, session_id: str, holder: str) -> Task | None:
        """Start the session's first task in the transaction that takes the lease, if it is new.

        A task that was worked on before goes through `start`.
        """
        task = first_runnable(transaction.connection.query(FIRST_OPEN, (session_id,)))
        if (
            task is None
            or task.status is not TaskStatus.queued
            or task.attempts
            or task.is_cancel_requested
        ):
            return None
        return self._begin(transaction, task, holder)

    async def start(self, task_id: str, lease: Lease) -> Task:
        """Start or resume a task. It is not running afterwards if it must not be worked on any more."""

        def work(transaction: Transaction) -> Task:
            task = read_task(transaction.connection, task_id)
            if task.status not in {TaskStatus.queued, TaskStatus.running}:
                return task
            interruptions = task.interruptions + (task.status is TaskStatus.running)
            if task.is_cancel_requested or interruptions > self._max_interruptions:
                reason = _lost_too_often(interruptions)
                return self._finished(transaction, task.id, TaskStatus.failed, reason)
            return self._begin(transaction, task, lease.holder)

        return await self._events.transact(lease.stream, work, token=lease.token)

    async def take_steering(
        self, task: Task, lease: Lease, before: Callable[[], Awaitable[None]]
    ) -> list[Message]:
        """The messages that are to steer this task, in order. Their own tasks have ended then.

        `before` is awaited if there are any, so that what the task did until now is stored first.
        """
        rows = await self._database.fetch(QUEUED_BEHIND, (task.session_id,))
        wanted = [identity for identity, facts in rows if orjson.loads(facts).get("steers") == task.id]
        if not wanted:
            return []
        await before()

        def work(transaction: Transaction) -> list[Message]:
            transaction.next_seq()
            connection, messages = transaction.connection, []
            for identity in wanted:
                if not connection.change(STEER, (identity, task.id)):
                    continue
                steering = read_task(connection, identity)
                event = TaskSteered(task_id=identity, into=task.id, message_seq=steering.message_seq)
                taken_seq = transaction.record(event, steering.scope).seq
                message = read_message(connection, task.session_id, steering.message_seq)
                messages += [replace(message, taken_seq=taken_seq)] if message is not None else []
            return messages

        return await self._events.transact(lease.stream, work, token=lease.token)

    async def wait(self, task_id: str, question_id: str, lease: Lease) -> Task:
        """Park the task until its question is closed; if it already is, queue it again."""

        def work(transaction: Transaction) -> Task:
            task = read_task(transaction.connection, task_id)
            if task.status is not TaskStatus.running:
                return task
            if task.is_cancel_requested:
                return self._finished(transaction, task.id, TaskStatus.cancelled, "")
            asked = transaction.connection.query(QUESTION_STATUS, (question_id, task.session_id, task.id))
            if not asked:
                raise QuestionNotFound(f"task {task.id} has not asked question {question_id[:64]}")
            if asked[0][0] == "open":
                transaction.record(TaskWaiting(task_id=task.id, question_id=question_id), task.scope)
            else:
                transaction.record(TaskRequeued(task_id=task.id), task.scope)
            return read_task(transaction.connection, task.id)

        return await self._events.transact(lease.stream, work, token=lease.token)

    async def finish(self, task_id: str, status: TaskStatus, reason: str, lease: Lease) -> Task:
        """End as done or failed, or as cancelled if that was requested before. Repeating it is harmless."""

        def work(transaction: Transaction) -> Task:
            return self._finished(transaction, task_id, status, reason)

        return await self._events.transact(lease.stream, work, token=lease.token)

    async def end_cancelled(self, task_id: str, lease: Lease) -> Task:
        """End a running task that was cancelled, also on a full disk."""

        def work(transaction: Transaction) -> Task:
            return self._finished(transaction, task_id, TaskStatus.cancelled, "")

        return await self._events.transact(lease.stream, work, token=lease.token, on_full_disk=True)

    async def finish_and(
        self, leave: ReleaseLease, task_id: str, status: TaskStatus, reason: str, lease: Lease
    ) -> bool:
        """End the task, and `leave` the session if it has no other runnable work; returns whether so."""

        def work(transaction: Transaction) -> bool:
            self._finished(transaction, task_id, status, reason)
            if first_runnable(transaction.connection.query(FIRST_OPEN, (lease.stream,))) is not None:
                return False
            leave(transaction)
            return True

        return await self._events.transact(lease.stream, work, token=lease.token)

    async def put_back(self, task_id: str, lease: Lease) -> Task:
        """Requeue the task for another worker, which resumes from the log."""

        def work(transaction: Transaction) -> Task:
            task = read_task(transaction.connection, task_id)
            if task.is_cancel_requested:
                return self._finished(transaction, task_id, TaskStatus.cancelled, "")
            if task.status is TaskStatus.running:
                transaction.record(TaskRequeued(task_id=task_id), task.scope)
            return read_task(transaction.connection, task_id)

        return await self._events.transact(lease.stream, work, token=lease.token)

    # -- inside a transaction --

    def cancel_within(
        self, transaction: Transaction, task_id: str, who: str, reason: str = ""
    ) -> Task | None:
        """Cancel a task; None if it has ended. The caller notifies workers after the commit."""
        transaction.next_seq()
        author, because = self._line(who, MAX_WHO), self._line(reason, MAX_REASON)
        if transaction.connection.change(CANCEL, (task_id,)):
            return self._ended(transaction, task_id, because, who=author)
        task = read_task(transaction.connection, task_id)
        if transaction.connection.change(REQUEST_CANCEL, (now_us(), task_id)):
            request = TaskCancelRequested(task_id=task_id, who=author, reason=because)
            transaction.record(request, task.scope)
            return read_task(transaction.connection, task_id)
        return None if task.status.is_end else task

    def _put_within(
        self,
        transaction: Transaction,
        session_id: str,
        draft: StorableMessage,
        task_id: str,
        scope: EventScope,
        *,
        who: str,
        mode: ToolMode,
        credential_id: str | None,
        retry_of: str | None = None,
        steers: str = "",
    ) -> Task:
        require_session(transaction.connection, session_id)
        event = TaskQueued(
            task_id=task_id,
            message_seq=draft.write(transaction, scope).seq,
            who=who,
            mode=mode.value,
            credential_id=credential_id or "",
            retry_of=retry_of or "",
            steers=steers,
        )
        transaction.record(event, scope)
        return read_task(transaction.connection, task_id)

    def put_step(self, transaction: Transaction, session_id: str, step: NextStep) -> Task:
        """Queue the task of a run's next step. It cannot leave its mode."""
        draft = self._sessions.draft(Role.user, step.content)
        return self._put_within(
            *(transaction, session_id, draft, step.task_id, EventScope(step.task_id, step.parent)),
            who=step.who,
            mode=step.mode,
            credential_id=step.credential_id,
        )

    async def _put(
        self,
        session_id: str,
        draft: StorableMessage,
        who: str,
        scope: EventScope,
        *,
        credential_id: str | None,
        retry_of: str | None = None,
        task_id: str | None = None,
        steer: bool = False,
        only_own: bool = False,
    ) -> Task:
        work = self.putting(
            session_id,
            draft,
            who,
            scope,
            credential_id=credential_id,
            retry_of=retry_of,
            task_id=task_id,
            steer=steer,
            only_own=only_own,
        )
        task = await self._events.transact(session_id, work)
        self._bus.publish(WorkAvailable(session_id))
        return task

    def putting(
        self,
        session_id: str,
        draft: StorableMessage,
        who: str,
        scope: EventScope = NO_SCOPE,
        *,
        credential_id: str | None = None,
        retry_of: str | None = None,
        task_id: str | None = None,
        steer: bool = False,
        only_own: bool = False,
    ) -> Callable[[Transaction], Task]:
        """Return a function that queues a message within a transaction.

        The caller notifies workers afterwards.
        """
        identity, author = task_id or new_task_id(), self._line(who, MAX_WHO)
        inner = EventScope(identity, scope.parent)

        def work(transaction: Transaction) -> Task:
            transaction.next_seq()
            connection = transaction.connection
            reject_revoked(connection, credential_id)
            if task_id is not None and (known := find_task(connection, task_id, session_id)) is not None:
                return known
            mode = _mode_for_message(connection, session_id)
            if connection.query(COUNT_QUEUED, (session_id,))[0][0] >= self._queue_limit:
                raise SessionBusy(
                    f"{self._queue_limit} messages are already queued in session {session_id}; "
                    "send it again when some are done"
                )
            self._questions.close_open(
                transaction, session_id, reason="a message was sent instead of an answer", who=author
            )
            first_open = connection.query(FIRST_OPEN, (session_id,)) if steer else ()
            return self._put_within(
                *(transaction, session_id, draft, identity, inner),
                who=author,
                mode=mode,
                credential_id=credential_id,
                retry_of=retry_of,
                steers=steered_task(first_open, author if only_own else None),
            )

        return work

    def _begin(self, transaction: Transaction, task: Task, holder: str) -> Task:
        present = self._sessions.mode_within(transaction.connection, task.session_id)
        mode = stricter(task.mode, present)
        event = TaskStarted(task_id=task.id, mode=mode.value, worker=holder, attempt=task.attempts + 1)
        transaction.record(event, EventScope(task.id, task.queued_event))
        return read_task(transaction.connection, task.id)

    def _finished(self, transaction: Transaction, task_id: str, status: TaskStatus, reason: str) -> Task:
        if not transaction.connection.change(FINISH, (status.value, task_id)):
            return read_task(transaction.connection, task_id)
        return self._ended(transaction, task_id, self._line(reason, MAX_REASON))

    def _ended(self, transaction: Transaction, task_id: str, reason: str, *, who: str = "") -> Task:
        """Close the task's questions, then record the one event of its end."""
        task = read_task(transaction.connection, task_id)
        if task.is_cancel_requested:
            reason = task.reason or ""
        author = who or task.cancel_requested_by or task.who
        self._questions.close_open(
            transaction,
            task.session_id,
            reason=_WHY_CLOSED[task.status],
            who=author,
            task=task.id,
        )
        if task.status is not TaskStatus.done:
            self._answer_calls(transaction, task)
        if task.status is TaskStatus.cancelled:
            transaction.record(TaskCancelled(task_id=task.id, who=author, reason=reason), task.scope)
        else:
            event = TaskFinished(task_id=task.id, status=task.status.value, reason=reason)
            transaction.record(event, task.scope)
        task = read_task(transaction.connection, task_id)
        if (step := self._follow(transaction, task)) is not None:
            self.put_step(transaction, task.session_id, step)
        return task

    def _answer_calls(self, transaction: Transaction, task: Task) -> None:
        """Answer every open call, however the task ended: providers reject a transcript otherwise."""
        for call_id, content in self._leftovers(transaction.connection, task):
            draft = self._sessions.draft(Role.tool, content, tool_call_id=call_id)
            draft.write(transaction, task.scope)

    def _checked_draft(self, content: str, task_id: str | None) -> StorableMessage:
        if not content.strip():
            raise UserError("the message is empty")
        if task_id is not None and not TASK_ID.fullmatch(task_id):
            raise UserError("task_id: must be t_ and 16 hexadecimal digits")
        return self._sessions.draft(Role.user, content)

    def _line(self, text: str, max_chars: int) -> str:
        return self._redactor.text(sanitize_text(" ".join(text.split())))[:max_chars]


def reject_revoked(connection: DbConnection, credential_id: str | None) -> None:
    """Raise if the credential was revoked: a concurrent request must start nothing."""
    if credential_id is not None and not connection.query(IS_NOT_REVOKED, (credential_id,)):
        raise UserError("the token or browser login that sent this was revoked; nothing was started")


def _mode_for_message(connection: DbConnection, session_id: str) -> ToolMode:
    """The mode of a message to the session.

    A run accepts no messages: it proceeds step by step, and people answer or control it.
    """
    rows = connection.query(KIND_AND_MODE, (session_id,))
    if not rows:
        raise SessionNotFound(f"there is no session {session_id}")
    if rows[0][0] == SessionKind.run:
        raise UserError(
            f"session {session_id} is a workflow run and accepts no messages: answer its "
            "question, or pause, resume, retry or stop it"
        )
    return stored_mode(rows[0][1])


def _lost_too_often(times: int) -> str:
    return f"its worker was lost {times} times during the task, so it is not retried"
