"""The answers that the tasks of this process produce right now, before they are stored.

All other events are in the log already. The text is published as it grows; a process that missed its
beginning asks for it, and gets all of it again.
"""

from dataclasses import dataclass, field, replace

from interlock.agent.events import (
    AgentEvent,
    ReasoningDelta,
    TaskEnded,
    TextDelta,
    ToolProgress,
    TurnCompleted,
)
from interlock.runtime.bus import Bus, ProgressReported, ResyncRequested, TextAppended, TextPart
from interlock.runtime.task_rows import Task


@dataclass(frozen=True, slots=True)
class RunningText:
    """The answer of the current turn, from its beginning, and the reasoning before it."""

    task_id: str
    turn: int
    text: str
    reasoning: str = ""
    # How long the model reasoned; 0 while it does.
    reasoning_ms: int = 0


@dataclass(slots=True)
class _GrowingTurn:
    task_id: str
    turn: int
    texts: dict[TextPart, list[str]] = field(default_factory=lambda: {part: [] for part in TextPart})
    reasoning_ms: int = 0


class LiveStream:
    """Publishes on one event loop, without waiting."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._turns: dict[str, _GrowingTurn] = {}
        bus.subscribe(self._resend, ResyncRequested)

    def publish(self, task: Task, event: AgentEvent) -> None:
        if isinstance(event, TextDelta):
            self._append(task, event, TextPart.answer)
        elif isinstance(event, ReasoningDelta):
            self._append(task, event, TextPart.reasoning, event.duration_ms or 0)
        elif isinstance(event, ToolProgress):
            self._bus.publish(ProgressReported(task.session_id, event.call_id, event.text))
        elif isinstance(event, TurnCompleted | TaskEnded):
            self.ended(task)

    def _append(
        self, task: Task, delta: TextDelta | ReasoningDelta, part: TextPart, duration_ms: int = 0
    ) -> None:
        session_id, turn = task.session_id, delta.turn
        known = self._turns.get(session_id)
        if known is None or (known.task_id, known.turn) != (task.id, turn):
            known = self._turns[session_id] = _GrowingTurn(task.id, turn)
        if delta.offset == 0:
            known.texts[part].clear()
        known.texts[part].append(delta.text)
        if part is TextPart.reasoning:
            known.reasoning_ms = duration_ms
        self._bus.publish(
            TextAppended(session_id, task.id, turn, delta.offset, delta.text, part, duration_ms)
        )

    def ended(self, task: Task) -> None:
        """This task's answer is over, whatever its outcome."""
        self._turns.pop(task.session_id, None)

    def is_running(self, session_id: str) -> bool:
        """Whether an answer of this session is produced here."""
        return session_id in self._turns

    def running_text(self, session_id: str) -> RunningText | None:
        """The text so far; messages published after this call continue it."""
        found = self._turns.get(session_id)
        if found is None:
            return None
        reasoning, text = ("".join(found.texts[part]) for part in TextPart)
        return RunningText(found.task_id, found.turn, text, reasoning, found.reasoning_ms)

    def _resend(self, message: ResyncRequested) -> None:
        known = self.running_text(message.session_id)
        if known is None:
            return
        whole = TextAppended(message.session_id, known.task_id, known.turn, 0, known.text)
        if known.reasoning:
            self._bus.publish(
                replace(
                    whole, text=known.reasoning, part=TextPart.reasoning, duration_ms=known.reasoning_ms
                )
            )
        self._bus.publish(whole)
