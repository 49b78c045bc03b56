"""A session's messages as a model is given them: each encoded once, cut to a budget, always valid.

A provider refuses a history in which a tool call has no answer or an answer no call. So every call that
was asked for and has no tool message is known here (`unanswered`), and nothing is sent before it has one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from secrets import token_hex

from interlock.models.messages import assistant_message, tool_message, user_message
from interlock.models.provider import RequestedCall
from interlock.session.models import Message, Role

# What a token is to a model differs; this errs on the safe side for English and code.
_BYTES_PER_TOKEN = 3
_MAX_LINE = 200
_MAX_LINES = 200
_PREFACE = (
    "This is what was said earlier in this conversation, in short. The person can still see all of it. "
    "Files may have changed since: read them again before you rely on them."
)


@dataclass(frozen=True, slots=True)
class _Entry:
    seq: int
    role: Role
    encoded: bytes
    # What is told of it when it is only told in short.
    gist: str

    @property
    def tokens(self) -> int:
        return tokens_in(self.encoded)


@dataclass(frozen=True, slots=True)
class Compaction:
    """Messages up to `through_seq` are told in short."""

    through_seq: int
    tokens_before: int
    tokens_after: int


class Conversation:
    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._entries: list[_Entry] = []
        self._unanswered: dict[str, RequestedCall] = {}
        self._call_ids: set[str] = set()
        self._told: list[str] = []
        self._summary: bytes | None = None
        self._tokens = 0
        for message in messages:
            self.add(message)

    @property
    def unanswered(self) -> tuple[RequestedCall, ...]:
        """Calls that the model asked for and that have no tool message yet, in order."""
        return tuple(self._unanswered.values())

    @property
    def tokens(self) -> int:
        """About how many the messages are, as they would be sent."""
        return self._tokens

    def add(self, message: Message) -> None:
        entry = self._entry(message)
        if entry is not None:
            self._entries.append(entry)
            self._tokens += entry.tokens

    def with_own_ids(self, calls: Iterable[RequestedCall]) -> tuple[RequestedCall, ...]:
        """Some models leave ids out or use them again; here every call of a session has its own."""
        taken, distinct = set(self._call_ids), []
        for call in calls:
            fresh = call.call_id if call.call_id and call.call_id not in taken else f"call_{token_hex(8)}"
            taken.add(fresh)
            distinct.append(replace(call, call_id=fresh))
        return tuple(distinct)

    def encoded(self) -> tuple[bytes, ...]:
        summary = () if self._summary is None else (self._summary,)
        return (*summary, *(entry.encoded for entry in self._entries))

    def compact(self, budget: int) -> Compaction | None:
        """Tell the older part in short if all is over the budget. The newest exchange always stays."""
        if self._tokens <= budget or self._unanswered:
            return None
        cut = self._cut_for(budget // 2)
        if cut == 0:
            return None
        before, last = self._tokens, self._entries[cut - 1].seq
        self.compact_through(last)
        return Compaction(last, before, self._tokens)

    def compact_through(self, seq: int) -> None:
        """Tell everything up to that message in short, as it was done before."""
        older = [entry for entry in self._entries if entry.seq <= seq]
        if not older:
            return
        self._told += [entry.gist for entry in older if entry.gist]
        self._summary = user_message(_in_short(self._told))
        del self._entries[: len(older)]
        self._tokens = tokens_in(self._summary) + sum(entry.tokens for entry in self._entries)

    def _cut_for(self, wanted: int) -> int:
        """Where the part that stays begins: at a person's message, so that no call is torn apart."""
        kept, cut = 0, 0
        for index in range(len(self._entries) - 1, 0, -1):
            kept += self._entries[index].tokens
            if self._entries[index].role is Role.user:
                cut = index
                if kept >= wanted:
                    return index
            elif kept >= wanted and cut:
                return cut
        return cut

    def _entry(self, message: Message) -> _Entry | None:
        match message.role:
            case Role.user:
                return _Entry(
                    message.seq, message.role, user_message(message.content), _gist("person", message)
                )
            case Role.assistant:
                calls = _requested(message)
                self._unanswered = {call.call_id: call for call in calls}
                self._call_ids.update(self._unanswered)
                encoded = assistant_message(message.content, calls)
                told = _gist("you", message) + "".join(f"\n  you called {call.name}" for call in calls)
                return _Entry(message.seq, message.role, encoded, told)
            case Role.tool:
                # An answer to nothing would make the whole history invalid.
                call_id = message.tool_call_id or ""
                if self._unanswered.pop(call_id, None) is None:
                    return None
                return _Entry(message.seq, message.role, tool_message(call_id, message.content), "")


def tokens_in(encoded: bytes) -> int:
    return len(encoded) // _BYTES_PER_TOKEN + 1


def _requested(message: Message) -> Sequence[RequestedCall]:
    return [
        RequestedCall(str(call["id"]), str(call["name"]), str(call["arguments"]))
        for call in message.tool_calls or ()
    ]


def _gist(who: str, message: Message) -> str:
    line = " ".join(message.content.split())
    shown = line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…"
    return f"{who}: {shown}" if shown else ""


def _in_short(lines: Sequence[str]) -> str:
    if len(lines) > _MAX_LINES:
        first = _MAX_LINES // 4
        left_out = len(lines) - _MAX_LINES
        lines = [*lines[:first], f"… {left_out} messages left out …", *lines[first - _MAX_LINES :]]
    return "\n".join([_PREFACE, *lines])
