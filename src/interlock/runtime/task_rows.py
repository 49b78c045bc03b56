"""The rows of tasks, and all SQL statements about them."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

from interlock.config.modes import ALL_MODES, ToolMode, no_stricter_than
from interlock.core.errors import TaskNotFound, UserError
from interlock.db.driver import DbConnection, Row
from interlock.db.leases import LIVE
from interlock.log.event import IS_MILESTONE, Event
from interlock.log.hash_chain import EventHeader
from interlock.log.kinds import AskUserAnswered, AskUserExpired, SessionModeChanged
from interlock.log.projections import ProjectedRow, Projection
from interlock.log.stream_appender import EventScope
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

# Characters of the request that are shown.
MAX_SHOWN = 120


class TaskStatus(StrEnum):
    queued = "queued"
    running = "running"
    waiting = "waiting"
    done = "done"
    failed = "failed"
    cancelled = "cancelled"

    @property
    def is_end(self) -> bool:
        return self in {TaskStatus.done, TaskStatus.failed, TaskStatus.cancelled}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One message to work on, with fields in the order of the table's columns.

    `message_seq` is the message's number and the task's place in its session. `mode` is the session's when
    the message was sent; each start makes it the stricter of itself and the session's, and so does a switch
    of the session's mode once the task has started.
    """

    id: str
    session_id: str
    message_seq: int
    status: TaskStatus
    mode: ToolMode
    who: str
    credential_id: str | None = None
    created_us: int
    started_us: int | None = None
    ended_us: int | None = None
    attempts: int = 0
    interruptions: int = 0
    cancel_requested_us: int | None = None
    cancel_requested_by: str | None = None
    reason: str | None = None
    question_id: str | None = None
    retry_of: str | None = None
    queued_event: str
    started_event: str | None = None

    @property
    def scope(self) -> EventScope:
        """The parent of the task's further events in the tree of causes."""
        return EventScope(self.id, self.started_event or self.queued_event)

    @property
    def is_cancel_requested(self) -> bool:
        return self.cancel_requested_us is not None


_COLUMNS = tuple(field.name for field in fields(Task))
_NAMES = ", ".join(_COLUMNS)

# Tasks of deleted sessions are hidden from people.
_IS_SHOWN = """
NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = tasks.session_id AND s.deleted_us IS NOT NULL)
"""

SESSION_OF = "SELECT session_id FROM tasks WHERE id = ?"
READ = f"SELECT {_NAMES} FROM tasks WHERE id = ?"  # noqa: S608
READ_SHOWN = f"{READ} AND {_IS_SHOWN}"

# A session's tasks run in order: only the first open one matters. Ordered by a sum, so that SQLite uses the
# index of open tasks instead of scanning all ended ones.
FIRST_OPEN = f"""
SELECT {_NAMES} FROM tasks
WHERE session_id = ? AND status IN ('queued', 'running', 'waiting') ORDER BY message_seq + 0 LIMIT 1
"""  # noqa: S608

# The same, with the holder of the session.
LOOK_AT = f"""
SELECT status, cancel_requested_us IS NOT NULL, (
    SELECT holder FROM leases WHERE name = 'session:' || tasks.session_id AND {LIVE})
FROM tasks
WHERE session_id = ? AND status IN ('queued', 'running', 'waiting') ORDER BY message_seq + 0 LIMIT 1
"""  # noqa: S608

OPEN_TASKS = """
SELECT id FROM tasks WHERE session_id = ? AND status IN ('queued', 'running', 'waiting')
ORDER BY message_seq
"""
COUNT_QUEUED = "SELECT count(*) FROM tasks WHERE session_id = ? AND status = 'queued'"
BEGINNING = "SELECT substr(text, 1, 400) FROM event_texts WHERE stream = ? AND seq = ?"
QUESTION_STATUS = "SELECT status FROM questions WHERE id = ? AND session_id = ? AND task = ?"

# This one statement decides between done and cancelled: a cancellation requested before it wins.
FINISH = """
UPDATE tasks SET status = CASE WHEN cancel_requested_us IS NULL THEN ? ELSE 'cancelled' END
WHERE id = ? AND status = 'running'
"""
CANCEL = "UPDATE tasks SET status = 'cancelled' WHERE id = ? AND status IN ('queued', 'waiting')"
REQUEST_CANCEL = """
UPDATE tasks SET cancel_requested_us = ?
WHERE id = ? AND status = 'running' AND cancel_requested_us IS NULL
"""

# The messages behind a session's first task, with the event that queued each: it follows its message.
QUEUED_BEHIND = """
SELECT t.id, e.facts FROM tasks t JOIN events e ON e.stream = t.session_id AND e.seq = t.message_seq + 1
WHERE t.session_id = ? AND t.status = 'queued' AND t.attempts = 0 ORDER BY t.message_seq
"""
# A message that is cancelled, or whose task is to stop, is not given to it.
STEER = """
UPDATE tasks SET status = 'done' WHERE id = ? AND status = 'queued' AND EXISTS (
    SELECT 1 FROM tasks w WHERE w.id = ? AND w.status = 'running' AND w.cancel_requested_us IS NULL)
"""

# Locked until the commit: a revocation comes before what the credential starts, and refuses it, or after it
# and cancels it.
IS_NOT_REVOKED = "SELECT 1 FROM credentials WHERE id = ? AND ended_us IS NULL {FOR_SHARE}"
# Open tasks started with a credential. Deleted sessions have none.
SESSIONS_STARTED_WITH = f"""
SELECT session_id FROM tasks
WHERE credential_id = ? AND status IN ('queued', 'running', 'waiting') AND {_IS_SHOWN}
UNION
SELECT r.session_id FROM runs r JOIN sessions s ON s.id = r.session_id
WHERE r.credential_id = ? AND r.status IN ('running', 'paused') AND s.deleted_us IS NULL
"""  # noqa: S608
TASKS_STARTED_WITH = """
SELECT id FROM tasks WHERE session_id = ? AND credential_id = ?
    AND status IN ('queued', 'running', 'waiting') ORDER BY message_seq
"""
# Open tasks of all sessions, with what steered their session since: some by a message of that credential.
STEERED_WITH = f"""
SELECT o.session_id, o.id, e.facts FROM tasks o
CROSS JOIN events e CROSS JOIN tasks s
WHERE o.status IN ('queued', 'running', 'waiting') AND o.attempts > 0
    AND e.stream = o.session_id AND e.kind = 'task.steered' AND e.seq > o.message_seq AND {IS_MILESTONE}
    AND s.id = e.task AND s.credential_id = ?
"""  # noqa: S608
STEERED_IN_WITH = f"{STEERED_WITH} AND o.session_id = ?"
RUN_STARTED_WITH = """
SELECT 1 FROM runs WHERE session_id = ? AND credential_id = ? AND status IN ('running', 'paused')
"""

# Of each session its first open task, if it can run and no live lease holds the session: a running task
# without one lost its worker. Each half walks an index and ends at the limit.
_TO_DO = f"""
SELECT t.session_id, t.created_us FROM tasks t
WHERE t.status = 'STATUS'
    AND NOT EXISTS (SELECT 1 FROM leases WHERE name = 'session:' || t.session_id AND {LIVE})
    AND NOT EXISTS (
        SELECT 1 FROM tasks e WHERE e.session_id = t.session_id
            AND e.status IN ('queued', 'running', 'waiting') AND e.message_seq < t.message_seq)
ORDER BY t.created_us LIMIT ?
"""  # noqa: S608
FIND_WORK = f"""
SELECT session_id FROM (
    SELECT * FROM ({_TO_DO.replace("STATUS", "running")}) AS abandoned
    UNION ALL
    SELECT * FROM ({_TO_DO.replace("STATUS", "queued")}) AS queued
) AS to_do ORDER BY created_us, session_id LIMIT ?
"""  # noqa: S608
# Sessions with work whose lease is held, with the holder, which may have died.
HELD_WORK = f"""
SELECT DISTINCT t.session_id, holder FROM tasks t JOIN leases ON name = 'session:' || t.session_id
WHERE t.status IN ('queued', 'running') AND {LIVE}
"""  # noqa: S608
_UNDER_WAY = """
SELECT session_id, status FROM tasks
WHERE session_id IN ({sessions}) AND status IN ('queued', 'running', 'waiting') ORDER BY message_seq DESC
"""
TO_STOP = "SELECT id FROM tasks WHERE status = 'running' AND cancel_requested_us IS NOT NULL"


def list_statement(*, of_session: bool, of_status: bool) -> str:
    """The statement for a list, newest first. Each form is literal, so that it can use its own index."""
    conditions = [_IS_SHOWN]
    if of_session:
        conditions.append("session_id = ?")
    if of_status:
        conditions.append("status = ?")
    order = "message_seq DESC" if of_session else "created_us DESC, id"
    return f"SELECT {_NAMES} FROM tasks WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT ?"  # noqa: S608


def read_open_statuses(connection: DbConnection, sessions: Sequence[str]) -> dict[str, TaskStatus]:
    """The status of each session's first open task, if any."""
    if not sessions:
        return {}
    statement = _UNDER_WAY.replace("{sessions}", ", ".join("?" for _ in sessions))
    return {session: TaskStatus(status) for session, status in connection.query(statement, tuple(sessions))}


def read_request_excerpts(connection: DbConnection, tasks: Sequence[Task]) -> dict[str, str]:
    """The beginning of each task's message, on one line; none if it was erased."""
    found: dict[str, str] = {}
    for task in tasks:
        rows = connection.query(BEGINNING, (task.session_id, task.message_seq))
        if rows:
            found[task.id] = " ".join(str(rows[0][0]).split())[:MAX_SHOWN]
    return found


def new_task_id() -> str:
    return f"t_{secrets.token_hex(8)}"


def task_from_row(row: Row) -> Task:
    values = dict(zip(_COLUMNS, row, strict=True))
    values["status"] = TaskStatus(values["status"])
    values["mode"] = stored_mode(values["mode"])
    return Task(**values)


def read_task(connection: DbConnection, task_id: str, statement: str = READ) -> Task:
    rows = connection.query(statement, (task_id,))
    if not rows:
        raise TaskNotFound(f"there is no task {task_id[:64]}")
    return task_from_row(rows[0])


def find_task(connection: DbConnection, task_id: str, session_id: str) -> Task | None:
    """The task of that id, if it exists; it must belong to that session."""
    rows = connection.query(SESSION_OF, (task_id,))
    if not rows:
        return None
    if rows[0][0] != session_id:
        raise UserError(f"task_id: {task_id} is a task of another session")
    return read_task(connection, task_id)


def steered_task(found: Sequence[Row], who: str | None = None) -> str:
    """The task that a message sent now can steer, from the rows of `FIRST_OPEN`: one that has begun.

    With `who`, only a task of that person.
    """
    task = task_from_row(found[0]) if found else None
    return task.id if task is not None and task.attempts and who in {None, task.who} else ""


def first_runnable(found: Sequence[Row]) -> Task | None:
    """The task to run now, from the rows of `FIRST_OPEN`."""
    task = task_from_row(found[0]) if found else None
    return None if task is None or task.status is TaskStatus.waiting else task


def stored_mode(stored: str) -> ToolMode:
    try:
        return ToolMode(stored)
    except ValueError:
        return ToolMode.chat_safe


def _rows_of(event: Event, header: EventHeader) -> list[ProjectedRow]:
    match event:
        case SessionModeChanged():
            return [{"session_id": header.stream}]
        case AskUserAnswered() | AskUserExpired():
            return [{"id": header.task}] if header.task is not None else []
        case _:
            return [{"id": getattr(event, "task_id", "")}]


def _evolve(row: ProjectedRow | None, event: Event, header: EventHeader) -> ProjectedRow | None:
    if isinstance(event, TaskQueued):
        return dict.fromkeys(_COLUMNS) | {
            "id": event.task_id,
            "session_id": header.stream,
            "message_seq": event.message_seq,
            "status": TaskStatus.queued.value,
            "mode": event.mode,
            "who": event.who,
            "credential_id": event.credential_id or None,
            "created_us": header.time_us,
            "attempts": 0,
            "interruptions": 0,
            "retry_of": event.retry_of or None,
            "queued_event": header.id,
        }
    if row is None:
        return None
    return row | _changes(row, event, header)


def _changes(row: ProjectedRow, event: Event, header: EventHeader) -> ProjectedRow:
    match event:
        case TaskStarted():
            return {
                "status": TaskStatus.running.value,
                "mode": event.mode,
                "attempts": event.attempt,
                # It was running: its worker was lost in the middle of it.
                "interruptions": row["interruptions"] + (row["status"] == TaskStatus.running),
                "started_us": row["started_us"] or header.time_us,
                "started_event": header.id,
            }
        case TaskWaiting(question_id=question_id):
            return {"status": TaskStatus.waiting.value, "question_id": question_id}
        case TaskRequeued():
            return {"status": TaskStatus.queued.value}
        case AskUserAnswered(question_id=question_id) | AskUserExpired(question_id=question_id):
            # Answered or not, the task that waits for this question goes on.
            is_awaited = (row["status"], row["question_id"]) == (TaskStatus.waiting, question_id)
            return {"status": TaskStatus.queued.value, "question_id": None} if is_awaited else {}
        case SessionModeChanged(to_mode=mode):
            return {"mode": mode} if _is_tightened(row, mode) else {}
        case _:
            return _end(row, event, header)


def _end(row: ProjectedRow, event: Event, header: EventHeader) -> ProjectedRow:
    match event:
        case TaskSteered():
            return {"status": TaskStatus.done.value, "ended_us": header.time_us}
        case TaskFinished(status=status, reason=reason):
            return {"status": status, "reason": reason or None, "ended_us": header.time_us}
        case TaskCancelled() | TaskCancelRequested():
            requested = {
                "cancel_requested_us": row["cancel_requested_us"] or header.time_us,
                "cancel_requested_by": event.who,
                "reason": event.reason or None,
            }
            if isinstance(event, TaskCancelRequested):
                return requested | {"cancel_requested_us": header.time_us}
            status = TaskStatus.cancelled.value
            return requested | {"status": status, "question_id": None, "ended_us": header.time_us}
        case _:
            return {}


def _is_tightened(row: ProjectedRow, mode: str) -> bool:
    """Whether a switch of the session's mode concerns a task, whose calls are judged by its row's mode."""
    has_begun = row["started_event"] is not None and not TaskStatus(row["status"]).is_end
    return has_begun and mode in ALL_MODES and row["mode"] in no_stricter_than(ToolMode(mode))


TASKS = Projection(
    table="tasks",
    noun="task",
    key=("id",),
    columns=_COLUMNS[1:],
    kinds=(
        *(TaskQueued, TaskStarted, TaskWaiting, TaskRequeued, TaskCancelRequested, TaskFinished),
        *(TaskCancelled, TaskSteered, AskUserAnswered, AskUserExpired, SessionModeChanged),
    ),
    rows_of=_rows_of,
    evolve=_evolve,
    stream_column="session_id",
    content={"reason": None},
    is_open="status IN ('queued', 'running', 'waiting')",
)
