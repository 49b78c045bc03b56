"""What begins with a slash."""

from contextlib import suppress
from typing import TYPE_CHECKING

from interlock.channels.telegram.admission import Admission
from interlock.channels.telegram.content import Button, Content
from interlock.channels.telegram.records import Records
from interlock.channels.telegram.services import Services, Undone, person
from interlock.channels.telegram.updates import Incoming
from interlock.config.modes import ToolMode, parse_mode
from interlock.gates.explaining import next_action_now
from interlock.gates.verdict import layer_name
from interlock.infra.errors import NothingToUndo, PersonError, SessionNotFound, WrongTaskStatus
from interlock.session.slash import Place, known_in, last_denial
from interlock.worker.rows import Task

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# As Telegram lists them for people.
COMMANDS = {name: command.about for name, command in known_in(Place.telegram).items()}
HELP = "Write what you want done. Commands:\n" + "\n".join(
    f"/{name}: {text}" for name, text in COMMANDS.items()
)
MODE_PRESS = "m"
NOT_YOURS = "Another person started the running task; only they or an operator can cancel it."

_DONE = {"created": "removed", "replaced": "restored", "deleted": "recreated", "moved": "moved back"}


class Commands:
    """Each gives what is said about it. They are carried out as the person who wrote them."""

    def __init__(self, services: Services, records: Records, admission: Admission) -> None:
        self._services = services
        self._records = records
        self._admission = admission
        self._known: dict[str, Callable[[Incoming], Awaitable[Content | None]]] = {
            "start": self._help,
            "help": self._help,
            "new": self._new,
            "mode": self._mode,
            "tools": self._tools,
            "why": self._why,
            "cancel": self._cancel,
            "undo": self._undo,
        }

    async def carry_out(self, asked: Incoming) -> Content | None:
        command = self._known.get(asked.command)
        if command is not None:
            return await command(asked)
        # In a group it may be meant for another bot.
        return Content("Unknown command. Type /help for a list.") if asked.is_private else None

    async def _help(self, _asked: Incoming) -> Content:
        return Content(HELP)

    async def _new(self, asked: Incoming) -> Content:
        session_id = self._records.session_id(asked)
        await self.make_session(session_id, "")
        await self._records.talk_in(asked.chat_id, session_id)
        return Content("Started a new conversation in chat_safe mode.")

    async def make_session(self, session_id: str, title: str) -> None:
        """Made once, however often it is asked for."""
        try:
            await self._services.sessions.get(session_id)
        except SessionNotFound:
            await self._services.sessions.create(opened_by="telegram", title=title, session_id=session_id)

    # -- the mode --

    async def _mode(self, asked: Incoming) -> Content:
        session_id = await self._records.session_of(asked.chat_id)
        present = ToolMode.chat_safe
        if session_id is not None:
            present = await self._services.sessions.get_mode(session_id)
        opened = [mode for mode in ToolMode if mode in self._services.open_modes]
        told = f"This conversation is in {present} mode. Open modes: {', '.join(opened)}."
        if not self._admission.is_operator(asked.user_id):
            refusal = " Only operators can switch the mode here." if asked.text or len(opened) > 1 else ""
            return Content(f"{told}{refusal}")
        if session_id is None:
            session_id = self._records.session_id(asked)
            await self.make_session(session_id, "")
            await self._records.talk_in(asked.chat_id, session_id)
        if asked.text:
            try:
                mode = parse_mode(asked.text)
            except ValueError as error:
                raise PersonError(str(error)) from None
            return Content(await self.switch_mode(session_id, mode, asked))
        if len(opened) == 1:
            return Content(f"{told} The operator can open more modes with SESSION_OPEN_MODES.")
        rows = tuple((Button(mode.value, f"{MODE_PRESS}:{session_id}:{mode}"),) for mode in opened)
        return Content(told, buttons=rows)

    async def switch_mode(self, session_id: str, mode: ToolMode, asked: Incoming) -> str:
        """Asked for with words or a button, it is looked at anew whether that may be."""
        if not self._admission.is_operator(asked.user_id):
            raise PersonError("Only operators can switch the mode here.")
        if session_id != await self._records.session_of(asked.chat_id):
            raise PersonError("That button belongs to another conversation. Type /mode again.")
        await self._services.mode_switch.switch(session_id, mode, who=person(asked.user_id))
        return f"This conversation switches to {mode} mode with the next message."

    async def _tools(self, asked: Incoming) -> Content:
        session_id = await self._records.session_of(asked.chat_id)
        authority = await self._services.authority(session_id, person(asked.user_id))
        lines = [f"In {authority.mode} mode:", *(f"✓ {name}" for name in authority.exposed)]
        lines += [f"✗ {failure.message}" for failure in authority.failures.values()]
        return Content("\n".join(lines))

    async def _why(self, asked: Incoming) -> Content:
        session_id = await self._records.session_of(asked.chat_id) or ""
        denial = await self._services.database.read(lambda db: last_denial(db, session_id))
        if denial is None:
            return Content("No tool call was denied in this conversation.")
        authority = await self._services.authority(session_id, person(asked.user_id))
        lines = [
            f"Denied: {denial.get('error', '')}",
            f"Code: {denial.get('error_code', '')} in {denial.get('mode', '')} mode",
            f"Decided by {layer_name(str(denial.get('layer', '')))}",
            f"What to do: {next_action_now(denial, authority)}",
        ]
        return Content("\n".join(lines))

    # -- tasks --

    async def _cancel(self, asked: Incoming) -> Content:
        who, cancelled = person(asked.user_id), 0
        mine, others = await self._mine(asked)
        for task in mine:
            if not task.status.is_end:
                with suppress(WrongTaskStatus):
                    await self._services.tasks.cancel(task.id, who=who)
                    cancelled += 1
        dropped = await self._drop_waiting(asked)
        if not cancelled and not dropped:
            is_others = any(not task.status.is_end for task in others)
            return Content(NOT_YOURS if is_others else "No task is running or queued.")
        told = f"Cancelling {cancelled} {'task' if cancelled == 1 else 'tasks'}."
        more = f" Dropped {dropped} queued {'task' if dropped == 1 else 'tasks'}." if dropped else ""
        return Content(told + more)

    async def _drop_waiting(self, asked: Incoming) -> int:
        """Messages that came before and found no room in the queue."""
        waiting = await self._records.waiting(asked.chat_id)
        before = [
            each
            for each in waiting
            if each.task_id
            and each.incoming.update_id < asked.update_id
            and self.may_decide(asked, each.incoming.user_id)
        ]
        for task_id in dict.fromkeys(each.task_id for each in before):
            group = [each.incoming for each in before if each.task_id == task_id]
            await self._records.done(group, dropped_task=task_id)
        return len({each.task_id for each in before})

    async def _undo(self, asked: Incoming) -> Content:
        mine, others = await self._mine(asked)
        for task in mine:
            with suppress(NothingToUndo):
                return Content(_report(await self._services.undo(task.id, person(asked.user_id))))
        hint = " Only operators can undo the changes of other people." if others else ""
        return Content(f"There are no file changes to undo.{hint}")

    def may_decide(self, asked: Incoming, owner_id: int) -> bool:
        return self._admission.may_decide(asked.user_id, owner_id)

    async def _mine(self, asked: Incoming) -> tuple[list[Task], list[Task]]:
        """Those that this person may cancel or take back: an operator all of them; and the others."""
        tasks = await self._tasks(asked)
        if self._admission.is_operator(asked.user_id):
            return tasks, []
        who = person(asked.user_id)
        return [task for task in tasks if task.who == who], [task for task in tasks if task.who != who]

    async def _tasks(self, asked: Incoming) -> list[Task]:
        """The newest first."""
        session_id = await self._records.session_of(asked.chat_id)
        return [] if session_id is None else await self._services.tasks.list_tasks(session_id=session_id)


def _report(undone: list[Undone]) -> str:
    lines = []
    for each in undone:
        word = "left" if each.left_because else _DONE.get(each.action, each.action)
        lines.append(f"{word}: {each.path}" + (f" ({each.left_because})" if each.left_because else ""))
    return "\n".join(lines)
