"""What the bot works with, and its own settings."""

from collections.abc import Awaitable, Callable

from interlock.channels.telegram.heard import Heard
from interlock.config.modes import ToolMode
from interlock.config.telegram import TelegramSettings
from interlock.events.log import EventLog
from interlock.following.hub import Hub
from interlock.gates.authority import Authority
from interlock.infra.records import dataclass
from interlock.questions.desk import QuestionDesk
from interlock.redaction.redactor import Redactor
from interlock.session.manager import SessionManager
from interlock.session.mode_switch import ModeSwitch
from interlock.store.database import Database
from interlock.worker.tasks import TaskDesk


@dataclass(frozen=True, slots=True)
class Undone:
    """One change of a file: where it is, what was done, and why it was left, if it was."""

    path: str
    action: str
    left_because: str | None


@dataclass(frozen=True, slots=True)
class Services:
    given: TelegramSettings
    # The account that runs the bot, and so decides who may use it.
    operator: str
    database: Database
    log: EventLog
    redactor: Redactor
    hub: Hub[Heard]
    sessions: SessionManager
    mode_switch: ModeSwitch
    open_modes: frozenset[ToolMode]
    questions: QuestionDesk
    tasks: TaskDesk
    # What may be done in a session now, as told to that person; None: in one that is still to be made.
    authority: Callable[[str | None, str], Awaitable[Authority]]
    # The changes of a task taken back, as whom; raises `NothingToUndo`.
    undo: Callable[[str, str], Awaitable[list[Undone]]]


def person(user_id: int) -> str:
    """Who it is, as the log names them."""
    return f"telegram:{user_id}"
