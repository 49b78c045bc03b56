"""Reads messages: in the order they were stored, or as the context of a task.

A message may arrive while an earlier task still runs, and is stored before that task's last messages. A
model gets the messages of each task together, in the order of the tasks, and none of those queued behind
the running task. A message that steered a task stands where that task got it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import itemgetter

import orjson

from interlock.db.driver import DbConnection, Row
from interlock.log.event import IS_MILESTONE
from interlock.log.kinds import IS_MESSAGE, merge_payload
from interlock.log.read import FROM_TASK
from interlock.log.task_events import TurnCompletedEvent
from interlock.models.provider import Reasoning
from interlock.sessions.models import Message, Role
from interlock.sessions.storable_message import require_session

# An erased message has no content.
_MESSAGES = f"""
SELECT seq, kind, facts, content, time_us, task FROM events WHERE stream = ? AND {IS_MESSAGE}
"""  # noqa: S608 - a constant
READ_ALL_MESSAGES = f"{_MESSAGES} AND seq > ? ORDER BY seq LIMIT ?"
# PostgreSQL knows how many rows have a task, and nothing about an expression of it.
READ_MESSAGES = f"{_MESSAGES} AND seq > ? AND (task IS NULL OR task NOT LIKE '%.%') ORDER BY seq LIMIT ?"
READ_OF_TASK = f"""
SELECT seq, kind, facts, content, time_us, task {FROM_TASK} AND {IS_MESSAGE} AND seq >= ? ORDER BY seq
"""
READ_MESSAGE = f"{_MESSAGES} AND seq = ?"
NO_LIMIT = 2**62
READ_STEERED = f"""
SELECT seq, facts FROM events WHERE stream = ? AND kind = 'task.steered' AND {IS_MILESTONE} ORDER BY +seq
"""  # noqa: S608 - a constant

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
    """Messages in the order in which they were stored, by their numbers."""
    require_session(connection, session_id)
    statement = READ_ALL_MESSAGES if with_handed_over else READ_MESSAGES
    rows = connection.query(statement, (session_id, after_seq, limit))
    steered = _read_steered(connection, session_id) if rows else {}
    return [_with_place(_message(row), steered) for row in rows]


def in_given_order(messages: Iterable[Message]) -> list[Message]:
    """The same with each message that steered a task where that task got it."""
    return sorted(messages, key=lambda message: message.taken_seq or message.seq)


def read_steering(connection: DbConnection, session_id: str, task: str) -> list[Message]:
    """The messages that steered a task, in the order in which it got them; not those that were erased."""
    steered = _read_steered(connection, session_id).items()
    taken = sorted((taken_seq, seq) for seq, (into, taken_seq) in steered if into == task)
    found = [read_message(connection, session_id, seq) for _taken_seq, seq in taken]
    return [message for message in found if message is not None]


def read_messages_through_task(
    connection: DbConnection, session_id: str, task: str | None
) -> list[Message]:
    """All messages up to and including those of that task; without a task, all.

    A step of a run and a delegated task have their own messages alone.
    """
    require_session(connection, session_id)
    if task is not None and has_own_context(connection, session_id, task):
        return read_task_messages(connection, session_id, 0, task)
    rows = connection.query(READ_ALL_MESSAGES, (session_id, 0, NO_LIMIT))
    if task is None:
        return in_call_order(map(_message, rows))
    rows = [row for row in rows if not is_subtask(row[-1])]
    places: dict[str, int] = {}
    steered = _read_steered(connection, session_id)
    placed = []
    for row in rows:
        place, seq, message = _place(row, places), int(row[0]), _message(row)
        if (steering := steered.get(seq)) is not None:
            into, taken_seq = steering
            placed.append((places.get(into, place), taken_seq, replace(message, taken_seq=taken_seq)))
        else:
            placed.append((place, seq, message))
    last = places.get(task, 0)
    told = sorted((each for each in placed if each[0] <= last), key=itemgetter(0, 1))
    return in_call_order(message for _place_, _seq, message in told)


def read_message(connection: DbConnection, session_id: str, seq: int) -> Message | None:
    """One message; None if there is none with that number, or it was erased."""
    rows = connection.query(READ_MESSAGE, (session_id, seq))
    return _message(rows[0]) if rows else None


def read_task_messages(
    connection: DbConnection, session_id: str, message_seq: int, task: str
) -> list[Message]:
    """Only that task's own, from its message on."""
    rows = connection.query(READ_OF_TASK, (session_id, task, message_seq))
    return in_call_order(map(_message, rows))


def in_call_order(messages: Iterable[Message]) -> list[Message]:
    """The same with the last result of each call behind the message that requested it, in their order."""
    given = list(messages)
    results = {message.tool_call_id: message for message in given if message.role is Role.tool}
    ordered: list[Message] = []
    for message in given:
        if message.role is not Role.tool:
            asked = [str(call["id"]) for call in message.tool_calls or ()]
            ordered += (message, *(results.pop(call_id) for call_id in asked if call_id in results))
        elif results.pop(message.tool_call_id, None) is not None:
            ordered.append(message)
    return ordered


def _read_steered(connection: DbConnection, session_id: str) -> dict[int, tuple[str, int]]:
    """By the number of each message that steered a task: which one, and where it got it."""
    rows = connection.query(READ_STEERED, (session_id,))
    events = [(int(seq), merge_payload(facts, None)) for seq, facts in rows]
    return {event["message_seq"]: (event["into"], seq) for seq, event in events}


def _with_place(message: Message, steered: Mapping[int, tuple[str, int]]) -> Message:
    known = steered.get(message.seq)
    return message if known is None else replace(message, taken_seq=known[1])


def _place(row: Row, places: dict[str, int]) -> int:
    """Where the message's task began; a message without a task has its own position."""
    seq, task = int(row[0]), row[-1]
    return seq if task is None else places.setdefault(str(task), seq)


def _message(row: Row) -> Message:
    seq, kind, facts, content, time_us, _task = row
    said = merge_payload(facts, content)
    if kind == TurnCompletedEvent.kind:
        thought = said.get("reasoning")
        reasoning = Reasoning(thought["text"], thought["model"], thought["opaque"]) if thought else None
        return Message(seq, Role.assistant, said["content"], time_us, said["calls"], None, reasoning)
    if "result" in said:
        result = orjson.dumps(said["result"]).decode()
        return Message(seq, Role.tool, result, time_us, None, said["call_id"])
    return Message(
        seq, Role(said["role"]), said["content"], time_us, said["tool_calls"], said["tool_call_id"]
    )
