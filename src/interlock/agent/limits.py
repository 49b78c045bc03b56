"""What a reached limit does: a hint for the model, or the end of the task with a sentence for people.

The limits themselves are settings (`config/limits.py`). A limit is named after its field, and its variable
after both: `max_turns` is `CONTROL_MAX_TURNS`.
"""

from dataclasses import dataclass, replace
from decimal import Decimal

from interlock.config.limits import TaskLimitSettings
from interlock.log.task_events import ControlLimitReached, ProgressStalled

LIMIT_NAMES = frozenset(TaskLimitSettings.model_fields)

_GO_ON = "Its earlier effects remain. Send a message to continue in a new task, or raise {setting}."
_ANSWER_NOW = (
    "Too many calls were denied, so no further call runs in this task. Answer now, without "
    "tools: tell the user what was denied, why, and what they can do."
)
_MORE_SESSION = "Start a new session, or raise {setting}."
_MORE_DAY = "Wait for the next day (it starts at midnight UTC), or raise {setting}."

_BUDGETS = {
    "max_tokens": ("The task used {reached} tokens; the limit is {allowed}.", _GO_ON),
    "max_session_tokens": ("This session used {reached} tokens; the limit is {allowed}.", _MORE_SESSION),
    "max_day_tokens": ("Today's tasks used {reached} tokens; the limit per day is {allowed}.", _MORE_DAY),
    "max_cost": ("The task cost {reached}; the limit is {allowed}.", _GO_ON),
    "max_session_cost": ("This session cost {reached}; the limit is {allowed}.", _MORE_SESSION),
    "max_day_cost": ("Today's tasks cost {reached}; the limit per day is {allowed}.", _MORE_DAY),
}


@dataclass(frozen=True, slots=True)
class ModelHint:
    """The task continues; the model gets this text with the result of its call."""

    text: str


@dataclass(frozen=True, slots=True)
class LimitStop:
    """The task ends; the person reads the sentence.

    With a `note` for the model it ends one turn later: that turn has no tools, and its text is the answer.
    """

    limit: str
    allowed: float
    reached: float
    sentence: str
    # The repeated call, if that was the reason.
    tool_name: str | None = None
    note: str = ""

    @property
    def event(self) -> ControlLimitReached | ProgressStalled:
        if self.tool_name is not None:
            return ProgressStalled(tool_name=self.tool_name, times=int(self.reached))
        return ControlLimitReached(
            limit=self.limit, allowed=self.allowed, reached=self.reached, sentence=self.sentence
        )


def setting_name(limit: str) -> str:
    return f"CONTROL_{limit.upper()}"


def out_of_turns(allowed: int, reached: int) -> LimitStop:
    said = f"The task took {reached} turns without finishing; the limit is {allowed}."
    return _stop("max_turns", allowed, reached, said, _GO_ON)


def out_of_time(allowed: float, reached: float, waiting: float = 0) -> LimitStop:
    if reached < allowed:
        said = (
            f"The task would have to wait {format_duration(waiting)} for its model, but only "
            f"{format_duration(allowed - reached)} of its time limit ({format_duration(allowed)}) are left."
        )
    else:
        said = f"The task ran for {format_duration(reached)}; the limit is {format_duration(allowed)}."
    return _stop("max_wall_seconds", allowed, reached, said, _GO_ON)


def out_of_budget(limit: str, allowed: float | Decimal, reached: float | Decimal) -> LimitStop:
    said, advice = _BUDGETS[limit]
    shown = said.format(reached=_amount(reached), allowed=_amount(allowed))
    return _stop(limit, allowed, reached, shown, advice)


def without_price(limit: str, allowed: Decimal, whose: str) -> LimitStop:
    """Stop: a cost limit cannot be enforced for a model without a price."""
    said = f"{setting_name(limit)} limits costs, but {whose} has no price in CONTROL_PRICES."
    return _stop(limit, allowed, 0, said, "Add it there (a free model as [0, 0]).")


def no_progress(tool_name: str, allowed: int, reached: int) -> LimitStop:
    said = (
        f"The task made no progress: the same call of {tool_name} returned the same result {reached} times."
    )
    advice = "Tell it what to do differently, or raise {setting}."
    return replace(_stop("max_repeats", allowed, reached, said, advice), tool_name=tool_name)


def refused_in_a_row(allowed: int, reached: int, last: str) -> LimitStop:
    said = f"Calls were denied in {reached} turns in a row"
    return replace(_stop("max_denials", allowed, reached, said, _last(last)), note=_ANSWER_NOW)


def refused_often(allowed: int, reached: int, window: int, last: str) -> LimitStop:
    said = f"{reached} of the last {window} calls were denied"
    return replace(_stop("max_recent_denials", allowed, reached, said, _last(last)), note=_ANSWER_NOW)


def _last(denial: str) -> str:
    """Quote the last denial, with its braces escaped for `format`."""
    quoted = denial.replace("{", "{{").replace("}", "}}")
    return (
        f"(the last one: {quoted}), so the model must answer without tools. Allow what it needs "
        "(interlock policy explain TOOL names the rule), ask for something else, or raise "
        "{setting}."
    )


def _stop(
    limit: str, allowed: float | Decimal, reached: float | Decimal, said: str, advice: str
) -> LimitStop:
    sentence = f"{said} {advice.format(setting=setting_name(limit))}"
    return LimitStop(limit, float(allowed), float(reached), sentence)


def format_duration(seconds: float) -> str:
    """Rounded for people: '45 seconds', '30 minutes', '2.5 hours'."""
    for size, name in ((3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{round(seconds / size, 1):g} {name}"
    return f"{round(seconds, 1):g} seconds"


def _amount(number: float | Decimal) -> str:
    if isinstance(number, Decimal):
        return f"{number.quantize(Decimal('0.0001')).normalize():f}"
    return f"{number:,}"
