"""One chat: processes incoming messages in order, as tasks, answers and commands.

Messages that one person sends in quick succession become one task. The grouping is stored before the task
is queued, so that a crash in between neither duplicates the task nor changes its messages.
"""

import asyncio
import math
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Protocol

from interlock.channels.telegram.commands import MODE_BUTTON, TelegramCommands
from interlock.channels.telegram.message_splitter import MAX_UNITS, split_message, utf16_length
from interlock.channels.telegram.outbox import ChatOutbox
from interlock.channels.telegram.outgoing_content import MessageContent
from interlock.channels.telegram.questions import (
    AnswerInProgress,
    AnswerState,
    AnswerStep,
    CompleteAnswer,
    apply_button,
    apply_reply,
    needs_new_prompt,
    with_rejection,
)
from interlock.channels.telegram.services import TelegramServices, person
from interlock.channels.telegram.store import DisplayedTask, InboxEntry, TelegramStore
from interlock.channels.telegram.task_view import TaskView
from interlock.channels.telegram.updates import IncomingKind, IncomingMessage
from interlock.config.modes import ToolMode, parse_mode
from interlock.core.errors import (
    InvalidAnswer,
    QuestionAlreadyClosed,
    QuestionNotFound,
    SessionBusy,
    StoreConflict,
    StoreError,
    UserError,
)
from interlock.core.logging import StructuredLogger
from interlock.log.hash_chain import now_us
from interlock.questions.rows import Question, QuestionStatus
from interlock.sessions.models import title_from_message

_log = StructuredLogger(__name__)

MAX_MESSAGES_PER_TASK = 50
# How often a message that found no room in the queue is retried.
BUSY_SECONDS = 2.0
STORE_SECONDS = 1.0
FAULT_SECONDS = 10.0
# How often the chat gets a notice that the queue is full.
BUSY_REPLY_SECONDS = 60.0

ONLY_TEXT = "I can read only text. Write a message, or send the picture with a caption."
CLOSED = "That question is closed."
NOT_ALLOWED_TO_ANSWER = "Only the person who started this task, or an operator, can answer."
FAULT = "An internal error occurred. The operator can find the details in the log."


class TaskDisplay(Protocol):
    """Displays the tasks of all chats."""

    def begin(self, task: DisplayedTask) -> None: ...

    def forget(self, task_id: str) -> None: ...

    def follow(self, session_id: str, after: int) -> None: ...

    def view(self, task_id: str) -> TaskView | None: ...


class ChatConversation:
    def __init__(
        self,
        outbox: ChatOutbox,
        *,
        services: TelegramServices,
        records: TelegramStore,
        commands: TelegramCommands,
        task_display: TaskDisplay,
    ) -> None:
        self._outbox = outbox
        self._chat = outbox.chat_id
        self._services = services
        self._records = records
        self._commands = commands
        self._task_display = task_display
        self._bell = asyncio.Event()
        self._albums: list[str] = []
        self._busy_replied_at = -BUSY_REPLY_SECONDS

    def wake(self) -> None:
        self._bell.set()

    async def run(self) -> None:
        while True:
            self._bell.clear()
            try:
                wait = await self._step()
            except StoreError as error:
                _log.warning("telegram_chat_waits", chat=self._chat, error=str(error))
                wait = STORE_SECONDS
            except Exception as error:  # noqa: BLE001 - the chat must not fall silent for good
                _log.error("telegram_chat_waits", chat=self._chat, exc_info=error)
                wait = FAULT_SECONDS
            if wait is None:
                await self._bell.wait()
            elif wait > 0:
                # Not `wait_for`: in Python 3.11 it loses a cancellation that arrives together with the
                # event.
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._bell.wait()

    def say(self, content: MessageContent) -> None:
        text = self._services.redactor.text(content.text)
        parts = [part.source for part in split_message(text) if part.source.strip()]
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            self._outbox.say(MessageContent(part.strip(), buttons=content.buttons if is_last else ()))

    # -- in order --

    async def _step(self) -> float | None:
        """Process one entry; else return the seconds until the next is due, None if there is none.

        While a message waits for room in the queue, only commands and buttons overtake it.
        """
        waiting = await self._records.waiting(self._chat)
        is_busy = False
        for place, each in enumerate(waiting):
            if each.task_id is not None:
                group = [row.incoming for row in waiting if row.task_id == each.task_id]
                if not is_busy and await self._put(each.task_id, group):
                    return 0.0
                is_busy = True
            elif each.incoming.kind is IncomingKind.text:
                return await self._deal_with_text(waiting[place:])
            elif _is_steering(each.incoming):
                await self._seal([each.incoming])
                return 0.0
            else:
                await self._deal(each.incoming)
                return 0.0
        return BUSY_SECONDS if is_busy else None

    async def _deal_with_text(self, waiting: Sequence[InboxEntry]) -> float:
        first = waiting[0].incoming
        question_id: str | None = first.answers
        if first.reply_to is not None and not question_id:
            question_id = await self._records.question_of_message(self._chat, first.reply_to)
        if question_id and await self._guarded(first, self._reply(first, question_id)):
            await self._records.done([first])
            return 0.0
        group, wait = _group_messages(waiting, self._services.given.pending_seconds)
        if wait <= 0:
            await self._seal(group)
        return max(0.0, wait)

    async def _seal(self, group: Sequence[IncomingMessage]) -> None:
        first = group[0]
        session_id = await self._records.session_of(self._chat)
        task = DisplayedTask(
            self._records.task_id(first),
            self._chat,
            session_id or self._records.session_id(first),
            first.user_id,
            None if first.is_private else first.message_id,
        )
        await self._records.seal(group, task)

    async def _put(self, task_id: str, group: Sequence[IncomingMessage]) -> bool:
        """Queue a task; False if the queue is full."""
        task = await self._records.task(task_id)
        if task is None:
            await self._records.done(group)
            return True
        text, who = join_texts([each.text for each in group]), person(group[0].user_id)
        self._task_display.begin(task)
        try:
            await self._commands.make_session(task.session_id, title_from_message(text))
            put = await self._services.tasks.put(
                *(task.session_id, text),
                who=who,
                task_id=task_id,
                steer=_is_steering(group[0]),
                only_own=not self._commands.may_steer_others(group[0]),
            )
        except SessionBusy:
            self._task_display.forget(task_id)
            self._reply_busy()
            return False
        except (UserError, StoreConflict) as error:
            self._task_display.forget(task_id)
            self.say(MessageContent(_sentence(error)))
            await self._records.done(group, dropped_task=task_id)
            return True
        await self._records.done(group)
        self._task_display.follow(task.session_id, put.message_seq - 1)
        return True

    def _reply_busy(self) -> None:
        now = time.monotonic()
        if now - self._busy_replied_at >= BUSY_REPLY_SECONDS:
            self._busy_replied_at = now
            self.say(
                MessageContent(
                    "Many messages are queued already; your latest messages are queued behind them."
                )
            )

    # -- commands, buttons, pictures --

    async def _deal(self, incoming: IncomingMessage) -> None:
        if incoming.kind is IncomingKind.command and incoming.command == "undo":
            # Delete it first: a repeated undo would undo earlier changes too.
            await self._records.done([incoming])
        match incoming.kind:
            case IncomingKind.command:
                await self._guarded(incoming, self._carry_out(incoming))
            case IncomingKind.press:
                await self._guarded(incoming, self._press(incoming))
            case IncomingKind.other | IncomingKind.text:
                self._refuse_picture(incoming)
        await self._records.done([incoming])

    async def _guarded(self, incoming: IncomingMessage, dealing: Coroutine[None, None, bool]) -> bool:
        """Process an entry; reply with errors instead of ending the chat."""
        try:
            return await dealing
        except StoreError:
            raise
        except (UserError, InvalidAnswer) as error:
            self._reply_refusal(incoming, _sentence(error))
        except Exception as error:  # noqa: BLE001 - one odd message must not end the chat
            _log.error("telegram_fault", chat=self._chat, exc_info=error)
            self._reply_refusal(incoming, FAULT)
        return True

    def _reply_refusal(self, incoming: IncomingMessage, sentence: str) -> None:
        if incoming.kind is IncomingKind.press:
            self._answer_callback(incoming, sentence)
        else:
            self.say(MessageContent(sentence))

    async def _carry_out(self, incoming: IncomingMessage) -> bool:
        content = await self._commands.carry_out(incoming)
        if content is not None:
            self.say(content)
        return True

    def _refuse_picture(self, incoming: IncomingMessage) -> None:
        """Reply once for pictures sent together."""
        if not incoming.album or incoming.album not in self._albums:
            self.say(MessageContent(ONLY_TEXT))
        if incoming.album:
            self._albums = [*self._albums[-20:], incoming.album]

    # -- questions --

    async def _press(self, incoming: IncomingMessage) -> bool:
        head, _, rest = incoming.text.partition(":")
        if head == MODE_BUTTON:
            session_id, _, name = rest.partition(":")
            entry = await self._commands.switch_mode(session_id, _mode_of(name), incoming)
            self._answer_callback(incoming, "")
            self.say(MessageContent(entry))
            return True
        found = await self._open_question(head)
        if found is None:
            self._answer_callback(incoming, CLOSED)
            return True
        question, task, state = found
        if not self._commands.may_decide(incoming, task.user_id):
            self._answer_callback(incoming, NOT_ALLOWED_TO_ANSWER)
            return True
        step = apply_button(question.read_widget(), state, rest)
        self._answer_callback(incoming, "" if step is not None else "That part is already answered.")
        if step is not None:
            await self._take_step(incoming, question, task, state, step)
        return True

    async def _reply(self, incoming: IncomingMessage, question_id: str) -> bool:
        """Handle a reply to a question; False if it is an ordinary message."""
        found = await self._open_question(question_id)
        if found is None:
            # A message stored as its answer has been used.
            return bool(incoming.answers)
        question, task, state = found
        step = apply_reply(question.read_widget(), state, incoming.text)
        if step is None:
            return False
        if not self._commands.may_decide(incoming, task.user_id):
            self.say(MessageContent(NOT_ALLOWED_TO_ANSWER))
            return True
        await self._take_step(incoming, question, task, state, step)
        return True

    async def _open_question(self, question_id: str) -> tuple[Question, DisplayedTask, AnswerState] | None:
        """The open question, if it was asked in this chat."""
        known = await self._records.question(question_id)
        if known is None or known[0].chat_id != self._chat:
            return None
        with suppress(QuestionNotFound):
            question = await self._services.questions.get(question_id)
            return (question, *known) if question.status is QuestionStatus.open else None
        return None

    async def _take_step(
        self,
        incoming: IncomingMessage,
        question: Question,
        task: DisplayedTask,
        state: AnswerState,
        step: AnswerStep,
    ) -> None:
        if isinstance(step, CompleteAnswer):
            if incoming.kind is IncomingKind.text:
                await self._records.note_answer(incoming, question.id)
            try:
                who = person(incoming.user_id)
                await self._services.questions.answer(question.id, step.given, who=who)
                return
            except QuestionAlreadyClosed:
                self.say(MessageContent(CLOSED))
                return
            except InvalidAnswer as error:
                if not needs_new_prompt(
                    question.read_widget(), state, by_press=incoming.kind is IncomingKind.press
                ):
                    self.say(MessageContent(_sentence(error)))
                    return
                step = AnswerInProgress(with_rejection(state, str(error)))
        await self._records.note_state(question.id, step.state, incoming)
        if (view := self._task_display.view(task.task_id)) is not None:
            view.show_question(question.id, step.state)

    def _answer_callback(self, incoming: IncomingMessage, text: str) -> None:
        self._outbox.answer_callback(incoming.press_id, self._services.redactor.text(text))


def _is_steering(incoming: IncomingMessage) -> bool:
    """A message for the task at work, and its own task if there is none."""
    is_command = incoming.kind is IncomingKind.command and incoming.command == "steer"
    return is_command and bool(incoming.text.strip())


def _group_messages(waiting: Sequence[InboxEntry], window: float) -> tuple[list[IncomingMessage], float]:
    """The messages that form one task, and the seconds in which more may follow; 0 if none can."""
    rows = [waiting[0]]
    for each in waiting[1:]:
        if not _belongs(rows[-1].incoming, each, window) or len(rows) == MAX_MESSAGES_PER_TASK:
            break
        rows.append(each)
    waited = (now_us() - rows[-1].received_us) / 1_000_000
    # A time in the future means that the clock was set back.
    is_complete = (
        len(rows) < len(waiting) or len(rows) == MAX_MESSAGES_PER_TASK or window <= 0 or waited < 0
    )
    return [row.incoming for row in rows], 0.0 if is_complete else window - waited


def _belongs(before: IncomingMessage, each: InboxEntry, window: float) -> bool:
    """By Telegram's clock: messages that waited while the bot was down are not merged."""
    after = each.incoming
    return (
        window > 0
        and each.task_id is None
        and after.kind is IncomingKind.text
        and after.user_id == before.user_id
        and after.reply_to is None
        and after.sent_s - before.sent_s <= math.ceil(window)
    )


def join_texts(texts: Sequence[str]) -> str:
    """Join texts; one that Telegram cut at its limit continues without a newline."""
    whole = ""
    for number, text in enumerate(texts):
        was_cut = number > 0 and utf16_length(texts[number - 1]) >= MAX_UNITS
        whole += text if number == 0 or was_cut else f"\n{text}"
    return whole


def _mode_of(name: str) -> ToolMode:
    """Parse a mode from button data, which is untrusted."""
    try:
        return parse_mode(name)
    except ValueError:
        raise UserError("Unknown mode. Type /mode again.") from None


def _sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}"
