"""Displays one task in its chat: growing text, tool calls in one line, questions, and the end.

It is rendered from the log alone, so that it is the same after a restart; messages sent before are then
edited instead of sent again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from interlock.channels.telegram.message_splitter import MAX_UNITS, split_message
from interlock.channels.telegram.outbox import ChatOutbox, OutgoingMessage
from interlock.channels.telegram.outgoing_content import MessageContent
from interlock.channels.telegram.questions import (
    AnswerState,
    current_prompt,
    question_buttons,
    question_markdown,
)
from interlock.channels.telegram.store import DisplayedTask, TelegramStore, retry_until_stored
from interlock.channels.telegram.tool_activity import ToolActivity
from interlock.feed.entries import TaskEndCode
from interlock.feed.frames import (
    AskUserData,
    ErrorData,
    EventData,
    FeedItem,
    FeedItemType,
    StreamChunk,
    ToolCallData,
    ToolDeniedData,
    ToolResultData,
)
from interlock.questions.rendering import answer_text
from interlock.questions.validation import FieldError
from interlock.questions.widgets import Widget, read_widget
from interlock.redaction.redactor import Redactor

# The interval at which a growing text is rendered.
TEXT_SECONDS = 0.3
EMPTY = "(empty answer)"
STEERED = "↪ The running task got this message."
GIVEN = "↪ The task got a message that was sent elsewhere:"
MAX_STEERING_CHARS = 1000


class TaskView:
    """The messages of one task. `ended` is called once they show how the task ended."""

    def __init__(
        self,
        task: DisplayedTask,
        outbox: ChatOutbox,
        records: TelegramStore,
        redactor: Redactor,
        ended: Callable[["TaskView"], Awaitable[None]],
    ) -> None:
        self.task = task
        self._outbox = outbox
        self._records = records
        self._redactor = redactor
        self._on_end = ended
        self._outgoing_messages: dict[str, OutgoingMessage] = {}
        # The texts by turn, and the turn of the newest one.
        self._texts: dict[int, str] = {}
        self._turn = 0
        self._activity = ToolActivity()
        self._widgets: dict[str, Widget] = {}
        self._drawing: asyncio.TimerHandle | None = None
        self._is_over = False
        self._is_end_reported = False

    async def show(self, item: FeedItem) -> None:
        data = item.data
        match item.type:
            case FeedItemType.stream_chunk:
                self._show_streamed_text(cast("StreamChunk", data), is_stored=item.seq is not None)
            case FeedItemType.tool_call:
                self._activity.called(cast("ToolCallData", data))
                self._show_activity()
            case FeedItemType.tool_result:
                self._activity.returned(cast("ToolResultData", data))
                self._show_activity()
            case FeedItemType.tool_denied:
                self._activity.denied(cast("ToolDeniedData", data))
                self._show_activity(soft=False)
            case FeedItemType.ask_user:
                await self._show_question(cast("AskUserData", data))
            case FeedItemType.error:
                self._end(_ending(cast("ErrorData", data)))
            case FeedItemType.event:
                self._show_event(cast("EventData", data))
            case FeedItemType.reasoning_chunk:
                # A chat shows answers: each change of a message is a request to Telegram.
                pass
        await self._report_end()

    # -- text --

    def _show_streamed_text(self, entry: StreamChunk, *, is_stored: bool) -> None:
        if entry["done"]:
            self._end("")
            return
        turn = entry["turn"]
        if turn != self._turn and self._drawing is not None:
            self._draw()
        self._turn = turn
        self._texts[turn] = self._texts.get(turn, "")[: entry["offset"]] + entry["content"]
        if is_stored:
            self._draw(soft=False)
        elif self._drawing is None:
            self._drawing = asyncio.get_running_loop().call_later(TEXT_SECONDS, self._draw)

    def _draw(self, *, soft: bool = True) -> None:
        if self._drawing is not None:
            self._drawing.cancel()
            self._drawing = None
        self._show_text(f"text:{self._turn}", self._texts[self._turn], soft=soft)

    def _show_text(self, name: str, text: str, *, soft: bool = False) -> list[OutgoingMessage]:
        """Show a text in as many messages as it needs, and delete those left from a longer one."""
        shown = [
            MessageContent.of(part.text) for part in split_message(self._redactor.text(text), MAX_UNITS)
        ]
        outgoing_messages = [
            self._show(f"{name}:{number}", content, soft=soft)
            for number, content in enumerate(content for content in shown if content.text.strip())
        ]
        number = len(outgoing_messages)
        while (left := self._outgoing_messages.pop(f"{name}:{number}", None)) is not None:
            self._outbox.change(left, None)
            number += 1
        return outgoing_messages

    def _show(self, name: str, content: MessageContent, *, soft: bool = False) -> OutgoingMessage:
        outgoing = self._outgoing_messages.get(name)
        if outgoing is None:
            outgoing = self._outgoing_messages[name] = OutgoingMessage(
                name,
                wanted=content,
                message_id=self.task.shown.get(name),
                reply_to=self.task.reply_to if not self._outgoing_messages else None,
                soft=soft,
                noted=self._note,
                settled=self._settled,
            )
            if outgoing.message_id is not None and content.wants_reply:
                # Telegram cannot edit a message that forces a reply, and its content is the same.
                outgoing.shown = content
            self._outbox.put(outgoing)
        else:
            self._outbox.change(outgoing, content, soft=soft)
        return outgoing

    # -- tools --

    def _show_activity(self, *, soft: bool = True) -> None:
        if not self._activity.is_empty:
            text = self._redactor.text(self._activity.markdown())
            self._show("status", MessageContent(split_message(text)[0].source.strip()), soft=soft)

    # -- questions --

    async def _show_question(self, asked: AskUserData) -> None:
        question_id = asked["question_id"]
        try:
            self._widgets[question_id] = read_widget(asked["question"])
        except FieldError:
            return
        state = await self._records.ask(question_id, self.task)
        self.show_question(question_id, state)

    def show_question(self, question_id: str, state: AnswerState) -> None:
        """Show a question with the current state of its answer."""
        widget = self._widgets.get(question_id)
        if widget is None:
            return
        buttons = question_buttons(widget, question_id, state)
        self._show_parts(question_id, question_markdown(widget), buttons)
        prompt = current_prompt(widget, question_id, state)
        for name, outgoing in self._outgoing_messages.items():
            if name.startswith(f"prompt:{question_id}:") and outgoing.wanted and outgoing.wanted.buttons:
                self._outbox.change(
                    outgoing, MessageContent(outgoing.wanted.text, outgoing.wanted.entities)
                )
        if prompt is not None:
            text = self._redactor.text(prompt.text)
            content = MessageContent(
                split_message(text)[0].source, buttons=prompt.buttons, wants_reply=not prompt.buttons
            )
            self._show(f"prompt:{question_id}:{prompt.number}", content)

    def _show_parts(self, question_id: str, markdown: str, buttons: Any = ()) -> None:
        """Show a question in parts, with the buttons below the last one."""
        parts = [part for part in split_message(self._redactor.text(markdown)) if part.text.strip()]
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            content = MessageContent.of(part.text, buttons=buttons if is_last else ())
            self._show(f"question:{question_id}:{number}", content)

    def _show_event(self, entry: EventData) -> None:
        payload = entry["payload"]
        match entry["kind"]:
            case "ask_user.answered" | "ask_user.expired":
                self._close_question(payload)
            case "task.steered":
                self._show_steering(entry)
            case "turn.completed" | "task.started":
                self._outbox.typing()
            case _:
                pass

    def _show_steering(self, entry: EventData) -> None:
        """The task steered another, or got a message that was sent elsewhere."""
        if entry["payload"]["into"] != self.task.task_id:
            self._end(STEERED)
        elif "message" in entry:
            said = entry["message"]["content"]
            shown = said if len(said) <= MAX_STEERING_CHARS else f"{said[:MAX_STEERING_CHARS]}…"
            self._show(f"steered:{entry['payload']['task_id']}", MessageContent(f"{GIVEN}\n{shown}"))

    def _close_question(self, payload: dict[str, Any]) -> None:
        question_id = str(payload.get("question_id", ""))
        widget = self._widgets.pop(question_id, None)
        if widget is None:
            return
        if "answer" in payload:
            outcome = f"✓ {answer_text(widget, payload['answer'] or {})}"
        else:
            outcome = f"(closed: {payload.get('reason', 'no answer')})"
        for name, outgoing in self._outgoing_messages.items():
            if question_id in name and outgoing.wanted is not None and outgoing.wanted.buttons:
                self._outbox.change(
                    outgoing, MessageContent(outgoing.wanted.text, outgoing.wanted.entities)
                )
        self._show_parts(question_id, f"{question_markdown(widget)}\n\n{outcome}")

    # -- end --

    def _end(self, ending: str) -> None:
        """Show the end. `ending` is the text shown instead of an answer."""
        if self._drawing is not None:
            self._draw(soft=False)
        if ending:
            self._show_text("end", ending)
        elif not self._answer_messages():
            self._show_text("end", EMPTY)
        self._remove_leftovers()
        for outgoing in self._outgoing_messages.values():
            self._outbox.change(outgoing, outgoing.wanted)
        self._is_over = True

    def _remove_leftovers(self) -> None:
        """Delete messages left from before a restart, if the text became shorter."""
        for name, message_id in self.task.shown.items():
            if name.startswith("text:") and name not in self._outgoing_messages:
                outgoing = self._outgoing_messages[name] = OutgoingMessage(
                    name, message_id=message_id, noted=self._note
                )
                self._outbox.put(outgoing)

    def _answer_messages(self) -> list[OutgoingMessage]:
        """The messages that show how the task ended."""
        ending = [outgoing for name, outgoing in self._outgoing_messages.items() if name.startswith("end:")]
        last = f"text:{self._turn}:"
        return ending or [
            outgoing for name, outgoing in self._outgoing_messages.items() if name.startswith(last)
        ]

    async def _report_end(self) -> None:
        if (
            self._is_over
            and not self._is_end_reported
            and not any(outgoing.is_due for outgoing in self._outgoing_messages.values())
        ):
            self._is_end_reported = True
            self._outbox.release(list(self._outgoing_messages.values()))
            await self._on_end(self)

    @property
    def message_ids(self) -> list[int]:
        return [
            outgoing.message_id for outgoing in self._answer_messages() if outgoing.message_id is not None
        ]

    @property
    def fault(self) -> str:
        """Why the end could not be shown."""
        return next((outgoing.fault for outgoing in self._answer_messages() if outgoing.fault), "")

    async def _note(self, outgoing: OutgoingMessage) -> None:
        name, message_id = outgoing.name, outgoing.message_id
        await retry_until_stored(lambda: self._records.note_shown(self.task.task_id, name, message_id))

    async def _settled(self, _card: OutgoingMessage) -> None:
        await self._report_end()


def _ending(entry: ErrorData) -> str:
    if entry["code"] == TaskEndCode.CANCELLED:
        return "Cancelled."
    return f"⚠ {entry['message']}"
