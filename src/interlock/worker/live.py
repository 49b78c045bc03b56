"""What the tasks of this process do right now, for whoever watches: pieces of text before they are stored.

Everything else that is told here is in the log already. A watcher that falls behind is cut off: it goes on
from the log, and asks for the running text again.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from interlock.agent.events import AgentEvent, TaskEnded, TextDelta, TurnCompleted
from interlock.infra.mailbox import Mailbox
from interlock.worker.rows import Task

# How many pieces may wait for one watcher.
MAX_WAITING = 4096


@dataclass(frozen=True, slots=True)
class RunningText:
    """The answer of a turn that is still being given, from its beginning."""

    task_id: str
    turn: int
    text: str


@dataclass(slots=True)
class RunningPieces:
    """That answer as it comes."""

    task_id: str
    turn: int
    pieces: list[str] = field(default_factory=list)

    @property
    def place(self) -> tuple[str, int]:
        return self.task_id, self.turn


class Watcher(Protocol):
    def tell(self, task: Task, event: AgentEvent) -> bool:
        """False: it has fallen behind and hears no more. It never waits."""


class Watching:
    """One watcher of one session; iterate over it. It ends by itself when it was cut off."""

    def __init__(self) -> None:
        self._told: Mailbox[tuple[Task, AgentEvent] | None] = Mailbox()
        self.was_cut_off = False

    def tell(self, task: Task, event: AgentEvent) -> bool:
        """False: it has fallen behind and hears no more."""
        if len(self._told) >= MAX_WAITING:
            self.was_cut_off = True
            self.end()
            return False
        self._told.put((task, event))
        return True

    def end(self) -> None:
        """After what was told until now, nothing more."""
        self._told.put(None)

    async def __aiter__(self) -> AsyncIterator[tuple[Task, AgentEvent]]:
        while (told := await self._told.next()) is not None:
            yield told


class Live:
    """On one event loop. `publish` never waits."""

    def __init__(self) -> None:
        self._hearing: list[Callable[[AgentEvent], None]] = []
        self._watchers: dict[str, set[Watcher]] = {}
        self._texts: dict[str, RunningPieces] = {}

    def publish(self, task: Task, event: AgentEvent) -> None:
        self._keep_text(task, event)
        for hear in self._hearing:
            hear(event)
        for watcher in tuple(self._watchers.get(task.session_id, ())):
            if not watcher.tell(task, event):
                self._watchers[task.session_id].discard(watcher)

    def hear(self, hear: Callable[[AgentEvent], None]) -> None:
        """Have it told everything, of all sessions, from now on: for counting."""
        self._hearing.append(hear)

    def ended(self, task: Task) -> None:
        """Nobody gives this task's answer any more, whatever became of it."""
        self._texts.pop(task.session_id, None)

    def running_text(self, session_id: str) -> RunningText | None:
        """To be followed by what a watcher hears that was there before this was asked."""
        found = self._texts.get(session_id)
        return None if found is None else RunningText(found.task_id, found.turn, "".join(found.pieces))

    def running_pieces(self, session_id: str) -> "RunningPieces | None":
        """The same as it grows: only read it. Another turn has another."""
        return self._texts.get(session_id)

    @contextmanager
    def watch(self, session_id: str) -> Iterator[Watching]:
        watching = Watching()
        self.attach(session_id, watching)
        try:
            yield watching
        finally:
            self.detach(session_id, watching)

    def attach(self, session_id: str, watcher: Watcher) -> None:
        self._watchers.setdefault(session_id, set()).add(watcher)

    def detach(self, session_id: str, watcher: Watcher) -> None:
        watchers = self._watchers.get(session_id, set())
        watchers.discard(watcher)
        if not watchers:
            self._watchers.pop(session_id, None)

    def _keep_text(self, task: Task, event: AgentEvent) -> None:
        if isinstance(event, TextDelta):
            known = self._texts.get(task.session_id)
            if known is None or known.place != (task.id, event.turn) or event.offset == 0:
                known = self._texts[task.session_id] = RunningPieces(task.id, event.turn)
            known.pieces.append(event.text)
        elif isinstance(event, TurnCompleted | TaskEnded):
            self._texts.pop(task.session_id, None)
