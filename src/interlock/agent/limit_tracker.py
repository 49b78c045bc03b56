"""Tracks a task against its limits: turns, time, tokens, money, repeated and denied calls.

It knows no log, model or tool. The loop reports what happened and asks before each turn; its state can be
rebuilt from the log, so that a resumed task has no more room than before.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Self

import orjson

from interlock.agent.budget import NO_COST, PriceTable, TaskBudget, UsageCost, UsageTotals
from interlock.agent.denial_policy import DenialPolicy
from interlock.agent.limits import LimitStop, ModelHint, no_progress, out_of_time, out_of_turns
from interlock.config.limits import TaskLimitSettings
from interlock.core.errors import ErrorClass, ErrorCode
from interlock.core.text import escape_control_characters
from interlock.core.token_usage import TokenUsage
from interlock.tools.result import ToolFailure

_LONGEST_NAME = 64
_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


@dataclass(frozen=True, slots=True)
class PastCall:
    """An earlier call of the task. `denial` is its message if it was denied."""

    turn: int
    tool_name: str
    fingerprint: str
    denial: str | None = None

    @classmethod
    def from_transcript(cls, turn: int, tool_name: str, arguments: str, result: str) -> Self:
        """Build it from the transcript: the call's arguments and its tool message, both as text."""
        try:
            envelope = orjson.loads(result)
        except orjson.JSONDecodeError:
            envelope = None
        if isinstance(envelope, dict) and envelope.pop("note", None) is not None:
            # The note for the model is not part of the result.
            result = orjson.dumps(envelope).decode()
        made = call_fingerprint(tool_name, arguments_fingerprint(arguments), result)
        return cls(turn, tool_name, made, _denial(envelope) if isinstance(envelope, dict) else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorUsage:
    """What a task used before this process resumed it, from the log."""

    turns: int = 0
    seconds: float = 0.0
    spent: UsageCost = NO_COST
    calls: tuple[PastCall, ...] = ()


class RepetitionDetector:
    """Counts how often each call repeated since the last new one.

    A call or result not seen before in this task is progress and resets the count, so that a test may run
    after every edit. Equal calls of one turn count once: the model had not seen the first result yet.
    """

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._times: dict[str, int] = {}
        self._counted_in: dict[str, int] = {}

    def step(self, turn: int, call: str) -> int:
        """How often this call gave this result so far; 0 if it was already counted in this turn."""
        if call not in self._seen:
            self._seen.add(call)
            self._times.clear()
        elif self._counted_in.get(call) == turn:
            return 0
        self._counted_in[call] = turn
        times = self._times[call] = self._times.get(call, 0) + 1
        return times


class LimitTracker:
    """One task while it is worked on; waiting for a person does not count."""

    def __init__(
        self,
        limits: TaskLimitSettings,
        *,
        model: str,
        prices: PriceTable,
        used: PriorUsage,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._seconds_before = used.seconds
        self._began = clock()
        self._budget = TaskBudget(limits, prices, model, used.spent)
        self._denials = DenialPolicy(limits)
        self._repetitions = RepetitionDetector()
        self._ended: LimitStop | None = None
        self.turns = used.turns
        self._replay(used.calls)

    def before_turn(self, history: UsageTotals | None = None) -> LimitStop | None:
        """Count and start a turn; returns a stop instead if a limit is reached.

        `history`: the usage totals, if a limit needs them (`budget.py`).
        """
        ended = None if self.refusal_limit else self._ended
        stop = ended or self._out_of_turns() or self.out_of_time() or self._budget.exceeded(history)
        if stop is None:
            self.turns += 1
        return stop

    def use_model(self, model: str) -> LimitStop | None:
        """Go on with another model; a stop if it has no price where costs are limited."""
        self._budget.use_model(model)
        return self._budget.exceeded(None)

    def reply_received(self, usage: TokenUsage) -> None:
        """Add the usage of a reply, also of a turn that fails later."""
        self._budget.add(usage)

    def reply_discarded(self, usage: TokenUsage) -> LimitStop | None:
        """Add the usage of an answer that broke off; a stop if the turn cannot be asked again."""
        self.reply_received(usage)
        return self._budget.exceeded(None)

    def call_used(self, used: Mapping[str, tuple[int, int]]) -> None:
        """Add tokens that models used for a call, in and out, by model name."""
        self._budget.add_others({model: TokenUsage(*tokens) for model, tokens in used.items()})

    def call_ended(
        self,
        tool_name: str,
        arguments: str,
        result: str,
        failure: ToolFailure | None = None,
        *,
        exposed: Collection[str] = (),
    ) -> LimitStop | ModelHint | None:
        """Record the end of a call, in call order. A call that waits for an answer has not ended.

        `arguments` is their fingerprint, `result` the tool message, `exposed` the tools on offer.
        """
        denial = failure.message if failure is not None and failure.is_denial else None
        made = call_fingerprint(tool_name, arguments, result)
        level, times = self._count(PastCall(self.turns, tool_name, made, denial))
        if self._ended is not None:
            return ModelHint(self._ended.note) if self._ended.note else self._ended
        if failure is not None and (hint := self._denials.hint(level, failure, exposed)):
            return hint
        return self._repetition_hint(tool_name, times)

    def out_of_time(self, *, after_seconds: float = 0.0) -> LimitStop | None:
        """The time limit if reached, between calls or before a wait of so many seconds."""
        allowed, reached = self._limits.max_wall_seconds, self.seconds
        if reached + after_seconds < allowed:
            return None
        return out_of_time(allowed, reached, after_seconds)

    def time_ran_out(self) -> LimitStop:
        """The stop when `seconds_left` have passed, by whichever clock measured it."""
        allowed = self._limits.max_wall_seconds
        return out_of_time(allowed, max(allowed, self.seconds))

    @property
    def refusal_limit(self) -> LimitStop | None:
        """The limit on denied calls, once reached: no further call runs.

        The next turn, without tools, is the last.
        """
        return self._ended if self._ended is not None and self._ended.note else None

    @property
    def seconds(self) -> float:
        """The time worked on the task."""
        return self._seconds_before + self._clock() - self._began

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._limits.max_wall_seconds - self.seconds)

    @property
    def spent(self) -> UsageCost:
        return self._budget.spent

    def _out_of_turns(self) -> LimitStop | None:
        allowed = self._limits.max_turns
        return out_of_turns(allowed, self.turns) if self.turns >= allowed else None

    def _replay(self, calls: Iterable[PastCall]) -> None:
        for call in calls:
            self._count(call)

    def _count(self, call: PastCall) -> tuple[int, int]:
        """Count denials and repetitions. A stop that this reaches is permanent."""
        reached = self._denials.step(call.turn, call.denial)
        repeated = self._repetitions.step(call.turn, call.fingerprint)
        # Denied calls have limits of their own, at which the model may still answer.
        times = repeated if call.denial is None else 0
        stop: LimitStop | None = reached if isinstance(reached, LimitStop) else None
        if stop is None and times >= self._limits.max_repeats:
            stop = no_progress(_shown(call.tool_name), self._limits.max_repeats, times)
        self._ended = self._ended or stop
        return (0 if isinstance(reached, LimitStop) else reached), times

    def _repetition_hint(self, tool_name: str, times: int) -> ModelHint | None:
        if times < 2 or times < self._limits.max_repeats - 1:
            return None
        return ModelHint(
            f"This call of {_shown(tool_name)} returned the same result {times} times. Another "
            "identical call will return it again and end the task. Use what you know, try a "
            "different approach, or report what is missing."
        )


def _shown(tool_name: str) -> str:
    """The name, escaped: a model may call anything."""
    return escape_control_characters(tool_name)[:_LONGEST_NAME]


def _denial(envelope: Mapping[str, Any]) -> str | None:
    try:
        code = ErrorCode(envelope.get("error_code", ""))
    except ValueError:
        return None
    return str(envelope.get("message", "")) if code.error_class is ErrorClass.policy else None


def arguments_fingerprint(arguments: str | Mapping[str, Any]) -> str:
    """The fingerprint of a call's arguments, the same for text and decoded form, whatever the key order."""
    try:
        value = orjson.loads(arguments.strip() or "{}") if isinstance(arguments, str) else arguments
        return _digest(b"json", orjson.dumps(value, option=_CANONICAL))
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return _digest(b"text", str(arguments).encode("utf-8", "surrogatepass"))


def call_fingerprint(tool_name: str, arguments: str, result: str) -> str:
    """The fingerprint of a call and its result. `arguments` is the fingerprint of its arguments."""
    return _digest(
        b"call",
        tool_name.encode("utf-8", "surrogatepass"),
        arguments.encode(),
        result.encode("utf-8", "surrogatepass"),
    )


def _digest(*parts: bytes) -> str:
    return blake2b(b"\0".join(parts), digest_size=16).hexdigest()
