"""Compares the rows of sessions and tasks with their events.

A row decides in which mode a session runs, and which message is next. This check finds changes made without
the log.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from interlock.config.modes import ALL_MODES, ToolMode, stricter
from interlock.db.driver import DbConnection
from interlock.log.event import Event
from interlock.log.kinds import (
    SYSTEM_STREAM,
    SessionCreated,
    SessionDeleted,
    SessionModeChanged,
    SessionModelChanged,
)
from interlock.log.read import StoredEvent
from interlock.log.task_events import TaskCancelled, TaskFinished, TaskQueued, TaskStarted, TaskWaiting

SESSION = "SELECT kind, opened_by, mode, agent, model, deleted_us FROM sessions WHERE id = ?"
TASKS = "SELECT id, message_seq, status, mode, who, attempts, credential_id FROM tasks WHERE session_id = ?"
# A backup of an older schema is checked before it is upgraded.
COLUMN_IS_THERE = "SELECT 1 FROM pragma_table_info('sessions') WHERE name = 'agent'"
TASKS_ARE_THERE = "SELECT 1 FROM sqlite_schema WHERE name = 'tasks'"

Difference = tuple[int, str, str]


@dataclass(slots=True)
class _Session:
    seq: int
    kind: str
    opened_by: str
    mode: str
    agent: str
    model: str


_OPEN = ("queued", "running", "waiting")


@dataclass(slots=True)
class _Task:
    """`statuses` are those possible after the last event: requeueing and waking have no event."""

    seq: int
    message_seq: int
    who: str
    credential_id: str
    statuses: tuple[str, ...] = ("queued",)
    mode: str | None = None
    attempts: int = 0

    def tighten(self, mode: str | None) -> None:
        """A task that has begun gets its session's mode unless that is looser; an ended one keeps its."""
        if not self.attempts or self.statuses[0] not in _OPEN:
            return
        if mode in ALL_MODES and self.mode in ALL_MODES:
            self.mode = stricter(ToolMode(self.mode), ToolMode(mode)).value
        else:
            self.mode = None


class SessionVerifier:
    """Collects one stream's session and tasks from its events."""

    def __init__(self) -> None:
        self._session: _Session | None = None
        self._is_deleted = False
        self._tasks: dict[str, _Task] = {}

    def take(self, stored: StoredEvent) -> None:
        header = stored.header
        if header.kind.startswith("session."):
            self._take_of_session(header.seq, stored.event())
        elif header.kind.startswith("task.") and header.task is not None:
            self._take_of_task(header.seq, header.task, stored.event())

    def _take_of_session(self, seq: int, event: Event) -> None:
        session = self._session
        match event:
            case SessionCreated():
                began = (event.session_kind, event.opened_by, event.mode, event.agent, event.model)
                self._session = _Session(seq, *began)
            case SessionDeleted():
                self._is_deleted = True
            case SessionModeChanged(to_mode=mode) if session is not None:
                session.seq, session.mode = seq, mode
                for task in self._tasks.values():
                    task.tighten(mode)
            case SessionModelChanged(to_model=model) if session is not None:
                session.seq, session.model = seq, model
            case _:
                pass

    def _take_of_task(self, seq: int, task_id: str, event: Event) -> None:
        if isinstance(event, TaskQueued):
            self._tasks[task_id] = _Task(
                seq, event.message_seq, event.who, event.credential_id, mode=event.mode
            )
        task = self._tasks.get(task_id)
        if task is None:
            return
        task.seq = seq
        match event:
            case TaskStarted(mode=mode, attempt=attempt):
                task.mode, task.attempts = mode, attempt
                task.statuses = ("running", "queued")
            case TaskWaiting():
                task.statuses = ("waiting", "queued")
            case TaskFinished(status=status):
                task.statuses = (status,)
            case TaskCancelled():
                task.statuses = ("cancelled",)
            case _:
                pass

    # -- comparison with the rows --

    def compare(self, connection: DbConnection, stream: str) -> Iterator[Difference]:
        """Where rows and events disagree: the event's number, broken or missing, and the detail."""
        if stream == SYSTEM_STREAM:
            return
        is_sqlite = connection.dialect == "sqlite"
        if not is_sqlite or connection.query(COLUMN_IS_THERE):
            yield from self._of_session(connection.query(SESSION, (stream,)))
        if not is_sqlite or connection.query(TASKS_ARE_THERE):
            yield from self._of_tasks(connection.query(TASKS, (stream,)))

    def _of_session(self, rows: list[tuple[Any, ...]]) -> Iterator[Difference]:
        told = self._session
        if not rows:
            if told is not None or self._is_deleted:
                yield (told.seq if told else 0), "missing", "the row of the session is missing"
            return
        kind, opened_by, mode, agent, model, deleted_us = rows[0]
        seq = told.seq if told else 0
        if (deleted_us is not None) != self._is_deleted:
            what = "kept" if self._is_deleted else "deleted"
            yield seq, "broken", f"no event records that the session was {what}"
        if told is None:
            return
        if (kind, opened_by, agent or "") != (told.kind, told.opened_by, told.agent):
            yield seq, "broken", "the session is not the one that was created"
        if mode != told.mode:
            yield seq, "broken", f"the session is in {mode} mode, but the log says {told.mode}"
        if (model or "") != told.model:
            yield seq, "broken", "the session's model was changed"

    def _of_tasks(self, rows: list[tuple[Any, ...]]) -> Iterator[Difference]:
        found = {str(row[0]): row[1:] for row in rows}
        for task_id, told in self._tasks.items():
            if task_id not in found:
                yield told.seq, "missing", f"the row of task {task_id} is missing"
            elif not _agree(told, found[task_id]):
                yield told.seq, "broken", f"task {task_id} was changed"
        for task_id in sorted(found.keys() - self._tasks.keys()):
            yield 0, "broken", f"no event describes task {task_id}"


def _agree(told: _Task, row: tuple[Any, ...]) -> bool:
    message_seq, status, mode, who, attempts, credential_id = row
    return (
        status in told.statuses
        and (told.message_seq, told.who, told.attempts) == (message_seq, who, attempts)
        and told.mode in {None, mode}
        and told.credential_id == (credential_id or "")
    )
