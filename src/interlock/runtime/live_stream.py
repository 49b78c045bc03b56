"""The answers that the tasks of this process produce right now, before they are stored.

All other events are in the log already. The text is published as it grows; a process that missed its
beginning asks for it, and gets all of it again.
"""

from dataclasses import dataclass, field

from interlock.agent.events import AgentEvent, TaskEnded, TextDelta, ToolProgress, TurnCompleted
from interlock.runtime.bus import Bus, ProgressReported, ResyncRequested, TextAppended
from interlock.runtime.task_rows import Task


@dataclass(frozen=True, slots=True)
class RunningText:
    """The answer of the current turn, from its beginning."""

    task_id: str
    turn: int
    text: str


@dataclass(slots=True)
class _GrowingText:
    task_id: str
    turn: int
    pieces: list[str] = field(default_factory=list)


class LiveStream:
    """Publishes on one event loop, without waiting."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._texts: dict[str, _GrowingText] = {}
        bus.subscribe(self._resend, ResyncRequested)

    def publish(self, task: Task, event: AgentEvent) -> None:
        if isinstance(event, TextDelta):
            known = self._texts.get(task.session_id)
            if known is None or (known.task_id, known.turn) != (task.id, event.turn) or event.offset == 0:
                known = self._texts[task.session_id] = _GrowingText(task.id, event.turn)
            known.pieces.append(event.text)
            self._bus.publish(TextAppended(task.session_id, task.id, event.turn, event.offset, event.text))
        elif isinstance(event, ToolProgress):
            self._bus.publish(ProgressReported(task.session_id, event.call_id, event.text))
        elif isinstance(event, TurnCompleted | TaskEnded):
            self.ended(task)

    def ended(self, task: Task) -> None:
        """This task's answer is over, whatever its outcome."""
        self._texts.pop(task.session_id, None)

    def is_running(self, session_id: str) -> bool:
        """Whether an answer of this session is produced here."""
        return session_id in self._texts

    def running_text(self, session_id: str) -> RunningText | None:
        """The text so far; messages published after this call continue it."""
        found = self._texts.get(session_id)
        return None if found is None else RunningText(found.task_id, found.turn, "".join(found.pieces))

    def _resend(self, message: ResyncRequested) -> None:
        known = self.running_text(message.session_id)
        if known is not None:
            self._bus.publish(TextAppended(message.session_id, known.task_id, known.turn, 0, known.text))
