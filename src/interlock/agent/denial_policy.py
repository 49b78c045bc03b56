"""Escalation of denied calls: the first only fails, the second gets a hint, after the third tools end."""

from collections import deque
from collections.abc import Collection

from interlock.agent.limits import LimitStop, ModelHint, refused_in_a_row, refused_often
from interlock.config.limits import TaskLimitSettings
from interlock.core.errors import ErrorCode
from interlock.core.text import escape_control_characters
from interlock.tools.result import ToolFailure

_LOOKING = ("read_file", "search_files", "find_files", "list_files")
_NEAREST = {
    "bash": ("bash_readonly", *_LOOKING),
    "bash_readonly": _LOOKING,
    "get_project_structure": ("list_files", "find_files"),
    "list_files": ("find_files", "get_project_structure"),
    "find_files": ("list_files", "search_files"),
    "search_files": ("find_files", "read_file", "memory_search"),
    "read_file": ("search_files", "memory_search"),
    "edit_file": ("write_file",),
    "write_file": ("edit_file",),
    "move_file": ("write_file",),
    "delegate": ("ask_user",),
    "memory_append": ("write_file",),
}
_WRITING = frozenset({"write_file", "edit_file", "move_file", "delete_file", "memory_append", "bash"})
_MOST_NAMED = 6
_LONGEST_REASON = 300


class DenialPolicy:
    """Counts denied calls. Those of one turn count once: the model had not read the first denial yet."""

    def __init__(self, limits: TaskLimitSettings) -> None:
        self._limits = limits
        self._recent: deque[bool] = deque(maxlen=limits.recent_calls)
        self._in_row = 0
        self._last_turn = -1

    def step(self, turn: int, denial: str | None) -> LimitStop | int:
        """Record the end of a call; `denial` is its message if it was denied. Returns a stop or the level.

        The level is 0 if nothing new has to be said.
        """
        self._recent.append(denial is not None)
        if denial is None:
            self._in_row = 0
            return 0
        is_counted = self._in_row == 0 or turn != self._last_turn
        self._in_row += is_counted
        self._last_turn = turn
        return self._stop(escape_control_characters(denial)[:_LONGEST_REASON]) or (
            self._in_row if is_counted else 0
        )

    def _stop(self, reason: str) -> LimitStop | None:
        limits, recent = self._limits, self._recent.count(True)
        if self._in_row >= limits.max_denials:
            return refused_in_a_row(limits.max_denials, self._in_row, reason)
        if recent >= limits.max_recent_denials:
            return refused_often(limits.max_recent_denials, recent, limits.recent_calls, reason)
        return None

    def hint(self, level: int, failure: ToolFailure, exposed: Collection[str]) -> ModelHint | None:
        """The hint for the model: from the second level on, and before the last of many."""
        limits, recent = self._limits, self._recent.count(True)
        nearly_too_many = recent == limits.max_recent_denials - 1
        if level == 0 or recent < 2 or (level == 1 and not nearly_too_many):
            return None
        last = level == limits.max_denials - 1 or nearly_too_many
        when = "one more denied call" if last else "further denied calls"
        alternative = suggest_alternative(failure, exposed)
        return ModelHint(
            f"{failure.tool_name} was denied again. {alternative} "
            f"After {when} you can only answer, without tools."
        )


def suggest_alternative(failure: ToolFailure, exposed: Collection[str]) -> str:
    """What the model can do instead with the tools on offer."""
    tool = failure.tool_name
    match failure.error_code:
        case ErrorCode.PATH_DENIED:
            shown = " (list_files shows their content)" if "list_files" in exposed else ""
            return f"Use a path inside the open folders{shown}; other paths stay closed."
        case ErrorCode.LIMIT_EXCEEDED:
            return "Request less in one call; use several calls if needed."
        case ErrorCode.COMMAND_DENIED:
            near = [name for name in _LOOKING if name in exposed]
            tools = f", or one of these tools: {', '.join(near)}" if near else ""
            return f"Use a command that is not denied{tools}."
        case _:
            return _instead_of(tool, exposed)


def _instead_of(tool: str, exposed: Collection[str]) -> str:
    near = [name for name in _NEAREST.get(tool, ()) if name in exposed]
    if near:
        return f"Similar tools that are allowed here: {', '.join(near)}."
    if tool in _WRITING:
        return "You cannot change this. Put what you would write or run into your answer instead."
    others = sorted(name for name in exposed if name != tool)
    if not others:
        return "No tool is allowed here. Answer with what you know, and report what is missing."
    more = ", and more" if len(others) > _MOST_NAMED else ""
    return f"Allowed here: {', '.join(others[:_MOST_NAMED])}{more}. Or answer with what you know."
