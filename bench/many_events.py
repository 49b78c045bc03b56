"""Stores of very many events, made fast and honestly: the log's own appender chains each and stores the
rows that follow from it, and `events verify` finds nothing.

A task is a message, a turn with one call, whose outcome is no message, and the end. A third of the tasks
are in one long session, the rest in sessions of ten each; workers are in the system's stream. Times are
spread over a hundred days, so that a day is a hundredth of all.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import interlock.log.stream_appender as appender_module
from interlock.db.database import Database
from interlock.log.event import Event
from interlock.log.kinds import SYSTEM_STREAM, SessionCreated, ToolCallCompleted, ToolCallStarted
from interlock.log.stream_appender import EventDraft, EventReceipt, EventScope, StreamAppender
from interlock.log.task_events import (
    AgentCompleted,
    AgentStarted,
    TaskFinished,
    TaskQueued,
    TaskStarted,
    TurnCompletedEvent,
)
from interlock.log.worker_events import WorkerStarted
from interlock.log.writer import EventLog
from interlock.redaction.redactor import Redactor
from interlock.sessions.models import Role
from interlock.sessions.storable_message import make_storable
from interlock.wiring.projections import PROJECTIONS

DAYS = 100
DAY_US = 86_400_000_000
TASKS_OF_A_SESSION = 10
EVENTS_OF_A_TASK = 9
TASKS_AT_ONCE = 500
LONG_SESSION = "s_long"
CALL = {"call_id": "call_1", "tool_name": "current_time", "mode": "chat_safe", "authority_digest": "d" * 64}


class Maker:
    """`tasks` are those it has made, in order: the session, the task and the number of its message."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._redactor = Redactor()
        self._log = EventLog(database, self._redactor, PROJECTIONS)
        self._now_us = 0
        self._opened: set[str] = set()
        self.tasks: list[tuple[str, str, int]] = []

    def make(self, events: int) -> None:
        count = events // EVENTS_OF_A_TASK
        began_us = time.time_ns() // 1000 - DAYS * DAY_US
        connection = self._database.config.connect()
        try:
            with self._clock():
                for first in range(0, count, TASKS_AT_ONCE):
                    connection.begin(write=True)
                    appender = StreamAppender(connection, {}, PROJECTIONS)
                    for number in range(first, min(first + TASKS_AT_ONCE, count)):
                        self._now_us = began_us + number * DAYS * DAY_US // count
                        self._one(appender, number)
                    appender.flush()
                    connection.commit()
            if self._database.dialect == "postgresql":
                connection.change("ANALYZE")
        finally:
            connection.close()
            self._log.close()

    @contextmanager
    def _clock(self) -> Iterator[None]:
        """The appender reads the time in one place."""
        real, appender_module.now_us = appender_module.now_us, lambda: self._now_us
        try:
            yield
        finally:
            appender_module.now_us = real

    def _one(self, appender: StreamAppender, number: int) -> None:
        place = number // 3 * 2 + number % 3
        session = LONG_SESSION if number % 3 == 2 else f"s_{place // TASKS_OF_A_SESSION}"
        if session not in self._opened:
            self._opened.add(session)
            self._open(appender, session)
        self._task(appender, session, f"t_{number}")
        if number % 8 == 0:
            worker = WorkerStarted(worker=f"w-{number}", pid=number, host="here")
            self._told(appender, SYSTEM_STREAM, self._log.draft(worker))

    def _open(self, appender: StreamAppender, session: str) -> None:
        appender.open_stream(session)
        created = SessionCreated(
            session_kind="chat", title=f"About {session}", mode="chat_safe", opened_by="bench"
        )
        self._told(appender, session, self._log.draft(created))

    def _task(self, appender: StreamAppender, session: str, task: str) -> None:
        asked = make_storable(self._redactor, Role.user, f"What time is it, for {task}?")
        (message,) = self._told(appender, session, self._log.draft(asked.event(), EventScope(task)))
        queued = self._event(
            TaskQueued(task_id=task, message_seq=message.seq, who="bench", mode="chat_safe"),
            task,
            message.id,
        )
        started = self._event(
            TaskStarted(task_id=task, mode="chat_safe", worker="w-0", attempt=1), task, queued.id
        )
        self._told(appender, session, queued, started, *self._work(task, started.id))
        self.tasks.append((session, task, message.seq))

    def _work(self, task: str, started: str) -> Sequence[EventDraft]:
        """One turn with a call, and the answer."""
        agent = self._event(
            AgentStarted(task_id=task, agent="interlock", agent_hash="", model="bench"), task, started
        )
        said = make_storable(self._redactor, Role.assistant, f"It is noon, for {task}.")
        completed = TurnCompletedEvent(
            turn=1,
            authority_digest="d" * 64,
            messages=2,
            finish_reason="stop",
            tool_calls=1,
            input_tokens=100,
            output_tokens=20,
            latency_ms=5.0,
            model="bench",
            content=said.content,
        )
        turn = self._event(completed, task, agent.id)
        call = ToolCallStarted(
            **CALL, requested_name="current_time", arguments={}, effect="read", timeout_seconds=30
        )
        intent = self._event(call, task, turn.id)
        ended = ToolCallCompleted(
            **CALL,
            latency_ms=1.0,
            exit_code=0,
            truncated_lines=False,
            truncated_bytes=False,
            output_hash="",
        )
        return (
            *(agent, turn, intent, self._event(ended, task, intent.id)),
            self._event(AgentCompleted(turns=1, input_tokens=100, output_tokens=20), task, agent.id),
            self._event(TaskFinished(task_id=task, status="done"), task, started),
        )

    def _event(self, event: Event, task: str, parent: str) -> EventDraft:
        return self._log.draft(event, EventScope(task, parent))

    def _told(self, appender: StreamAppender, stream: str, *drafts: EventDraft) -> list[EventReceipt]:
        return appender.add(stream, None, drafts, _refused)


def _refused(error: Exception) -> None:
    raise error
