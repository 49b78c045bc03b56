"""What people had asked for who are not listed any more: it is cancelled, and the log says why."""

from contextlib import suppress

from interlock.channels.telegram.admission import Admission
from interlock.channels.telegram.records import Records, ShownTask
from interlock.channels.telegram.services import Services, person
from interlock.channels.telegram.updates import Incoming, Sender
from interlock.infra.errors import TaskNotFound, WrongTaskStatus
from interlock.infra.logging import Log

_log = Log(__name__)


def is_disallowed(admission: Admission, each: Incoming | ShownTask) -> bool:
    sender = Sender(user_id=each.user_id, chat_id=each.chat_id, is_private=each.chat_id > 0, is_person=True)
    return admission.refused(sender) is not None


async def dismiss(records: Records, admission: Admission, services: Services) -> int:
    """Cancel the unfinished tasks of people and groups that were taken off the lists; how many."""
    shown = [
        (task.task_id, task.user_id)
        for task in await records.open_tasks()
        if is_disallowed(admission, task)
    ]
    others = [
        (task_id, user_id)
        for task_id, user_id in await records.unended()
        if not admission.is_listed(user_id)
    ]
    cancelled = 0
    for task_id, user_id in dict([*shown, *others]).items():
        reason = why_dismissed(user_id)
        with suppress(WrongTaskStatus, TaskNotFound):
            await services.tasks.cancel(task_id, who=services.operator, reason=reason)
            _log.warning("telegram_dismissed", task_id=task_id, reason=reason)
            cancelled += 1
    return cancelled


def why_dismissed(user_id: int) -> str:
    return f"{person(user_id)} is no longer allowed to use the bot"
