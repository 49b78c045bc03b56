"""What the loop tells while it works, one frozen fact at a time. Front ends `match` on them.

Live text is told before it is stored, as (turn, offset). Everything else is on disk before it is told.
"""

from dataclasses import dataclass
from typing import Any

import orjson

# What is nested deeper than this is told as it was written: not every reader could follow it.
MAX_DEPTH = 50


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the running answer, without secrets. `offset` is where in the turn's text it begins."""

    turn: int
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallInfo:
    """The model asks for a call. Its outcome follows under the same `call_id`.

    `called_as` is the name that the model used, where that is an alias of the tool.
    """

    call_id: str
    tool_name: str
    arguments: dict[str, Any] | str
    called_as: str = ""


@dataclass(frozen=True, slots=True)
class ToolDenied:
    """The call was refused by a policy and did not run: exactly these six, none of them empty."""

    call_id: str
    tool_name: str
    mode: str
    error_code: str
    message: str
    next_action: str


@dataclass(frozen=True, slots=True)
class ToolResultInfo:
    call_id: str
    tool_name: str
    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolProgress:
    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class AskUser:
    """The task waits for a person's answer and ends here; the answer brings it back."""

    call_id: str
    question_id: str


@dataclass(frozen=True, slots=True)
class RetryAnnounced:
    """The model could not be asked and will be, after so many seconds."""

    delay_seconds: float
    sentence: str


@dataclass(frozen=True, slots=True)
class TurnCompleted:
    """One model call and all calls it asked for are over."""

    turn: int
    text: str
    tool_calls: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """The last thing that is told, unless a question waits. `sentence` says why, if it is not done."""

    status: str
    sentence: str = ""
    # The limit that ended it, if one did.
    limit: str = ""


AgentEvent = (
    TextDelta
    | ToolCallInfo
    | ToolDenied
    | ToolResultInfo
    | ToolProgress
    | AskUser
    | RetryAnnounced
    | TurnCompleted
    | TaskEnded
)


def shown_arguments(arguments: str) -> dict[str, Any] | str:
    """A call's arguments as `ToolCallInfo` has them: decoded, or as the model wrote them."""
    try:
        decoded = orjson.loads(arguments or "{}")
    except orjson.JSONDecodeError:
        return arguments
    return decoded if isinstance(decoded, dict) and not _is_deep(decoded) else arguments


def _is_deep(value: dict[str, Any]) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        items = [item for each in level for item in (each.values() if isinstance(each, dict) else each)]
        level = [item for item in items if isinstance(item, dict | list)]
        if not level:
            return False
    return True
