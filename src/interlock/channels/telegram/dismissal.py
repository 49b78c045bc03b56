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


async def dismiss(records: Records, admission: Admission, services: Services) -> None:
    """What runs is stopped, and what waits is not begun. Safe to do by whoever reads the lists."""
    for task in await records.open_tasks():
        if is_disallowed(admission, task):
            await _cancel(services, task.task_id, f"{person(task.user_id)} is not allowed any more")
    for task_id, user_id in await records.unended():
        if not admission.is_listed(user_id):
            await _cancel(services, task_id, f"{person(user_id)} is not allowed any more")


async def _cancel(services: Services, task_id: str, why: str) -> None:
    with suppress(WrongTaskStatus, TaskNotFound):
        await services.tasks.cancel(task_id, who=f"the list of people: {why}")
        _log.warning("telegram_dismissed", task_id=task_id, reason=why)
