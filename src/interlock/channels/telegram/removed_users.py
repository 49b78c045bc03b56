"""Cancels tasks of people who are no longer listed, and records why."""

from contextlib import suppress

from interlock.channels.telegram.access_control import AccessControl
from interlock.channels.telegram.services import TelegramServices, person
from interlock.channels.telegram.store import DisplayedTask, TelegramStore
from interlock.channels.telegram.updates import IncomingMessage, MessageSender
from interlock.core.errors import TaskNotFound, WrongTaskStatus
from interlock.core.logging import StructuredLogger

_log = StructuredLogger(__name__)


def is_from_removed_user(admission: AccessControl, each: IncomingMessage | DisplayedTask) -> bool:
    sender = MessageSender(
        user_id=each.user_id, chat_id=each.chat_id, is_private=each.chat_id > 0, is_person=True
    )
    return admission.refused(sender) is not None


async def cancel_tasks_of_removed_users(
    records: TelegramStore, admission: AccessControl, services: TelegramServices
) -> int:
    """Cancel the unfinished tasks of people and groups removed from the lists. Returns their number."""
    shown = [
        (task.task_id, task.user_id)
        for task in await records.open_tasks()
        if is_from_removed_user(admission, task)
    ]
    others = [
        (task_id, user_id)
        for task_id, user_id in await records.unfinished_tasks()
        if not admission.is_listed(user_id)
    ]
    cancelled = 0
    for task_id, user_id in dict([*shown, *others]).items():
        reason = removal_reason(user_id)
        with suppress(WrongTaskStatus, TaskNotFound):
            await services.tasks.cancel(task_id, who=services.operator, reason=reason)
            _log.warning("telegram_dismissed", task_id=task_id, reason=reason)
            cancelled += 1
    return cancelled


def removal_reason(user_id: int) -> str:
    return f"{person(user_id)} is no longer allowed to use the bot"
