"""What the tasks of this process do right now, for subscribers: text deltas before they are stored.

All other events are in the log already. A subscriber that falls behind is cut off: it continues from the
log, and asks for the current text again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, assert_never

from interlock.agent.events import AgentEvent, TaskEnded, TextDelta, TurnCompleted
from interlock.runtime.bus import (
    Bus,
    BusMessage,
    CancelRequested,
    LogAppended,
    ResyncRequested,
    TextAppended,
    TextEnded,
    WorkAvailable,
)
from interlock.runtime.task_rows import Task

# The number of events that may wait for one subscriber.
MAX_WAITING = 4096
# The limit of one answer from another process: models are limited, but the bus is untrusted.
MAX_HEARD_CHARS = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RunningText:
    """The answer of the current turn, from its beginning."""

    task_id: str
    turn: int
    text: str


@dataclass(slots=True)
class RunningTextBuffer:
    """The answer of the current turn as it grows."""

    task_id: str
    turn: int
    pieces: list[str] = field(default_factory=list)
    chars: int = 0
    # Another process produces it.
    is_remote: bool = False

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.chars += len(text)

    @property
    def place(self) -> tuple[str, int]:
        return self.task_id, self.turn


class LiveSubscriber(Protocol):
    def deliver(self, task: Task, event: AgentEvent) -> bool:
        """Deliver an event without waiting. False: the subscriber has fallen behind and is removed."""

    def on_remote_change(self) -> None:
        """Another process added to the current text, ended it, or appended to the log."""


class LiveSubscription:
    """One subscriber of one session; iterate over it. It ends when cut off."""

    def __init__(self) -> None:
        self._queued: asyncio.Queue[tuple[Task, AgentEvent] | None] = asyncio.Queue()
        self.was_cut_off = False

    def deliver(self, task: Task, event: AgentEvent) -> bool:
        """Queue an event. False: the subscriber has fallen behind and is removed."""
        if self._queued.qsize() >= MAX_WAITING:
            self.was_cut_off = True
            self.end()
            return False
        self._queued.put_nowait((task, event))
        return True

    def on_remote_change(self) -> None:
        """Ignored: work in other processes is followed by the log."""

    def end(self) -> None:
        """End after the events queued so far."""
        self._queued.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[tuple[Task, AgentEvent]]:
        while (told := await self._queued.get()) is not None:
            yield told


class LiveStream:
    """Publishes on one event loop, without waiting. Over a bus, other processes receive the text too."""

    def __init__(self, bus: Bus | None = None) -> None:
        self._bus = bus
        self._hearing: list[Callable[[AgentEvent], None]] = []
        self._watchers: dict[str, set[LiveSubscriber]] = {}
        self._texts: dict[str, RunningTextBuffer] = {}

    def publish(self, task: Task, event: AgentEvent) -> None:
        self._keep_text(task, event)
        if self._bus is not None and isinstance(event, TextDelta):
            self._bus.send(TextAppended(task.session_id, task.id, event.turn, event.offset, event.text))
        for hear in self._hearing:
            hear(event)
        for watcher in tuple(self._watchers.get(task.session_id, ())):
            if not watcher.deliver(task, event):
                self._watchers[task.session_id].discard(watcher)

    def hear(self, hear: Callable[[AgentEvent], None]) -> None:
        """Call `hear` with every event of all sessions from now on, for metrics."""
        self._hearing.append(hear)

    def ended(self, task: Task) -> None:
        """This task's answer is over, whatever its outcome."""
        self._forget(task)

    def receive(self, signal: BusMessage) -> None:
        """Handle a message of another process."""
        match signal:
            case TextAppended():
                self._receive(signal)
            case TextEnded(session_id, task_id):
                known = self._texts.get(session_id)
                if known is not None and known.is_remote and known.task_id == task_id:
                    del self._texts[session_id]
                self._notify_remote_change(session_id)
            case LogAppended(session_id):
                self._notify_remote_change(session_id)
            case ResyncRequested(session_id):
                self._resend_text(session_id)
            case WorkAvailable() | CancelRequested():
                pass
            case _:
                assert_never(signal)

    def running_text(self, session_id: str) -> RunningText | None:
        """The text so far; events queued after this call continue it."""
        found = self._texts.get(session_id)
        return None if found is None else RunningText(found.task_id, found.turn, "".join(found.pieces))

    def running_buffer(self, session_id: str) -> "RunningTextBuffer | None":
        """The same as a growing buffer: read it only. Each turn has its own."""
        return self._texts.get(session_id)

    @contextmanager
    def watch(self, session_id: str) -> Iterator[LiveSubscription]:
        watching = LiveSubscription()
        self.subscribe(session_id, watching)
        try:
            yield watching
        finally:
            self.unsubscribe(session_id, watching)

    def subscribe(self, session_id: str, watcher: LiveSubscriber) -> None:
        watchers = self._watchers.setdefault(session_id, set())
        if not watchers and self._bus is not None:
            self._bus.watch(session_id)
        watchers.add(watcher)

    def unsubscribe(self, session_id: str, watcher: LiveSubscriber) -> None:
        watchers = self._watchers.get(session_id, set())
        watchers.discard(watcher)
        if not watchers and self._watchers.pop(session_id, None) is not None:
            self._unwatch(session_id)

    def _unwatch(self, session_id: str) -> None:
        known = self._texts.get(session_id)
        if known is not None and known.is_remote:
            del self._texts[session_id]
        if self._bus is not None:
            self._bus.unwatch(session_id)

    def _keep_text(self, task: Task, event: AgentEvent) -> None:
        if isinstance(event, TextDelta):
            known = self._texts.get(task.session_id)
            if known is None or known.place != (task.id, event.turn) or event.offset == 0:
                known = self._texts[task.session_id] = RunningTextBuffer(task.id, event.turn)
            known.add(event.text)
        elif isinstance(event, TurnCompleted | TaskEnded):
            self._forget(task)

    def _forget(self, task: Task) -> None:
        if self._texts.pop(task.session_id, None) is not None and self._bus is not None:
            self._bus.send(TextEnded(task.session_id, task.id))

    # -- text of other processes --

    def _receive(self, piece: TextAppended) -> None:
        if piece.session_id not in self._watchers:
            return
        known = self._texts.get(piece.session_id)
        if known is not None and not known.is_remote:
            # The answer is produced here; another process that sends text has lost the session.
            return
        if piece.offset == 0:
            known = self._texts[piece.session_id] = RunningTextBuffer(
                piece.task_id, piece.turn, is_remote=True
            )
        elif known is None or known.place != (piece.task_id, piece.turn) or known.chars < piece.offset:
            self._ask_for_whole(piece.session_id)
            return
        if known.chars > piece.offset or not piece.text or known.chars + len(piece.text) > MAX_HEARD_CHARS:
            return
        known.add(piece.text)
        self._notify_remote_change(piece.session_id)

    def _notify_remote_change(self, session_id: str) -> None:
        for watcher in tuple(self._watchers.get(session_id, ())):
            watcher.on_remote_change()

    def _ask_for_whole(self, session_id: str) -> None:
        if self._bus is not None:
            self._bus.send(ResyncRequested(session_id))

    def _resend_text(self, session_id: str) -> None:
        known = self._texts.get(session_id)
        if self._bus is not None and known is not None and not known.is_remote:
            text = "".join(known.pieces)
            self._bus.send(TextAppended(session_id, known.task_id, known.turn, 0, text))
