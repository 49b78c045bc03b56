"""Slash commands."""

from contextlib import suppress
from typing import TYPE_CHECKING

from interlock.channels.telegram.access_control import AccessControl
from interlock.channels.telegram.outgoing_content import MessageButton, MessageContent
from interlock.channels.telegram.services import TelegramServices, UndoneChange, person
from interlock.channels.telegram.store import TelegramStore
from interlock.channels.telegram.updates import IncomingMessage
from interlock.config.modes import ToolMode, parse_mode
from interlock.core.errors import NothingToUndo, SessionNotFound, UserError, WrongTaskStatus
from interlock.gates.explain import next_action_now
from interlock.policy.verdict import layer_name
from interlock.runtime.task_rows import Task
from interlock.sessions.slash_commands import Surface, read_last_denial, slash_commands_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# The list that Telegram shows to people.
COMMANDS = {name: command.about for name, command in slash_commands_for(Surface.telegram).items()}
HELP = "Write what you want done. Commands:\n" + "\n".join(
    f"/{name}: {text}" for name, text in COMMANDS.items()
)
MODE_BUTTON = "m"
NOT_YOURS = "Another person started the running task; only they or an operator can cancel it."

_DONE = {"created": "removed", "replaced": "restored", "deleted": "recreated", "moved": "moved back"}


class TelegramCommands:
    """Each command returns its reply. Commands run as the person who sent them."""

    def __init__(
        self, services: TelegramServices, records: TelegramStore, admission: AccessControl
    ) -> None:
        self._services = services
        self._records = records
        self._admission = admission
        self._known: dict[str, Callable[[IncomingMessage], Awaitable[MessageContent | None]]] = {
            "start": self._help,
            "help": self._help,
            "new": self._new,
            "mode": self._mode,
            "tools": self._tools,
            "why": self._why,
            "cancel": self._cancel,
            "undo": self._undo,
            "compact": self._compact,
            "steer": self._steer,
        }

    async def carry_out(self, asked: IncomingMessage) -> MessageContent | None:
        command = self._known.get(asked.command)
        if command is not None:
            return await command(asked)
        # In a group, it may be meant for another bot.
        return MessageContent("Unknown command. Type /help for a list.") if asked.is_private else None

    async def _help(self, _asked: IncomingMessage) -> MessageContent:
        return MessageContent(HELP)

    async def _new(self, asked: IncomingMessage) -> MessageContent:
        session_id = self._records.session_id(asked)
        await self.make_session(session_id, "")
        await self._records.talk_in(asked.chat_id, session_id)
        return MessageContent("Started a new conversation in chat_safe mode.")

    async def make_session(self, session_id: str, title: str) -> None:
        """Create the session once, however often this is called."""
        try:
            await self._services.sessions.get(session_id)
        except SessionNotFound:
            await self._services.sessions.create(opened_by="telegram", title=title, session_id=session_id)

    # -- mode --

    async def _mode(self, asked: IncomingMessage) -> MessageContent:
        session_id = await self._records.session_of(asked.chat_id)
        present = ToolMode.chat_safe
        if session_id is not None:
            present = await self._services.sessions.get_mode(session_id)
        opened = [mode for mode in ToolMode if mode in self._services.open_modes]
        entry = f"This conversation is in {present} mode. Open modes: {', '.join(opened)}."
        if not self._admission.is_operator(asked.user_id):
            refusal = " Only operators can switch the mode here." if asked.text or len(opened) > 1 else ""
            return MessageContent(f"{entry}{refusal}")
        if session_id is None:
            session_id = self._records.session_id(asked)
            await self.make_session(session_id, "")
            await self._records.talk_in(asked.chat_id, session_id)
        if asked.text:
            try:
                mode = parse_mode(asked.text)
            except ValueError as error:
                raise UserError(str(error)) from None
            return MessageContent(await self.switch_mode(session_id, mode, asked))
        if len(opened) == 1:
            return MessageContent(f"{entry} The operator can open more modes with SESSION_OPEN_MODES.")
        rows = tuple((MessageButton(mode.value, f"{MODE_BUTTON}:{session_id}:{mode}"),) for mode in opened)
        return MessageContent(entry, buttons=rows)

    async def switch_mode(self, session_id: str, mode: ToolMode, asked: IncomingMessage) -> str:
        """Switch the mode by command or button; permission is checked again each time."""
        if not self._admission.is_operator(asked.user_id):
            raise UserError("Only operators can switch the mode here.")
        if session_id != await self._records.session_of(asked.chat_id):
            raise UserError("That button belongs to another conversation. Type /mode again.")
        await self._services.mode_switch.switch(session_id, mode, who=person(asked.user_id))
        return f"This conversation switches to {mode} mode with the next message."

    async def _tools(self, asked: IncomingMessage) -> MessageContent:
        session_id = await self._records.session_of(asked.chat_id)
        authority = await self._services.authority(session_id, person(asked.user_id))
        lines = [f"In {authority.mode} mode:", *(f"✓ {name}" for name in authority.exposed)]
        lines += [f"✗ {failure.message}" for failure in authority.failures.values()]
        return MessageContent("\n".join(lines))

    async def _why(self, asked: IncomingMessage) -> MessageContent:
        session_id = await self._records.session_of(asked.chat_id) or ""
        denial = await self._services.database.read(lambda db: read_last_denial(db, session_id))
        if denial is None:
            return MessageContent("No tool call was denied in this conversation.")
        authority = await self._services.authority(session_id, person(asked.user_id))
        lines = [
            f"Denied: {denial.get('error', '')}",
            f"Code: {denial.get('error_code', '')} in {denial.get('mode', '')} mode",
            f"Decided by {layer_name(str(denial.get('layer', '')))}",
            f"What to do: {next_action_now(denial, authority)}",
        ]
        return MessageContent("\n".join(lines))

    async def _compact(self, asked: IncomingMessage) -> MessageContent:
        session_id = await self._records.session_of(asked.chat_id)
        if session_id is None:
            return MessageContent("No messages yet.")
        await self._services.sessions.request_compaction(session_id, who=person(asked.user_id))
        return MessageContent("Older messages will be summarised for the model with your next message.")

    # -- tasks --

    async def _steer(self, _asked: IncomingMessage) -> MessageContent:
        """With a text it is a message (`conversation.py`)."""
        return MessageContent("Write the message after the command: /steer TEXT.")

    def may_steer_others(self, asked: IncomingMessage) -> bool:
        return self._admission.is_operator(asked.user_id)

    async def _cancel(self, asked: IncomingMessage) -> MessageContent:
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
            return MessageContent(NOT_YOURS if is_others else "No task is running or queued.")
        entry = f"Cancelling {cancelled} {'task' if cancelled == 1 else 'tasks'}."
        more = f" Dropped {dropped} queued {'task' if dropped == 1 else 'tasks'}." if dropped else ""
        return MessageContent(entry + more)

    async def _drop_waiting(self, asked: IncomingMessage) -> int:
        """Drop earlier messages that found no room in the queue."""
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

    async def _undo(self, asked: IncomingMessage) -> MessageContent:
        mine, others = await self._mine(asked)
        for task in mine:
            with suppress(NothingToUndo):
                return MessageContent(_report(await self._services.undo(task.id, person(asked.user_id))))
        hint = " Only operators can undo the changes of other people." if others else ""
        return MessageContent(f"There are no file changes to undo.{hint}")

    def may_decide(self, asked: IncomingMessage, owner_id: int) -> bool:
        return self._admission.may_decide(asked.user_id, owner_id)

    async def _mine(self, asked: IncomingMessage) -> tuple[list[Task], list[Task]]:
        """The tasks that this person may cancel or undo (an operator: all), and the others."""
        tasks = await self._tasks(asked)
        if self._admission.is_operator(asked.user_id):
            return tasks, []
        who = person(asked.user_id)
        return [task for task in tasks if task.who == who], [task for task in tasks if task.who != who]

    async def _tasks(self, asked: IncomingMessage) -> list[Task]:
        """The tasks of the chat, newest first."""
        session_id = await self._records.session_of(asked.chat_id)
        return [] if session_id is None else await self._services.tasks.list_tasks(session_id=session_id)


def _report(undone: list[UndoneChange]) -> str:
    lines = []
    for each in undone:
        word = "left" if each.left_because else _DONE.get(each.action, each.action)
        lines.append(f"{word}: {each.path}" + (f" ({each.left_because})" if each.left_because else ""))
    return "\n".join(lines)
