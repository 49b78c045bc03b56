"""The tool calls of a task in one line, followed by the refusals."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from interlock.core.text import escape_control_characters
from interlock.feed.frames import ToolCallData, ToolDeniedData, ToolResultData

MAX_ARGUMENT = 80
MAX_DENIALS = 3
# The arguments that best describe a call.
_DESCRIPTIVE_ARGUMENTS = ("path", "cmd", "command", "pattern", "query", "source", "url", "prompt", "topic")


@dataclass(slots=True)
class ToolActivity:
    """The calls, in the order of the log. Questions are shown separately and not counted."""

    _calls: dict[str, str] = field(default_factory=dict)
    _states: dict[str, str] = field(default_factory=dict)
    _last: str = ""
    _denials: list[ToolDeniedData] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not self._calls

    def called(self, call: ToolCallData) -> None:
        if call["tool_name"] != "ask_user":
            self._calls[call["call_id"]] = _named(call["tool_name"], call["arguments"])
            self._last = call["call_id"]

    def returned(self, result: ToolResultData) -> None:
        call_id = result["call_id"] or ""
        if call_id in self._calls:
            self._states[call_id] = "done" if result["result"].get("ok", True) else "failed"
            self._last = call_id

    def denied(self, denial: ToolDeniedData) -> None:
        call_id = denial["call_id"]
        self._calls.setdefault(call_id, escape_control_characters(denial["tool_name"]))
        self._states[call_id] = "denied"
        self._last = call_id
        self._denials.append(denial)

    def markdown(self) -> str:
        """The text to show. Names and paths are not Markdown; show it without rendering."""
        count = len(self._calls)
        state = self._states.get(self._last, "")
        calls = f"{count} {'call' if count == 1 else 'calls'}"
        line = f"⚙ {self._calls[self._last]} … {f'{state}; ' if state else ''}{calls}"
        return "\n".join([line, *self._refusals()])

    def _refusals(self) -> list[str]:
        lines = []
        for denial in self._denials[-MAX_DENIALS:]:
            lines += [f"⛔ {denial['message']}", f"→ {denial['next_action']}"]
        earlier = len(self._denials) - MAX_DENIALS
        if earlier > 0:
            lines.append(f"({earlier} more earlier; /why shows the last one in full)")
        elif lines:
            lines.append("/why shows it in full")
        return lines


def _named(tool: str, arguments: Mapping[str, Any] | str) -> str:
    if isinstance(arguments, str):
        return escape_control_characters(tool)
    entry = next(
        (arguments[name] for name in _DESCRIPTIVE_ARGUMENTS if isinstance(arguments.get(name), str)), ""
    )
    line = escape_control_characters(" ".join(str(entry).split()))
    short = line if len(line) <= MAX_ARGUMENT else f"{line[:MAX_ARGUMENT]}…"
    return f"{escape_control_characters(tool)} {short}".rstrip()
