"""Reads messages: in the order they were stored, or as the context of a task.

A message may arrive while an earlier task still runs, and is stored before that task's last messages. A
model gets the messages of each task together, in the order of the tasks, and none of those queued behind
the running task.
"""

import orjson

from interlock.db.driver import DbConnection, Row
from interlock.sessions.models import Message, Role
from interlock.sessions.storable_message import require_session

_COLUMNS = "m.seq, m.role, m.content, m.tool_calls, m.tool_call_id, m.time_us"

READ_ALL_MESSAGES = f"""
SELECT {_COLUMNS} FROM messages m
WHERE m.session_id = ? AND m.seq > ? AND m.content IS NOT NULL ORDER BY m.seq LIMIT ?
"""  # noqa: S608
# Each message by itself, so that a page of a long session is found without joining all of it.
READ_MESSAGES = f"""
SELECT {_COLUMNS} FROM messages m
WHERE m.session_id = ? AND m.seq > ? AND m.content IS NOT NULL AND (
    SELECT coalesce(e.task, '') FROM events e WHERE e.stream = m.session_id AND e.seq = m.seq
) NOT LIKE '%.%'
ORDER BY m.seq LIMIT ?
"""  # noqa: S608
NO_LIMIT = 2**62

# The event that authenticates a message has its number and its task.
READ_ALL_WITH_TASKS = f"""
SELECT {_COLUMNS}, e.task FROM messages m JOIN events e ON e.stream = m.session_id AND e.seq = m.seq
WHERE m.session_id = ? AND m.content IS NOT NULL ORDER BY m.seq
"""  # noqa: S608
READ_OF_TASK = f"""
SELECT {_COLUMNS} FROM messages m
WHERE m.session_id = ? AND m.content IS NOT NULL
    AND m.seq IN (SELECT seq FROM events WHERE stream = ? AND task = ? AND seq >= ?)
ORDER BY m.seq
"""  # noqa: S608

IS_RUN = "SELECT 1 FROM sessions WHERE id = ? AND kind = 'run'"


def is_subtask(task: str | None) -> bool:
    """A subtask is named after its parent, with a dot: its messages are between two agents."""
    return task is not None and "." in task


def has_own_context(connection: DbConnection, session_id: str, task: str) -> bool:
    """Whether the context of a task is its own messages alone."""
    return is_subtask(task) or bool(connection.query(IS_RUN, (session_id,)))


def read_messages(
    connection: DbConnection,
    session_id: str,
    after_seq: int = 0,
    limit: int = NO_LIMIT,
    *,
    with_handed_over: bool = False,
) -> list[Message]:
    require_session(connection, session_id)
    statement = READ_ALL_MESSAGES if with_handed_over else READ_MESSAGES
    return [_message(row) for row in connection.query(statement, (session_id, after_seq, limit))]


def read_messages_through_task(
    connection: DbConnection, session_id: str, task: str | None
) -> list[Message]:
    """All messages up to and including those of that task; without a task, all.

    A step of a run and a delegated task have their own messages alone.
    """
    require_session(connection, session_id)
    if task is not None and has_own_context(connection, session_id, task):
        return read_task_messages(connection, session_id, 0, task)
    rows = connection.query(READ_ALL_WITH_TASKS, (session_id,))
    if task is None:
        return [_message(row[:-1]) for row in rows]
    rows = [row for row in rows if not is_subtask(row[-1])]
    places: dict[str, int] = {}
    placed = [(_place(row, places), row) for row in rows]
    last = places.get(task, 0)
    told = sorted((place, row[0], row) for place, row in placed if place <= last)
    return [_message(row[:-1]) for _place_, _seq, row in told]


def read_task_messages(
    connection: DbConnection, session_id: str, message_seq: int, task: str
) -> list[Message]:
    """Only that task's own, from its message on."""
    rows = connection.query(READ_OF_TASK, (session_id, session_id, task, message_seq))
    return [_message(row) for row in rows]


def _place(row: Row, places: dict[str, int]) -> int:
    """Where the message's task began; a message without a task has its own position."""
    seq, task = int(row[0]), row[-1]
    return seq if task is None else places.setdefault(str(task), seq)


def _message(row: Row) -> Message:
    seq, role, content, tool_calls, tool_call_id, time_us = row
    calls = orjson.loads(tool_calls) if tool_calls else None
    return Message(seq, Role(role), content, time_us, calls, tool_call_id)
