"""Starts workflow runs, and pauses, resumes, retries and stops them.

The step that follows another is queued by `TaskService`, in the transaction that ends the earlier task.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import orjson

from interlock.agent.definitions import AgentNotFound
from interlock.config.modes import ToolMode
from interlock.core.errors import SessionNotFound, UserError
from interlock.core.text import sanitize_text
from interlock.core.threads import DaemonThreadPool
from interlock.db.driver import Row
from interlock.log.run_events import RunStarted
from interlock.log.writer import EventLog, Transaction
from interlock.redaction.redactor import Redactor
from interlock.runtime.bus import Bus, WorkAvailable
from interlock.runtime.task_rows import (
    RUN_STARTED_WITH,
    SESSIONS_STARTED_WITH,
    STEERED_IN_WITH,
    STEERED_WITH,
    TASKS_STARTED_WITH,
    Task,
    TaskStatus,
)
from interlock.runtime.tasks import TaskService, reject_revoked
from interlock.sessions.manager import SessionManager
from interlock.sessions.models import Session, SessionKind
from interlock.workflow import engine
from interlock.workflow.directory import WorkflowDirectory, WorkflowInvalid
from interlock.workflow.run_reader import RunReader
from interlock.workflow.run_rows import READ_RUN, NextStep, RunState, WorkflowRun
from interlock.workflow.step_prompt import MAX_INPUT


@dataclass(frozen=True, slots=True)
class RunView:
    """A run for display. `is_waiting`: its step waits for an answer from a person."""

    run_state: RunState
    task: Task | None

    @property
    def is_waiting(self) -> bool:
        return self.task is not None and self.task.status is TaskStatus.waiting


@dataclass(frozen=True, slots=True)
class RevokedWork:
    """The work that was cancelled because its credential was revoked."""

    tasks: int
    runs: int
    sessions: tuple[str, ...]


class WorkflowRunService:
    def __init__(
        self,
        book: RunReader,
        tasks: TaskService,
        sessions: SessionManager,
        log: EventLog,
        redactor: Redactor,
        bus: Bus,
        folder: WorkflowDirectory,
    ) -> None:
        self.book = book
        self.folder = folder
        self._tasks = tasks
        self._sessions = sessions
        self._events = log
        self._redactor = redactor
        self._bus = bus
        self._threads = DaemonThreadPool("interlock-workflows")

    async def create(
        self,
        workflow: str,
        *,
        opened_by: str,
        mode: ToolMode | None = None,
        model: str | None = None,
    ) -> Session:
        """Create the session of a run, in a mode that is open here. Nothing starts yet."""
        await self._threads.start(lambda: self.folder.load(workflow))
        return await self._sessions.create(
            opened_by=opened_by, kind=SessionKind.run, title=workflow, mode=mode, model=model
        )

    async def start(
        self,
        session_id: str,
        workflow: str,
        text: str,
        *,
        who: str,
        credential_id: str | None = None,
    ) -> WorkflowRun:
        """Start the run with the current files. The session's mode is the ceiling of all its steps."""
        if len(text) > MAX_INPUT:
            raise UserError(f"input: can have at most {MAX_INPUT} characters, not {len(text)}")
        pinned = await self._threads.start(lambda: self.folder.pin(workflow))
        if self._redactor.text(pinned.document) != pinned.document:
            raise WorkflowInvalid(f"a file of the workflow '{workflow}' contains a secret; remove it first")
        given, author = (
            self._redactor.text(sanitize_text(text.strip())),
            self._redactor.text(sanitize_text(who)),
        )

        def work(transaction: Transaction) -> None:
            transaction.next_seq()
            reject_revoked(transaction.connection, credential_id)
            if transaction.connection.query(READ_RUN, (session_id,)):
                raise UserError(f"session {session_id} already has a run")
            started = RunStarted(
                workflow=workflow,
                digest=pinned.digest,
                mode=self._sessions.mode_within(transaction.connection, session_id).value,
                who=author,
                agents=dict(pinned.agents),
                definition=pinned.document,
                input=given,
                credential_id=credential_id or "",
            )
            self._put(transaction, session_id, engine.begin(transaction, session_id, started))

        session = await self._sessions.get(session_id)
        if session.kind != SessionKind.run:
            raise UserError(f"session {session_id} is not a workflow run")
        await self._events.transact(session_id, work)
        self._bus.publish(WorkAvailable(session_id))
        return (await self.book.run_state(session_id)).run

    async def pause(self, session_id: str, *, who: str) -> WorkflowRun:
        return await self._change(
            session_id, lambda transaction: engine.pause(transaction, session_id, who)
        )

    async def resume(self, session_id: str, *, who: str, credential_id: str | None = None) -> WorkflowRun:
        def work(transaction: Transaction) -> None:
            transaction.next_seq()
            reject_revoked(transaction.connection, credential_id)
            step = engine.resume(transaction, session_id, who, credential_id)
            self._put(transaction, session_id, step)

        return await self._change(session_id, work)

    async def retry(self, session_id: str, *, who: str, credential_id: str | None = None) -> WorkflowRun:
        """Retry after a person looked at it, with the agents' current files."""
        run = (await self.book.run_state(session_id)).run
        present = await self._threads.start(self.folder.agents)
        if gone := sorted(run.agents.keys() - present.keys()):
            raise AgentNotFound(f"the agent '{gone[0]}' no longer exists or is not usable; restore it")
        agents = {name: present[name] for name in run.agents}

        def work(transaction: Transaction) -> None:
            transaction.next_seq()
            reject_revoked(transaction.connection, credential_id)
            step = engine.retry(transaction, session_id, who, credential_id, agents)
            self._put(transaction, session_id, step)

        return await self._change(session_id, work)

    async def stop(self, session_id: str, *, who: str) -> WorkflowRun:
        """Stop the run and cancel its running step."""

        def work(transaction: Transaction) -> None:
            if (task_id := engine.stop(transaction, session_id, who)) is not None:
                self._tasks.cancel_within(transaction, task_id, who)

        return await self._change(session_id, work, on_full_disk=True)

    def cancel_by_credential(
        self, transaction: Transaction, credential_id: str, who: str, reason: str
    ) -> RevokedWork:
        """End every run and task that the credential started or steered, in all sessions.

        `transaction` has already ended the credential, so that nothing starts with it meanwhile. Call
        `notify` with the sessions afterwards.
        """
        connection, tasks, runs = transaction.connection, 0, 0
        found = connection.query(SESSIONS_STARTED_WITH, (credential_id, credential_id))
        steered = _steered(connection.query(STEERED_WITH, (credential_id,)))
        sessions = sorted({str(row[0]) for row in found} | {session_id for session_id, _task in steered})
        for session_id in sessions:
            inside = transaction.on(session_id)
            try:
                inside.next_seq()
            except SessionNotFound:
                # It was deleted just now.
                continue
            found = connection.query(TASKS_STARTED_WITH, (session_id, credential_id))
            started = {str(row[0]): None for row in found}
            found = connection.query(STEERED_IN_WITH, (credential_id, session_id))
            started |= dict.fromkeys(task_id for _session, task_id in _steered(found))
            if connection.query(RUN_STARTED_WITH, (session_id, credential_id)):
                # Its step may have been started by another credential before the run was resumed.
                if (at_work := engine.stop(inside, session_id, who, reason)) is not None:
                    started[at_work] = None
                runs += 1
            for task_id in started:
                self._tasks.cancel_within(inside, task_id, who, reason)
            tasks += len(started)
        return RevokedWork(tasks, runs, tuple(sessions))

    def notify(self, sessions: Iterable[str]) -> None:
        """Notify workers about these sessions."""
        for session_id in sessions:
            self._bus.publish(WorkAvailable(session_id))

    async def shown(self, session_id: str) -> RunView:
        run_state = await self.book.run_state(session_id)
        at = run_state.at
        task = await self._tasks.get(at.task_id) if at is not None and at.task_id else None
        return RunView(run_state, task)

    async def _change(
        self, session_id: str, work: Callable[[Transaction], None], *, on_full_disk: bool = False
    ) -> WorkflowRun:
        await self.book.run_state(session_id)
        await self._events.transact(session_id, work, on_full_disk=on_full_disk)
        self._bus.publish(WorkAvailable(session_id))
        return (await self.book.run_state(session_id)).run

    def _put(self, transaction: Transaction, session_id: str, step: NextStep | None) -> None:
        if step is not None:
            self._tasks.put_step(transaction, session_id, step)


def next_step_after(transaction: Transaction, task: Task) -> NextStep | None:
    """The next step after a task that has ended, if it belonged to a run."""
    return engine.task_ended(
        transaction,
        task.id,
        is_done=task.status is TaskStatus.done,
        is_cancelled=task.status is TaskStatus.cancelled,
        reason=task.reason or "",
        who=task.cancel_requested_by or task.who,
    )


def _steered(found: Sequence[Row]) -> list[tuple[str, str]]:
    """The open tasks that were steered, with their sessions, from the rows of `STEERED_WITH`."""
    return [
        (str(session_id), str(task_id))
        for session_id, task_id, facts in found
        if orjson.loads(facts)["into"] == task_id
    ]
