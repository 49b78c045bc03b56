"""A session's messages as sent to a model: each kept once, cut to a budget, always valid.

Providers reject a history in which a tool call has no result or a result no call. `unanswered` lists the
calls without a tool message; nothing is sent before each has one.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from secrets import token_hex
from typing import assert_never

from interlock.agent.placeholder_results import ENDED_BEFORE, not_run_result
from interlock.core.token_usage import NO_USAGE, TokenUsage
from interlock.models.provider import (
    AssistantMessage,
    ChatMessage,
    ModelReply,
    ModelRequest,
    RequestedCall,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from interlock.sessions.models import Message, Role

# Tokens differ between models; this estimate is high enough for English and code.
_BYTES_PER_TOKEN = 3
# What the form around a message's text, and around a call, takes in most providers' forms.
_MESSAGE_BYTES, _CALL_BYTES = 30, 80
_MAX_LINE = 200
_MAX_REQUEST = 12_000
_MAX_CUT_RESULT = 600
_DEFAULT_BUDGET = 100_000
# The prefixes of task, session and undo ids.
_OTHER_THINGS = re.compile("(?:t|s|undo)_")
_PREFACE = (
    "This is a summary of the earlier conversation. The user can still see all of it. Files may "
    "have changed since: read them again before you rely on them."
)
_REQUEST = "The user's last request, verbatim:"
_GIVEN_UP = (
    "(This request was cancelled or failed before it was answered. Do not continue it unless the "
    "user asks.)"
)


@dataclass(slots=True, eq=False)
class ContextMessage:
    """`seq` is the number of the stored message, 0 until it is known."""

    seq: int
    role: Role
    message: ChatMessage
    # One line for the summary.
    gist: str
    # A person's request, kept in full while it is worked on.
    request: str = ""

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.message)


@dataclass(frozen=True, slots=True)
class Compaction:
    """The result of compaction: messages up to `through_seq` are summarised."""

    through_seq: int
    tokens_before: int
    tokens_after: int


class ModelContext:
    """A session's history. `budget` is the model's limit in tokens; a summary gets a quarter of it.

    `is_part`: the session has more messages than these, so not all call ids are known here.
    """

    def __init__(
        self, messages: Iterable[Message] = (), *, budget: int = _DEFAULT_BUDGET, is_part: bool = False
    ) -> None:
        self._budget = budget
        self._is_part = is_part
        self._entries: list[ContextMessage] = []
        self._request = ""
        # The newest request, with what steered it.
        self._asked = ""
        self._unanswered: dict[str, RequestedCall] = {}
        self._call_ids: set[str] = set()
        # The person's request that the model has not answered yet, with what steered it.
        self._unmet: list[tuple[ContextMessage, str]] = []
        self._gists: list[str] = []
        self._summary: UserMessage | None = None
        # The last summarised message.
        self._through = 0
        # The entries since the last request whose reasoning the model may need back.
        self._reasoned: list[ContextMessage] = []
        self._tokens = 0
        for message in messages:
            self.add(message)

    @property
    def unanswered(self) -> tuple[RequestedCall, ...]:
        """Calls that have no tool message yet, in order."""
        return tuple(self._unanswered.values())

    @property
    def tokens(self) -> int:
        """The estimated number of tokens of the messages as sent."""
        return self._tokens

    @property
    def summary_tokens(self) -> int:
        """The most that a summary may take."""
        return self._budget // 4

    def add(self, message: Message) -> ContextMessage | None:
        """Add a message; None if it is a result without a call, which is dropped."""
        if message.role is not Role.tool:
            self._close_gaps()
        entry = self._entry(message)
        if entry is not None:
            self._follow_request(message, entry)
            self._entries.append(entry)
            self._tokens += entry.tokens
        return entry

    def _follow_request(self, message: Message, entry: ContextMessage) -> None:
        """Mark an unanswered request as abandoned when another follows: the model must not resume it."""
        if message.role is Role.user and message.is_steering:
            # The request goes on, with more words.
            self._unmet.append((entry, message.content))
        elif message.role is Role.user:
            self._forget_reasoning()
            for given_up, words in self._unmet:
                if given_up in self._entries:
                    self._replace(given_up, UserMessage(f"{words}\n\n{_GIVEN_UP}"))
            self._unmet = [(entry, message.content)]
        elif message.role is Role.assistant and not message.tool_calls:
            self._unmet.clear()

    def _forget_reasoning(self) -> None:
        """A new request: models need their reasoning only while they work on the one it belongs to."""
        for entry in self._reasoned:
            if isinstance(entry.message, AssistantMessage):
                self._replace(entry, replace(entry.message, reasoning=None))
        self._reasoned.clear()

    def _replace(self, entry: ContextMessage, message: ChatMessage) -> None:
        self._tokens -= entry.tokens
        entry.message = message
        self._tokens += entry.tokens

    def _close_gaps(self) -> None:
        """Add results for unanswered calls: no other message may come between a call and its result."""
        for call in self.unanswered:
            content = not_run_result(call.name, "", ENDED_BEFORE)
            self.add(Message(self._entries[-1].seq, Role.tool, content, 0, None, call.call_id))

    def with_unique_ids(self, calls: Iterable[RequestedCall]) -> tuple[RequestedCall, ...]:
        """Give every call a unique id in its session; some models omit ids or reuse them.

        An id never looks like that of a task, session or undo, which people pass to `undo`.
        """
        distinct: dict[str, RequestedCall] = {}
        for call in calls:
            own = call.call_id
            is_taken = self._is_part or own in self._call_ids or own in distinct
            if not own or is_taken or _OTHER_THINGS.match(own):
                own = f"call_{token_hex(8)}"
            distinct[own] = call if own == call.call_id else replace(call, call_id=own)
        return tuple(distinct.values())

    def __len__(self) -> int:
        """The number of messages sent to the model."""
        return len(self._entries) + (self._summary is not None)

    def messages(self) -> list[ChatMessage]:
        summary: list[ChatMessage] = [] if self._summary is None else [self._summary]
        return summary + [entry.message for entry in self._entries]

    def older_messages(self, reserved: int = 0, *, all_older: bool = False) -> list[ChatMessage]:
        """The messages that `compact` would summarise, with the summary of those before them."""
        cut = self._cut_for(0 if all_older else self._room(reserved) // 2)
        return self.messages()[: cut + (self._summary is not None)] if cut else []

    def compact(
        self, reserved: int = 0, *, summary: str = "", all_older: bool = False
    ) -> Compaction | None:
        """Summarise the older part if the total exceeds the budget, less `reserved` tokens.

        The newest exchange and the current request always stay. If that exchange alone is too long, its
        results are cut. `summary`: that of `older_messages`, else their first lines are taken. `all_older`:
        summarise all but the newest exchange, whatever the total.
        """
        if not (self.is_too_long(reserved) or (all_older and not self._unanswered)):
            return None
        room, before = self._room(reserved), self._tokens
        if cut := self._cut_for(0 if all_older else room // 2):
            self._summarize_oldest(cut, summary)
        self._cut_results(room)
        is_done = cut or self._tokens < before
        return Compaction(self._through, before, self._tokens) if is_done else None

    def _cut_results(self, room: int) -> None:
        """Cut the results of a turn that exceeds the budget, oldest first."""
        for entry in self._entries:
            if self._tokens <= room:
                return
            if isinstance(entry.message, ToolMessage):
                self._replace(entry, _cut_result(entry.message))

    def is_too_long(self, reserved: int = 0) -> bool:
        """Whether it exceeds the budget, with no call open that would be separated from its result."""
        return self._tokens > self._room(reserved) and not self._unanswered

    def _room(self, reserved: int) -> int:
        return max(self._budget - reserved, self._budget // 4)

    def compact_through(self, seq: int, *, summary: str = "") -> None:
        """Summarise everything up to that message, as was done before."""
        numbers = [entry.seq for entry in self._entries]
        if seq in numbers:
            # Results added for unanswered calls have the number of their call's message.
            self._summarize_oldest(len(numbers) - numbers[::-1].index(seq), summary)

    def _summarize_oldest(self, count: int, summary: str) -> None:
        older, self._entries = self._entries[:count], self._entries[count:]
        self._through = older[-1].seq
        self._reasoned = [entry for entry in self._reasoned if entry not in older]
        # A written summary includes the one before it.
        gists = [entry.gist for entry in older if entry.gist]
        self._gists = summary.splitlines() if summary else [*self._gists, *gists]
        requests = [entry.request for entry in older if entry.role is Role.user]
        self._request = requests[-1] if requests else self._request
        is_newest = not any(entry.role is Role.user for entry in self._entries)
        lines = _within(self._gists, self.summary_tokens * _BYTES_PER_TOKEN)
        told = [_PREFACE, *lines, *([_REQUEST, self._request] if is_newest and self._request else [])]
        self._summary = UserMessage("\n".join(told))
        self._tokens = estimate_tokens(self._summary) + sum(entry.tokens for entry in self._entries)

    def _kept_request(self, text: str) -> str:
        most = min(_MAX_REQUEST, self._budget * _BYTES_PER_TOKEN // 8)
        return text if len(text) <= most else f"{text[:most]}…"

    def _cut_for(self, wanted: int) -> int:
        """Where the part that stays begins: never between a call and its result."""
        kept, cut = 0, 0
        for index in range(len(self._entries) - 1, 0, -1):
            kept += self._entries[index].tokens
            if self._entries[index].role is Role.tool:
                continue
            if cut and kept > wanted:
                break
            cut = index
        return cut

    def _entry(self, message: Message) -> ContextMessage | None:
        match message.role:
            case Role.user:
                text = message.content
                self._asked = f"{self._asked}\n\n{text}" if message.is_steering and self._asked else text
                return ContextMessage(
                    *(message.seq, message.role, UserMessage(text)),
                    *(_gist("person", text), self._kept_request(self._asked)),
                )
            case Role.assistant:
                calls = _requested(message)
                self._unanswered = {call.call_id: call for call in calls}
                self._call_ids.update(self._unanswered)
                called = [_line(f"  you called {call.name} {call.arguments}") for call in calls]
                told = "\n".join(filter(None, [_gist("you", message.content), *called]))
                said = AssistantMessage(message.content, calls, message.reasoning if calls else None)
                entry = ContextMessage(message.seq, message.role, said, told)
                if said.reasoning is not None:
                    self._reasoned.append(entry)
                return entry
            case Role.tool:
                # A result without a call would make the whole history invalid.
                call_id = message.tool_call_id or ""
                if self._unanswered.pop(call_id, None) is None:
                    return None
                result = ToolMessage(call_id, message.content)
                return ContextMessage(
                    message.seq, message.role, result, _line(f"  result: {message.content}")
                )


def estimate_tokens(value: ChatMessage | bytes) -> int:
    return (len(value) if isinstance(value, bytes) else _size_bytes(value)) // _BYTES_PER_TOKEN + 1


def reply_usage(request: ModelRequest, reply: ModelReply) -> TokenUsage:
    """The usage that the server reports. Missing or zero figures are estimated, so that limits count."""
    reported = reply.usage or NO_USAGE
    if reported.input_tokens and reported.output_tokens:
        return reported
    sent = sum(map(estimate_tokens, request.messages)) + estimate_tokens(request.tools)
    written = len(reply.text) + sum(len(call.arguments) + len(call.name) for call in reply.tool_calls)
    written += len(reply.reasoning.text) if reply.reasoning else 0
    return TokenUsage(
        reported.input_tokens or sent, reported.output_tokens or written // _BYTES_PER_TOKEN + 1
    )


def _size_bytes(message: ChatMessage) -> int:
    match message:
        case AssistantMessage(text, calls, reasoning):
            called = sum(
                _CALL_BYTES + _text_bytes(call.name) + _text_bytes(call.arguments) for call in calls
            )
            thought = 0 if reasoning is None else _text_bytes(reasoning.text) + len(reasoning.opaque)
            return _MESSAGE_BYTES + _text_bytes(text) + called + thought
        case SystemMessage(text) | UserMessage(text) | ToolMessage(_, text):
            return _MESSAGE_BYTES + _text_bytes(text)
        case _:
            assert_never(message)


def _text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _requested(message: Message) -> tuple[RequestedCall, ...]:
    return tuple(
        RequestedCall(str(call["id"]), str(call["name"]), str(call["arguments"]))
        for call in message.tool_calls or ()
    )


def _cut_result(message: ToolMessage) -> ToolMessage:
    content = message.text
    if len(content) <= _MAX_CUT_RESULT:
        return message
    rest = f"… ({len(content)} characters; truncated because the results of this turn together "
    rest += "are too long; request less at a time)"
    return replace(message, text=content[:_MAX_CUT_RESULT] + rest)


def _gist(who: str, text: str) -> str:
    return _line(f"{who}: {text}") if text.strip() else ""


def _line(text: str) -> str:
    indent = text[: len(text) - len(text.lstrip())]
    line = indent + " ".join(text[: 2 * _MAX_LINE].split())
    return line if len(line) <= _MAX_LINE and len(text) <= 2 * _MAX_LINE else f"{line[:_MAX_LINE]}…"


def _within(lines: Sequence[str], max_bytes: int) -> list[str]:
    """The first and last lines that fit, with a count of those omitted in between."""
    sizes = [len(line.encode()) + 1 for line in lines]
    if sum(sizes) <= max_bytes:
        return list(lines)
    first = _fitting(sizes, max_bytes // 4)
    last = len(lines) - _fitting(sizes[:first:-1], max_bytes - max_bytes // 4)
    return [*lines[:first], f"… {last - first} more omitted …", *lines[last:]]


def _fitting(sizes: Sequence[int], max_bytes: int) -> int:
    """How many of them fit."""
    for count, total in enumerate(accumulate(sizes)):
        if total > max_bytes:
            return count
    return len(sizes)
