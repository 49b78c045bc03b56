"""Displays a conversation on a terminal: streamed text, a few lines per call, and denials."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO, assert_never

import orjson

from interlock.agent.events import (
    AgentEvent,
    AskUser,
    ReasoningDelta,
    RetryAnnounced,
    SteeringMessage,
    TaskEnded,
    TextDelta,
    ToolCallInfo,
    ToolDenied,
    ToolProgress,
    ToolResultInfo,
    TurnCompleted,
)
from interlock.core.text import escape_control_characters

MAX_LINES = 6
MAX_CHARS = 160

_DIM, _RED = "2", "31"


@dataclass(slots=True)
class TerminalWriter:
    """Writes to one stream. Escapes control characters of models and tools."""

    stream: TextIO
    colours: bool
    _at_line_start: bool = field(default=True)

    def text(self, text: str, style: str = "") -> None:
        shown = escape_control_characters(text, lines=True)
        if shown:
            self.stream.write(f"\x1b[{style}m{shown}\x1b[0m" if style and self.colours else shown)
            self.stream.flush()
            self._at_line_start = shown.endswith("\n")

    def line(self, text: str, style: str = "") -> None:
        self.end_line()
        shown = escape_control_characters(text)
        self.stream.write(f"\x1b[{style}m{shown}\x1b[0m\n" if style and self.colours else f"{shown}\n")
        self.stream.flush()

    def end_line(self) -> None:
        if not self._at_line_start:
            self.stream.write("\n")
            self._at_line_start = True


def standard_writer(*, errors: bool = False) -> TerminalWriter:
    stream = sys.stderr if errors else sys.stdout
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return TerminalWriter(stream, stream.isatty() and not plain)


def null_writer() -> TerminalWriter:
    return TerminalWriter(open(os.devnull, "w"), colours=False)  # noqa: PTH123 - it lives as long as the view


class TerminalView:
    """Displays events.

    Without `shows_text`, deltas are omitted, for callers that print the answer at its end.
    """

    def __init__(self, paper: TerminalWriter, *, shows_text: bool = True) -> None:
        self._writer = paper
        self._shows_text = shows_text
        self._cards: dict[str, str] = {}
        self._last_card = ""
        self._is_reasoning = False
        self.last_denial: ToolDenied | None = None
        self.told_end = False

    def begin_task(self) -> None:
        self._cards.clear()
        self.told_end = False

    def end_line(self) -> None:
        """End the current line, so that the next output starts a new one."""
        self._writer.end_line()

    def show(self, event: AgentEvent) -> None:
        match event:
            case TextDelta() | ReasoningDelta():
                if self._shows_text:
                    self._show_delta(event)
            case TurnCompleted():
                self._end_turn(event)
            case RetryAnnounced():
                self._is_reasoning = False
                when = f"; retrying in {event.delay_seconds:g} s" if event.delay_seconds else ""
                self._writer.line(f"  ({event.sentence}{when})", _DIM)
            case TaskEnded(status=status, sentence=sentence):
                self.told_end = True
                if sentence:
                    self._writer.line(sentence, _RED if status == "failed" else _DIM)
            case ToolCallInfo() | ToolProgress() | ToolResultInfo() | ToolDenied():
                self._show_call(event)
            case SteeringMessage(text=text):
                self._writer.line(f"  (the task got your message: {_clipped(text)})", _DIM)
            case AskUser():
                # The caller prompts for the answer.
                self._writer.end_line()
            case _:
                assert_never(event)

    def _show_delta(self, event: TextDelta | ReasoningDelta) -> None:
        is_reasoning = isinstance(event, ReasoningDelta)
        if is_reasoning and not self._is_reasoning and event.text:
            self._writer.line("  (reasoning)", _DIM)
        elif self._is_reasoning and not is_reasoning:
            self._writer.end_line()
        self._is_reasoning = is_reasoning
        self._writer.text(event.text, _DIM if is_reasoning else "")
        if isinstance(event, ReasoningDelta) and event.duration_ms is not None:
            self._is_reasoning = False
            self._writer.line(f"  (reasoned for {event.duration_ms / 1000:.1f} s)", _DIM)

    def _show_call(self, event: ToolCallInfo | ToolProgress | ToolResultInfo | ToolDenied) -> None:
        match event:
            case ToolCallInfo():
                self._cards[event.call_id] = card = _call_line(event)
                self._last_card = event.call_id
                self._writer.line(f"  > {card}", _DIM)
            case ToolProgress(text=text):
                self._name_call(event.call_id)
                self._writer.line(f"    | {_clipped(text)}", _DIM)
            case ToolResultInfo(result=result):
                self._name_call(event.call_id)
                self._show_result(result)
            case ToolDenied():
                self._name_call(event.call_id)
                self.last_denial = event
                self._writer.line(f"    denied: {event.message}", _RED)
                self._writer.line(f"    next: {event.next_action}", _DIM)

    def _name_call(self, call_id: str) -> None:
        """Name the call before its output if another came in between: concurrent calls interleave."""
        if call_id != self._last_card and call_id in self._cards:
            self._last_card = call_id
            self._writer.line(f"  < {self._cards[call_id]}", _DIM)

    def _end_turn(self, event: TurnCompleted) -> None:
        self._writer.end_line()
        if event.tool_calls and event.text and not self._shows_text:
            self._writer.text(event.text)
            self._writer.end_line()

    def _show_result(self, result: Mapping[str, Any]) -> None:
        if not result.get("ok", True):
            self._writer.line(f"    failed: {result.get('message', '')}", _RED)
        entry = [str(result.get(stream, "")).rstrip("\n") for stream in ("stdout", "stderr")]
        lines = [line for text in entry if text for line in text.split("\n")]
        for line in lines[:MAX_LINES]:
            self._writer.line(f"    {_clipped(line)}", _DIM)
        if len(lines) > MAX_LINES:
            more = len(lines) - MAX_LINES
            self._writer.line(f"    … {more} more {'line' if more == 1 else 'lines'}", _DIM)


def _call_line(call: ToolCallInfo) -> str:
    if call.tool_name == "ask_user" and isinstance(call.arguments, dict):
        # The question itself is shown to the person right away.
        return f"ask_user {call.arguments.get('type', '')}".rstrip()
    return f"{call.tool_name} {_arguments(call.arguments)}".rstrip()


def _arguments(arguments: Mapping[str, Any] | str) -> str:
    """Arguments as name=value, with long texts cut."""
    if isinstance(arguments, str):
        return _clipped(arguments)
    return _clipped(" ".join(f"{name}={_value(value)}" for name, value in arguments.items()))


def _value(value: object) -> str:
    if isinstance(value, str) and value and not set(value) & set(" \n\"'="):
        return value
    return orjson.dumps(value, default=str).decode()


def _clipped(text: str) -> str:
    line = " ".join(text.split()) if "\n" in text else text
    return line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]}…"
