"""What the bot works with, and its own settings."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from interlock.channels.telegram.feed_items import TelegramFeedItem
from interlock.config.modes import ToolMode
from interlock.config.telegram import TelegramSettings
from interlock.db.database import Database
from interlock.feed.follow import FeedHub
from interlock.log.writer import EventLog
from interlock.policy.authority import Authority
from interlock.questions.service import QuestionService
from interlock.redaction.redactor import Redactor
from interlock.runtime.tasks import TaskService
from interlock.sessions.manager import SessionManager
from interlock.sessions.mode_switch import ModeSwitch


@dataclass(frozen=True, slots=True)
class UndoneChange:
    """One change of a file: where it is, what was done, and why it was left, if it was."""

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
    hub: FeedHub[TelegramFeedItem]
    sessions: SessionManager
    mode_switch: ModeSwitch
    open_modes: frozenset[ToolMode]
    questions: QuestionService
    tasks: TaskService
    # What may be done in a session now, as told to that person; None: in one that is still to be made.
    authority: Callable[[str | None, str], Awaitable[Authority]]
    # The changes of a task taken back, as whom; raises `NothingToUndo`.
    undo: Callable[[str, str], Awaitable[list[UndoneChange]]]


def person(user_id: int) -> str:
    """Who it is, as the log names them."""
    return f"telegram:{user_id}"
