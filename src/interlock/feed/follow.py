"""Publishes the events of sessions to their subscribers.

Each followed session has one feed. It reads the log once for all its subscribers, in the order of the
numbers, and publishes the text of a running answer in between as it arrives. A new subscriber first gets
the stored entries, from where it wants to begin; when it has reached the feed's own number it joins, so
that nothing is missed or sent twice.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import orjson

from interlock.agent.events import AgentEvent, TextDelta
from interlock.core.errors import StoreError
from interlock.core.logging import StructuredLogger
from interlock.db.database import Database
from interlock.db.driver import DbConnection
from interlock.feed.entries import LAST, LogEntry, read_entries, read_head, read_heads
from interlock.log.read import FROM_TASK
from interlock.log.writer import EventLog
from interlock.runtime.live_stream import LiveStream, RunningTextBuffer
from interlock.runtime.task_rows import Task
from interlock.sessions.storable_message import require_session

_log = StructuredLogger(__name__)

PAGE = 200
# Appends of other processes to the same store cause no notification here: poll for them.
POLL_SECONDS = 0.5
# After the store could not be read.
PAUSE_SECONDS = 1.0
MAX_HEADS = 500

NEWEST = "SELECT coalesce(max(position), 0) FROM events"
# The last task to start, if it has not ended, and its last turn.
LAST_TASK = """
SELECT task, kind FROM events
WHERE stream = ? AND kind IN ('task.started', 'task.finished', 'task.cancelled') ORDER BY seq DESC LIMIT 1
"""
LAST_TURN = f"SELECT facts {FROM_TASK} AND kind = 'turn.completed' ORDER BY seq DESC LIMIT 1"


T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class FeedRenderer(Generic[T]):
    """Renders entries for the subscribers, once for all of them.

    `render_event` gets an event and the part of the running answer that was published before it was stored;
    `render_text` gets text that is not stored yet: its session and task, and its offset.
    """

    render_event: Callable[[LogEntry, str], Sequence[T]]
    render_text: Callable[[str, str, int, str], T]


class FeedSubscriber(Protocol[T_contra]):
    def deliver(self, entry: T_contra, /) -> None:
        """Never waits. A subscriber that cannot keep up ends itself, and leaves."""

    async def ready(self) -> None:
        """Wait until there is room for more: for subscribers with much to catch up on."""


class FeedHub(Generic[T]):
    """Runs on one event loop. `run` polls for the appends of other processes."""

    def __init__(
        self, database: Database, log: EventLog, live: LiveStream, telling: FeedRenderer[T]
    ) -> None:
        self._telling = telling
        self._database = database
        self._log = log
        self._live = live
        self._channels: dict[str, SessionFeed[T]] = {}
        self._looked_at = 0

    async def run(self) -> None:
        loop = asyncio.get_running_loop()

        def grown(streams: set[str]) -> None:
            # In the writer's thread. This is only a rough check for subscribers.
            if any(stream in self._channels for stream in streams):
                loop.call_soon_threadsafe(self._wake, streams)

        stop_listening = self._log.listen(grown)
        try:
            while True:
                await asyncio.sleep(POLL_SECONDS)
                try:
                    if self._channels:
                        await self._look()
                except StoreError as error:
                    _log.warning("log_not_looked_at", error=str(error))
        finally:
            stop_listening()
            await self._end_all()

    async def follow(
        self,
        session_id: str,
        follower: FeedSubscriber[T],
        *,
        after: int | None = None,
        last: int | None = None,
    ) -> tuple[int, int]:
        """Publish what follows `after`, at most the `last` newest numbers of the stored entries.

        `after` None skips all stored entries. Returns when the subscriber has joined, with the numbers
        where it began and where it joined.
        """
        channel = self._channels.get(session_id)
        if channel is None:
            channel = self._channels[session_id] = SessionFeed(
                session_id, self._database, self._live, self._telling
            )
        channel.wanted += 1
        try:
            head = await channel.begin()
            begin = head if after is None else min(after, head)
            if last is not None:
                begin = max(begin, head - last)
            joined = await channel.bring(follower, begin)
        finally:
            channel.wanted -= 1
            await self._let_go(channel)
        return begin, joined

    async def leave(self, session_id: str, follower: FeedSubscriber[T]) -> None:
        channel = self._channels.get(session_id)
        if channel is not None:
            channel.followers.discard(follower)
            await self._let_go(channel)

    def follows(self, session_id: str, follower: FeedSubscriber[T]) -> bool:
        channel = self._channels.get(session_id)
        return channel is not None and follower in channel.followers

    def _wake(self, streams: Iterable[str]) -> None:
        for stream in streams:
            if (channel := self._channels.get(stream)) is not None:
                channel.wake()

    async def _look(self) -> None:
        rows = await self._database.fetch(NEWEST)
        newest = rows[0][0]
        if newest != self._looked_at:
            names = tuple(self._channels)
            for begin in range(0, len(names), MAX_HEADS):
                await self._look_at(names[begin : begin + MAX_HEADS])
            # Only now: if the read failed, it is repeated.
            self._looked_at = newest

    async def _look_at(self, names: Sequence[str]) -> None:
        heads = await self._database.read(lambda db: read_heads(db, names))
        grown = [name for name, seq in heads if name in self._channels and seq > self._channels[name].seq]
        self._wake(grown)

    async def _let_go(self, channel: "SessionFeed[T]") -> None:
        if (
            not channel.followers
            and not channel.wanted
            and self._channels.get(channel.session_id) is channel
        ):
            del self._channels[channel.session_id]
            await channel.end()

    async def _end_all(self) -> None:
        for channel in tuple(self._channels.values()):
            await channel.end()
        self._channels.clear()


class SessionFeed(Generic[T]):
    """One session for all its subscribers. `seq` is the number up to which everything was published."""

    def __init__(
        self, session_id: str, database: Database, live: LiveStream, telling: FeedRenderer[T]
    ) -> None:
        self.session_id = session_id
        self.followers: set[FeedSubscriber[T]] = set()
        # Those that are about to join.
        self.wanted = 0
        self.seq = 0
        self._database = database
        self._live = live
        # Both exist only while they have work.
        self._beginning: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._is_open = False
        self._may_have_grown = False
        # The running task, its last completed turn and the calls of that without a result, as published.
        self._task: str | None = None
        self._turn = 0
        self._open_calls: set[str] = set()
        self._telling = telling
        self._open = PartialAnswer()
        self._text_is_due = False

    async def begin(self) -> int:
        """Read the session's head, once for concurrent callers. Returns the number it is at."""
        if not self._is_open:
            if self._beginning is None:
                self._beginning = asyncio.create_task(self._find_beginning())
            await asyncio.shield(self._beginning)
        return self.seq

    async def _find_beginning(self) -> None:
        self._live.subscribe(self.session_id, self)

        def read(connection: DbConnection) -> tuple[int, str | None, int]:
            require_session(connection, self.session_id)
            return read_head(connection, self.session_id), *_running_task(connection, self.session_id)

        self.seq, self._task, self._turn = await self._database.read(read)
        self._is_open, self._beginning = True, None
        self.wake()

    async def end(self) -> None:
        self._live.unsubscribe(self.session_id, self)
        self._is_open = False
        for task in (self._beginning, self._reading):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait({task})

    # -- notifications --

    def wake(self) -> None:
        self._may_have_grown = True
        if self._is_open and self._reading is None:
            self._reading = asyncio.create_task(self._read_on())

    def deliver(self, _task: Task, event: AgentEvent) -> bool:
        """A live event: only text is new here, everything else comes from the log."""
        if isinstance(event, TextDelta):
            self._text_grew()
        return True

    def on_remote_change(self) -> None:
        running = self._live.running_buffer(self.session_id)
        if running is None or not self._is_due(running):
            # The other process's log says which turn it belongs to, or how it ended.
            self.wake()
        else:
            self._text_grew()

    def _text_grew(self) -> None:
        if not self._text_is_due:
            # Text that arrives before it is published goes into the same frame.
            self._text_is_due = True
            asyncio.get_running_loop().call_soon(self._deliver_text)

    # -- publishing --

    async def bring(self, follower: FeedSubscriber[T], seq: int) -> int:
        """Send a new subscriber the stored entries until it has caught up, and let it join."""
        while seq < self.seq:
            page = await self._read(seq, self.seq)
            if not page:
                raise StoreError(f"the log of session {self.session_id} ends before its head")
            for entry in page:
                for piece in self._telling.render_event(entry, ""):
                    follower.deliver(piece)
                seq = entry.seq
                # One by one: a page of long messages is more than a subscriber may buffer.
                await follower.ready()
        if (running := self._open.whole()) is not None:
            follower.deliver(self._of_text(running))
        self.followers.add(follower)
        return seq

    async def _read_on(self) -> None:
        while self._may_have_grown:
            self._may_have_grown = False
            try:
                await self._deliver_stored()
                self._deliver_text()
            except StoreError as error:
                _log.warning("session_not_read", session_id=self.session_id, error=str(error))
                await self._pause()
            except Exception as error:  # noqa: BLE001 - else all subscribers would wait for ever, unnoticed
                _log.error("session_not_told", session_id=self.session_id, exc_info=error)
                await self._pause()
        self._reading = None

    async def _pause(self) -> None:
        await asyncio.sleep(PAUSE_SECONDS)
        self._may_have_grown = True

    async def _deliver_stored(self) -> None:
        while page := await self._read(self.seq, LAST):
            for entry in page:
                shown = self._note(entry)
                for piece in self._telling.render_event(entry, shown):
                    self._deliver_all(piece)
                self.seq = entry.seq
            if len(page) < PAGE:
                return

    def _note(self, entry: LogEntry) -> str:
        """Track the running task. Returns the published part of a text that is stored now."""
        task, said = entry.header.task, entry.message
        if entry.kind == "task.started" and task != self._task:
            self._task, self._turn = task, 0
        if said is not None and said.role == "tool":
            self._open_calls.discard(said.tool_call_id or "")
        is_end = entry.kind in {"task.finished", "task.cancelled"}
        if is_end or (said is not None and said.role == "assistant"):
            if is_end:
                self._task = None
            elif said is not None and task == self._task:
                self._turn = int(entry.payload.get("turn", self._turn))
                self._open_calls = {str(call["id"]) for call in said.tool_calls}
            return self._open.close()
        return ""

    def _is_due(self, running: RunningTextBuffer) -> bool:
        """Whether everything before the text was published, and the text is not stored yet."""
        is_new = running.task_id == self._task and running.turn > self._turn
        return is_new and not self._open_calls

    def _deliver_text(self) -> None:
        self._text_is_due = False
        running = self._live.running_buffer(self.session_id)
        # The log wakes the feed when it has what comes before the text.
        if running is None or not self._is_due(running):
            return
        grown = self._open.more(running)
        if grown is not None:
            self._deliver_all(self._of_text(grown))

    def _of_text(self, text: "FeedTextDelta") -> T:
        return self._telling.render_text(self.session_id, text.task_id, text.offset, text.text)

    def _deliver_all(self, piece: T) -> None:
        for follower in tuple(self.followers):
            follower.deliver(piece)

    async def _read(self, after: int, through: int) -> list[LogEntry]:
        return await self._database.read(
            lambda db: read_entries(db, self.session_id, after=after, through=through, limit=PAGE)
        )


def _running_task(connection: DbConnection, session_id: str) -> tuple[str | None, int]:
    for task, kind in connection.query(LAST_TASK, (session_id,)):
        if kind == "task.started":
            turns = connection.query(LAST_TURN, (session_id, task))
            return str(task), int(orjson.loads(turns[0][0]).get("turn", 0)) if turns else 0
    return None, 0


@dataclass(frozen=True, slots=True)
class FeedTextDelta:
    """A part of a running answer, from `offset` on."""

    task_id: str
    offset: int
    text: str


class PartialAnswer:
    """The part of the running answer that was published before it is stored."""

    def __init__(self) -> None:
        self._of: RunningTextBuffer | None = None
        self._pieces = 0
        self._chars = 0

    def more(self, running: RunningTextBuffer) -> FeedTextDelta | None:
        """The text since the last call; None if there is none."""
        if running is not self._of:
            self._of, self._pieces, self._chars = running, 0, 0
        text = "".join(running.pieces[self._pieces :])
        if not text:
            return None
        grown = FeedTextDelta(running.task_id, self._chars, text)
        self._pieces, self._chars = len(running.pieces), self._chars + len(text)
        return grown

    def whole(self) -> FeedTextDelta | None:
        """All of the published text, for a subscriber that joins."""
        if self._of is None or not self._chars:
            return None
        return FeedTextDelta(self._of.task_id, 0, self._text())

    def close(self) -> str:
        """The answer is stored or abandoned. Returns its published part."""
        text = self._text()
        self._of, self._pieces, self._chars = None, 0, 0
        return text

    def _text(self) -> str:
        return "" if self._of is None else "".join(self._of.pieces[: self._pieces])
