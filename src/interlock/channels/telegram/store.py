"""The bot's persistent state: poll offset, inbox, sessions of chats, and displayed messages.

Incoming messages and the poll offset are stored in one transaction, so that each update is stored once,
whenever the process ends.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import orjson

from interlock.channels.telegram.bot_lease import BotLease
from interlock.channels.telegram.updates import IncomingMessage
from interlock.core.errors import StoreError, is_transient
from interlock.core.logging import StructuredLogger
from interlock.core.text import sanitize_text
from interlock.db.database import Database
from interlock.db.driver import DbConnection, Row
from interlock.log.event import Event
from interlock.log.hash_chain import now_us
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.stream_appender import EventScope
from interlock.log.writer import EventLog, Transaction
from interlock.redaction.redactor import Redactor

_log = StructuredLogger(__name__)

# The delay before a failed read or write is retried.
AGAIN_SECONDS = 1.0

READ_POLL_OFFSET = "SELECT next_update, updated_us FROM telegram_bots WHERE bot_id = ?"
SET_POLL_OFFSET = """
INSERT INTO telegram_bots (bot_id, next_update, updated_us) VALUES (?, ?, ?)
ON CONFLICT (bot_id) DO UPDATE SET next_update = excluded.next_update, updated_us = excluded.updated_us
"""
INSERT_INCOMING = """
INSERT INTO telegram_inbox (bot_id, update_id, chat_id, document, received_us) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (bot_id, update_id) DO NOTHING
"""
INBOX_OF_CHAT = """
SELECT update_id, document, received_us, task_id FROM telegram_inbox
WHERE bot_id = ? AND chat_id = ? ORDER BY update_id
"""
ASSIGN_TASK = "UPDATE telegram_inbox SET task_id = ?, document = ? WHERE bot_id = ? AND update_id = ?"
NOTE_ANSWER = "UPDATE telegram_inbox SET document = ? WHERE bot_id = ? AND update_id = ?"
DELETE_INCOMING = "DELETE FROM telegram_inbox WHERE bot_id = ? AND update_id = ?"
CHATS_WITH_WORK = """
SELECT chat_id FROM telegram_inbox WHERE bot_id = ?
UNION SELECT chat_id FROM telegram_tasks WHERE bot_id = ?
"""

# Ignore deleted sessions; one about to be created does not exist yet.
READ_SESSION = """
SELECT c.session_id FROM telegram_chats c WHERE c.bot_id = ? AND c.chat_id = ?
    AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = c.session_id AND s.deleted_us IS NOT NULL)
"""
SET_SESSION = """
INSERT INTO telegram_chats (bot_id, chat_id, session_id) VALUES (?, ?, ?)
ON CONFLICT (bot_id, chat_id) DO UPDATE SET session_id = excluded.session_id
"""

_TASK = "task_id, chat_id, session_id, user_id, reply_to, shown"
ADD_TASK = """
INSERT INTO telegram_tasks (task_id, bot_id, chat_id, session_id, user_id, reply_to, shown)
VALUES (?, ?, ?, ?, ?, ?, '{}') ON CONFLICT (task_id) DO NOTHING
"""
READ_TASK = f"SELECT {_TASK} FROM telegram_tasks WHERE task_id = ?"  # noqa: S608 - a constant
OPEN_TASKS = f"SELECT {_TASK} FROM telegram_tasks WHERE bot_id = ? ORDER BY task_id"  # noqa: S608
NOTE_SHOWN = "UPDATE telegram_tasks SET shown = ? WHERE task_id = ?"
END_TASK = "DELETE FROM telegram_tasks WHERE task_id = ?"

# Includes tasks that the chats no longer display.
UNFINISHED_TASKS = """
SELECT t.id, t.who FROM tasks t
WHERE substr(t.who, 1, 9) = 'telegram:' AND t.status IN ('queued', 'running', 'waiting')
    AND EXISTS (SELECT 1 FROM telegram_chats c WHERE c.session_id = t.session_id AND c.bot_id = ?)
"""

ADD_QUESTION = """
INSERT INTO telegram_questions (question_id, task_id, session_id, state) VALUES (?, ?, ?, '{}')
ON CONFLICT (question_id) DO NOTHING
"""
READ_QUESTION = "SELECT task_id, state FROM telegram_questions WHERE question_id = ?"
NOTE_STATE = "UPDATE telegram_questions SET state = ? WHERE question_id = ?"
QUESTIONS_OF_CHAT = """
SELECT q.question_id, t.shown FROM telegram_questions q JOIN telegram_tasks t ON t.task_id = q.task_id
WHERE t.bot_id = ? AND t.chat_id = ?
"""
END_QUESTIONS = "DELETE FROM telegram_questions WHERE task_id = ?"


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """An incoming message not processed yet. With a task id, it is to be queued as that task."""

    incoming: IncomingMessage
    received_us: int
    task_id: str | None = None


@dataclass(frozen=True, slots=True)
class DisplayedTask:
    """A task whose end its chat has not shown yet. `shown` maps names to the messages that show it."""

    task_id: str
    chat_id: int
    session_id: str
    user_id: int
    reply_to: int | None = None
    shown: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PollOffset:
    next_update: int
    updated_us: int


class TelegramStore:
    """The state of one bot, written only by the holder of its lease."""

    def __init__(self, database: Database, log: EventLog, redactor: Redactor, lease: BotLease) -> None:
        self._database = database
        self._events = log
        self._redactor = redactor
        self._lease = lease
        self._bot = lease.bot_id

    # -- inbox --

    async def place(self) -> PollOffset | None:
        rows = await self._database.read(lambda db: db.query(READ_POLL_OFFSET, (self._bot,)))
        return PollOffset(*rows[0]) if rows else None

    async def take_in(self, arrived: Sequence[IncomingMessage], next_update: int) -> None:
        time_us = now_us()
        rows = [
            (self._bot, each.update_id, each.chat_id, self._safe(each).as_json(), time_us)
            for each in arrived
        ]

        def work(transaction: Transaction) -> None:
            self._begin(transaction)
            transaction.connection.change_many(INSERT_INCOMING, rows)
            transaction.connection.change(SET_POLL_OFFSET, (self._bot, next_update, time_us))

        await self._events.transact(SYSTEM_STREAM, work)

    async def waiting(self, chat_id: int) -> list[InboxEntry]:
        rows = await self._database.read(lambda db: db.query(INBOX_OF_CHAT, (self._bot, chat_id)))
        return [InboxEntry(IncomingMessage.from_json(row[1]), row[2], row[3]) for row in rows]

    async def seal(self, group: Sequence[IncomingMessage], task: DisplayedTask) -> None:
        """Assign the messages to a task and its session, whatever arrives after them."""

        def work(transaction: Transaction) -> None:
            self._begin(transaction)
            connection = transaction.connection
            for each in group:
                document = replace(each, session_id=task.session_id).as_json()
                connection.change(ASSIGN_TASK, (task.task_id, document, self._bot, each.update_id))
            connection.change(SET_SESSION, (self._bot, task.chat_id, task.session_id))
            row = (task.task_id, self._bot, task.chat_id, task.session_id, task.user_id, task.reply_to)
            connection.change(ADD_TASK, row)

        await self._events.transact(SYSTEM_STREAM, work)

    async def done(self, group: Sequence[IncomingMessage], *, dropped_task: str | None = None) -> None:
        """Delete processed messages, and a task that was never queued."""

        def work(transaction: Transaction) -> None:
            self._begin(transaction)
            for each in group:
                transaction.connection.change(DELETE_INCOMING, (self._bot, each.update_id))
            if dropped_task is not None:
                transaction.connection.change(END_TASK, (dropped_task,))

        await self._events.transact(SYSTEM_STREAM, work)

    async def chats_with_work(self) -> list[int]:
        rows = await self._database.read(lambda db: db.query(CHATS_WITH_WORK, (self._bot, self._bot)))
        return [int(row[0]) for row in rows]

    # -- chats and sessions --

    async def session_of(self, chat_id: int) -> str | None:
        rows = await self._database.read(lambda db: db.query(READ_SESSION, (self._bot, chat_id)))
        return str(rows[0][0]) if rows else None

    async def talk_in(self, chat_id: int, session_id: str) -> None:
        def work(transaction: Transaction) -> None:
            self._begin(transaction)
            transaction.connection.change(SET_SESSION, (self._bot, chat_id, session_id))

        await self._events.transact(SYSTEM_STREAM, work)

    # -- displayed tasks --

    async def task(self, task_id: str) -> DisplayedTask | None:
        rows = await self._database.read(lambda db: db.query(READ_TASK, (task_id,)))
        return _task_of(rows[0]) if rows else None

    async def open_tasks(self) -> list[DisplayedTask]:
        rows = await self._database.read(lambda db: db.query(OPEN_TASKS, (self._bot,)))
        return [_task_of(row) for row in rows]

    async def unfinished_tasks(self) -> list[tuple[str, int]]:
        """Unfinished tasks of this bot's chats, and the Telegram users who sent them."""
        rows = await self._database.read(lambda db: db.query(UNFINISHED_TASKS, (self._bot,)))
        named = [(str(row[0]), str(row[1]).partition(":")[2]) for row in rows]
        return [(task_id, int(user_id)) for task_id, user_id in named if user_id.isdecimal()]

    async def note_shown(self, task_id: str, name: str, message_id: int | None) -> None:
        """Record which message shows this part of the task; None if none does any more."""

        def work(transaction: Transaction) -> None:
            self._begin(transaction)
            rows = transaction.connection.query(READ_TASK, (task_id,))
            if rows:
                shown: dict[str, int] = orjson.loads(rows[0][5])
                shown.pop(name, None)
                if message_id is not None:
                    shown[name] = message_id
                transaction.connection.change(NOTE_SHOWN, (orjson.dumps(shown).decode(), task_id))

        await self._events.transact(SYSTEM_STREAM, work)

    async def end(self, task: DisplayedTask, event: Event | None, scope: EventScope) -> None:
        """Record that the chat shows the end, or never will.

        `event` goes to the session, if it still exists.
        """

        def work(transaction: Transaction) -> None:
            self._begin(transaction)
            _forget(transaction.connection, task.task_id)
            if event is not None:
                transaction.record(event, scope)

        await self._events.transact(SYSTEM_STREAM if event is None else task.session_id, work)

    # -- questions --

    async def ask(self, question_id: str, task: DisplayedTask) -> dict[str, Any]:
        """Record a question and return the state of its answer."""

        def work(transaction: Transaction) -> dict[str, Any]:
            self._begin(transaction)
            row = (question_id, task.task_id, task.session_id)
            transaction.connection.change(ADD_QUESTION, row)
            state: dict[str, Any] = orjson.loads(
                transaction.connection.query(READ_QUESTION, (question_id,))[0][1]
            )
            return state

        return await self._events.transact(SYSTEM_STREAM, work)

    async def question(self, question_id: str) -> tuple[DisplayedTask, dict[str, Any]] | None:
        """The task that asked it in this chat, and the state of its answer."""

        def read(connection: DbConnection) -> tuple[DisplayedTask, dict[str, Any]] | None:
            rows = connection.query(READ_QUESTION, (sanitize_text(question_id),))
            tasks = connection.query(READ_TASK, (rows[0][0],)) if rows else []
            return (_task_of(tasks[0]), orjson.loads(rows[0][1])) if tasks else None

        return await self._database.read(read)

    async def note_state(self, question_id: str, state: dict[str, Any], by: IncomingMessage) -> None:
        """Store the state and delete the message that led to it, so that it is not applied twice."""
        text = orjson.dumps(self._redactor.value(state)).decode()

        def work(transaction: Transaction) -> None:
            self._begin(transaction)
            transaction.connection.change(NOTE_STATE, (text, question_id))
            transaction.connection.change(DELETE_INCOMING, (self._bot, by.update_id))

        await self._events.transact(SYSTEM_STREAM, work)

    async def note_answer(self, incoming: IncomingMessage, question_id: str) -> None:
        """Mark a message as the answer to a question, even if the question is closed by then."""
        document = replace(incoming, answers=question_id).as_json()

        def work(transaction: Transaction) -> None:
            self._begin(transaction)
            transaction.connection.change(NOTE_ANSWER, (document, self._bot, incoming.update_id))

        await self._events.transact(SYSTEM_STREAM, work)

    async def question_of_message(self, chat_id: int, message_id: int) -> str | None:
        """The question that a message of the bot asks, in whole or in part."""
        rows = await self._database.read(lambda db: db.query(QUESTIONS_OF_CHAT, (self._bot, chat_id)))
        for question_id, shown in rows:
            for name, shown_by in orjson.loads(shown).items():
                if shown_by == message_id and question_id in name:
                    return str(question_id)
        return None

    # -- ids --

    def task_id(self, first: IncomingMessage) -> str:
        """A task id derived from the message: processing it again yields the same task."""
        return f"t_{self._digest('task', first)}"

    def session_id(self, first: IncomingMessage) -> str:
        return f"s_{self._digest('session', first)}"

    def _digest(self, what: str, first: IncomingMessage) -> str:
        named = f"telegram {what} {self._bot} {first.chat_id} {first.message_id} {first.update_id}"
        return sha256(named.encode()).hexdigest()[:16]

    def _begin(self, transaction: Transaction) -> None:
        """Check the lease: a process that lost it stores nothing."""
        transaction.next_seq()
        self._lease.check(transaction)

    def _safe(self, incoming: IncomingMessage) -> IncomingMessage:
        return replace(incoming, text=self._redactor.text(sanitize_text(incoming.text)))


async def retry_until_stored(store: Callable[[], Awaitable[None]]) -> None:
    """Retry a write until the store accepts it: the data would otherwise be lost."""
    while True:
        try:
            return await store()
        except StoreError as error:
            if not is_transient(error):
                raise
            _log.warning("telegram_not_stored", error=str(error))
            await asyncio.sleep(AGAIN_SECONDS)


def _forget(connection: DbConnection, task_id: str) -> None:
    connection.change(END_TASK, (task_id,))
    connection.change(END_QUESTIONS, (task_id,))


def _task_of(row: Row) -> DisplayedTask:
    task_id, chat_id, session_id, user_id, reply_to, shown = row
    return DisplayedTask(task_id, chat_id, session_id, user_id, reply_to, orjson.loads(shown))
