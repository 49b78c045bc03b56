"""The services and settings of the bot."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from interlock.config.modes import ToolMode
from interlock.config.telegram import TelegramSettings
from interlock.db.database import Database
from interlock.feed.follow import FeedHub
from interlock.feed.frames import FeedItem
from interlock.log.writer import EventLog
from interlock.policy.authority import Authority
from interlock.questions.service import QuestionService
from interlock.redaction.redactor import Redactor
from interlock.runtime.tasks import TaskService
from interlock.sessions.manager import SessionManager
from interlock.sessions.mode_switch import ModeSwitch


@dataclass(frozen=True, slots=True)
class UndoneChange:
    """One undone change: its file, the action, and why it was not undone, if so."""

    path: str
    action: str
    left_because: str | None


@dataclass(frozen=True, slots=True)
class TelegramServices:
    given: TelegramSettings
    # The account that runs the bot, and so decides who may use it.
    operator: str
    database: Database
    log: EventLog
    redactor: Redactor
    hub: FeedHub[FeedItem]
    sessions: SessionManager
    mode_switch: ModeSwitch
    open_modes: frozenset[ToolMode]
    questions: QuestionService
    tasks: TaskService
    # The authority of a session for that person; None: of a session not created yet.
    authority: Callable[[str | None, str], Awaitable[Authority]]
    # Undo a task's changes as an actor; raises `NothingToUndo`.
    undo: Callable[[str, str], Awaitable[list[UndoneChange]]]


def person(user_id: int) -> str:
    """The actor name of a Telegram user in the log."""
    return f"telegram:{user_id}"
