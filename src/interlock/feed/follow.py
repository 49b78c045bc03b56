"""Follows sessions: publishes their log entries and running texts to subscribers.

Each followed session has one feed. The process that wrote an event hands it over after the commit, and it
is published at once if its number continues the feed's own; everything else is read from the log, once for
all subscribers. The text of a running answer is published in between as it arrives. A new subscriber first
gets the stored entries, from where it wants to begin; when it has reached the number of the feed it joins,
so that nothing is missed or sent twice.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import orjson

from interlock.core.errors import StoreError
from interlock.core.logging import StructuredLogger
from interlock.db.database import Database
from interlock.db.driver import DbConnection
from interlock.feed.entries import LAST, LogEntry, entry_of_event, read_entries, read_head, read_heads
from interlock.feed.frames import FeedItem
from interlock.feed.render import render_entry, render_reasoning, render_text
from interlock.log.event import IS_MILESTONE
from interlock.log.read import FROM_TASK
from interlock.runtime.bus import Bus, LogAppended, ResyncRequested, TextAppended, TextPart
from interlock.runtime.live_stream import LiveStream, RunningText
from interlock.sessions.storable_message import require_session

_log = StructuredLogger(__name__)

PAGE = 200
# Messages of other processes may be lost: poll for their appends.
POLL_SECONDS = 0.5
# PostgreSQL: an event may become visible this long after others that were numbered later.
SETTLE_SECONDS = 5.0
# After the store could not be read.
PAUSE_SECONDS = 1.0
MAX_HEADS = 500
# The limit of one answer from another process: models are limited, but the bus is untrusted.
MAX_TEXT_CHARS = 64 * 1024 * 1024

NEWEST = "SELECT coalesce(max(position), 0) FROM events"
# The last task to start, if it has not ended.
LAST_TASK = f"""
SELECT s.task FROM events s WHERE s.stream = ? AND s.seq = (
        SELECT max(seq) FROM events WHERE stream = ? AND kind = 'task.started' AND {IS_MILESTONE})
    AND NOT EXISTS (
        SELECT 1 FROM events e WHERE e.stream = s.stream AND e.task = s.task AND e.seq > s.seq
            AND e.kind IN ('task.finished', 'task.cancelled') AND {IS_MILESTONE})
"""  # noqa: S608 - constants
LAST_TURN = f"SELECT facts {FROM_TASK} AND kind = 'turn.completed' ORDER BY seq DESC LIMIT 1"


T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class FeedSubscriber(Protocol[T_contra]):
    def deliver(self, entry: T_contra, /) -> None:
        """Never waits. A subscriber that cannot keep up ends itself, and leaves."""

    async def ready(self) -> None:
        """Wait until there is room for more: for subscribers with much to catch up on."""


class FeedHub(Generic[T]):
    """The feeds of one process, on one event loop. `run` polls for the appends of other processes.

    `encode` gets the session and an item, and is called once for all subscribers.
    """

    def __init__(
        self, database: Database, bus: Bus, live: LiveStream, encode: Callable[[str, FeedItem], T]
    ) -> None:
        self._database = database
        self._bus = bus
        self._live = live
        self._encode = encode
        self._feeds: dict[str, SessionFeed[T]] = {}
        self._newest = 0
        self._look_until = 0.0

    async def run(self) -> None:
        try:
            while True:
                await asyncio.sleep(POLL_SECONDS)
                try:
                    if self._feeds:
                        await self._look()
                except StoreError as error:
                    _log.warning("log_not_looked_at", error=str(error))
                    # The next look must not take this one for done.
                    self._newest = -1
        finally:
            await self._end_all()

    async def follow(
        self,
        session_id: str,
        subscriber: FeedSubscriber[T],
        *,
        after: int | None = None,
        last: int | None = None,
    ) -> tuple[int, int]:
        """Publish what follows `after`, at most the `last` newest numbers of the stored entries.

        `after` None skips all stored entries. Returns when the subscriber has joined, with the numbers
        where it began and where it joined.
        """
        feed = self._feeds.get(session_id)
        if feed is None:
            feed = self._feeds[session_id] = SessionFeed(
                session_id, self._database, self._bus, self._live, self._encode
            )
        feed.joining += 1
        try:
            head = await feed.begin()
            begin = head if after is None else min(after, head)
            if last is not None:
                begin = max(begin, head - last)
            joined = await feed.bring(subscriber, begin)
        finally:
            feed.joining -= 1
            await self._let_go(feed)
        return begin, joined

    async def leave(self, session_id: str, subscriber: FeedSubscriber[T]) -> None:
        feed = self._feeds.get(session_id)
        if feed is not None:
            feed.subscribers.discard(subscriber)
            await self._let_go(feed)

    def follows(self, session_id: str, subscriber: FeedSubscriber[T]) -> bool:
        feed = self._feeds.get(session_id)
        return feed is not None and subscriber in feed.subscribers

    async def catch_up(self, session_id: str) -> None:
        """Wait until everything that is stored now was published to the session's subscribers."""
        feed = self._feeds.get(session_id)
        if feed is not None:
            await feed.catch_up()

    async def _look(self) -> None:
        rows = await self._database.fetch(NEWEST)
        now = asyncio.get_running_loop().time()
        if rows[0][0] != self._newest:
            self._newest, self._look_until = rows[0][0], now + SETTLE_SECONDS
        if now <= self._look_until:
            names = tuple(self._feeds)
            for begin in range(0, len(names), MAX_HEADS):
                await self._look_at(names[begin : begin + MAX_HEADS])

    async def _look_at(self, names: Sequence[str]) -> None:
        heads = await self._database.read(lambda db: read_heads(db, names))
        for name, seq in heads:
            if (feed := self._feeds.get(name)) is not None and seq > feed.seq:
                feed.wake()

    async def _let_go(self, feed: "SessionFeed[T]") -> None:
        if not feed.subscribers and not feed.joining and self._feeds.get(feed.session_id) is feed:
            del self._feeds[feed.session_id]
            await feed.end()

    async def _end_all(self) -> None:
        for feed in tuple(self._feeds.values()):
            await feed.end()
        self._feeds.clear()


@dataclass(slots=True)
class _GrowingText:
    """A text of the current turn, and how much of it was published."""

    part: TextPart
    task_id: str
    turn: int
    pieces: list[str] = field(default_factory=list)
    chars: int = 0
    published_pieces: int = 0
    published_chars: int = 0
    # How long it was reasoned, once that is over.
    duration_ms: int = 0
    published_ms: int = 0

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.chars += len(text)

    def unpublished(self) -> tuple[int, str]:
        """The offset and the text since the last call."""
        offset, text = self.published_chars, "".join(self.pieces[self.published_pieces :])
        self.published_pieces, self.published_chars = len(self.pieces), offset + len(text)
        return offset, text

    def published(self) -> str:
        return "".join(self.pieces[: self.published_pieces])

    def next_item(self) -> FeedItem | None:
        """What was not published yet, if anything."""
        offset, text = self.unpublished()
        is_new = bool(text) or self.duration_ms != self.published_ms
        self.published_ms = self.duration_ms
        return self._item(offset, text) if is_new else None

    def published_item(self) -> FeedItem | None:
        """What was published, for a new subscriber."""
        return self._item(0, self.published()) if self.published_chars else None

    def _item(self, offset: int, text: str) -> FeedItem:
        if self.part is TextPart.answer:
            return render_text(self.task_id, self.turn, offset, text)
        return render_reasoning(self.task_id, self.turn, offset, text, self.published_ms or None)


class SessionFeed(Generic[T]):
    """One session for all its subscribers. `seq` is the number up to which everything was published."""

    def __init__(
        self,
        session_id: str,
        database: Database,
        bus: Bus,
        live: LiveStream,
        encode: Callable[[str, FeedItem], T],
    ) -> None:
        self.session_id = session_id
        self.subscribers: set[FeedSubscriber[T]] = set()
        # The number of those that are about to join.
        self.joining = 0
        self.seq = 0
        self._database = database
        self._bus = bus
        self._live = live
        self._encode = encode
        self._unsubscribes: tuple[Callable[[], None], ...] = ()
        # Both exist only while they have work.
        self._beginning: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._is_open = False
        self._may_have_grown = False
        # The log has, or is being read for, entries that were not published.
        self._is_behind = False
        # The running task, its last completed turn and the calls of that without a result, as published.
        self._task: str | None = None
        self._turn = 0
        self._open_calls: set[str] = set()
        self._texts: dict[TextPart, _GrowingText] = {}
        self._text_is_due = False

    async def begin(self) -> int:
        """Read the session's head, once for concurrent callers. Returns the number it is at."""
        if not self._is_open:
            if self._beginning is None:
                self._beginning = asyncio.create_task(self._find_beginning())
            await asyncio.shield(self._beginning)
        return self.seq

    async def _find_beginning(self) -> None:
        if not self._unsubscribes:
            self._unsubscribes = (
                self._bus.subscribe(self._on_log, LogAppended, session_id=self.session_id),
                self._bus.subscribe(self._on_text, TextAppended, session_id=self.session_id),
            )
            # A text of another process is sent by that.
            self._take_over(self._live.running_text(self.session_id))

        def read(connection: DbConnection) -> tuple[int, str | None, int]:
            require_session(connection, self.session_id)
            return read_head(connection, self.session_id), *_running_task(connection, self.session_id)

        try:
            self.seq, self._task, self._turn = await self._database.read(read)
        finally:
            self._beginning = None
        self._is_open = True
        if self._may_have_grown:
            self.wake()
        else:
            self._deliver_text()

    async def end(self) -> None:
        for unsubscribe in self._unsubscribes:
            unsubscribe()
        self._unsubscribes, self._is_open = (), False
        for task in (self._beginning, self._reading):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait({task})
        self._reading = None

    # -- messages --

    def wake(self) -> None:
        """There may be more in the log."""
        self._may_have_grown = True
        if self._is_open and self._reading is None:
            self._reading = asyncio.create_task(self._read_on())

    def _on_log(self, message: LogAppended) -> None:
        """Publish the events that continue what was published; for anything else, look into the log."""
        if not message.events or not self._is_open or self._reading is not None:
            self.wake()
            return
        try:
            for event in message.events:
                if event.seq <= self.seq:
                    continue
                entry = entry_of_event(event) if event.seq == self.seq + 1 else None
                if entry is None:
                    self.wake()
                    return
                self._deliver_entry(entry)
            self._deliver_text()
        except Exception:
            self.wake()
            raise

    def _take_over(self, running: RunningText | None) -> None:
        """Continue a text that is produced here."""
        if running is None:
            return
        for part, text in (TextPart.reasoning, running.reasoning), (TextPart.answer, running.text):
            known = self._texts[part] = _GrowingText(part, running.task_id, running.turn)
            known.add(text)
        self._texts[TextPart.reasoning].duration_ms = running.reasoning_ms

    def _on_text(self, message: TextAppended) -> None:
        if message.is_remote and self._live.is_running(self.session_id):
            # The answer is produced here; another process that sends text has lost the session.
            return
        known, text = self._texts.get(message.part), message.text
        is_same = known is not None and (known.task_id, known.turn) == (message.task_id, message.turn)
        if message.offset == 0:
            so_far = "".join(known.pieces) if known is not None and is_same else ""
            if so_far and text.startswith(so_far):
                # All of it, for another process.
                text = text[len(so_far) :]
            else:
                known = self._texts[message.part] = _GrowingText(
                    message.part, message.task_id, message.turn
                )
        elif known is None or not is_same or message.offset > known.chars:
            self._bus.publish(ResyncRequested(self.session_id))
            return
        elif message.offset < known.chars:
            return
        assert known is not None  # noqa: S101 - for the type checker
        has_ended = message.duration_ms != known.duration_ms
        if not (text or has_ended) or known.chars + len(text) > MAX_TEXT_CHARS:
            return
        known.add(text)
        known.duration_ms = message.duration_ms
        if self._is_due(known):
            self._text_grew()
        elif message.is_remote and self._reading is None:
            # The log says which turn it belongs to, or how it ended. A read that has begun publishes the
            # text when it ends: to read again for each delta would never end.
            self.wake()

    def _text_grew(self) -> None:
        if not self._text_is_due:
            # Text that arrives before it is published goes into the same frame.
            self._text_is_due = True
            asyncio.get_running_loop().call_soon(self._deliver_text)

    # -- publishing --

    async def bring(self, subscriber: FeedSubscriber[T], seq: int) -> int:
        """Send a new subscriber the stored entries until it has caught up, and let it join."""
        while seq < self.seq:
            page = await self._read(seq, self.seq)
            if not page:
                raise StoreError(f"the log of session {self.session_id} ends before its head")
            for entry in page:
                for item in render_entry(entry):
                    subscriber.deliver(self._encode(self.session_id, item))
                seq = entry.seq
                # One by one: a page of long messages is more than a subscriber may buffer.
                await subscriber.ready()
        for text in self._growing():
            if (shown := text.published_item()) is not None:
                subscriber.deliver(self._encode(self.session_id, shown))
        self.subscribers.add(subscriber)
        return seq

    async def catch_up(self) -> None:
        self.wake()
        while (reading := self._reading) is not None:
            await asyncio.wait({reading})

    async def _read_on(self) -> None:
        while self._may_have_grown:
            self._may_have_grown, self._is_behind = False, True
            try:
                await self._deliver_stored()
                self._is_behind = False
                self._deliver_text()
            except StoreError as error:
                _log.warning("session_not_read", session_id=self.session_id, error=str(error))
                await self._pause()
            except Exception as error:  # noqa: BLE001 - else all subscribers would wait for ever, unnoticed
                _log.error("session_not_told", session_id=self.session_id, exc_info=error)
                await self._pause()
        self._reading = None

    async def _pause(self) -> None:
        # Text goes on meanwhile.
        self._is_behind = False
        await asyncio.sleep(PAUSE_SECONDS)
        self._may_have_grown = True

    async def _deliver_stored(self) -> None:
        while page := await self._read(self.seq, LAST):
            for entry in page:
                self._deliver_entry(entry)
            if len(page) < PAGE:
                return

    def _deliver_entry(self, entry: LogEntry) -> None:
        shown = self._note(entry)
        for item in render_entry(entry, shown):
            self._deliver_all(item)
        self.seq = entry.seq

    def _note(self, entry: LogEntry) -> str:
        """Track the running task. Returns the published part of a text that is stored now."""
        task, said = entry.header.task, entry.message
        if entry.kind == "task.started" and task != self._task:
            self._task, self._turn = task, 0
        if said is not None and said.role == "tool":
            self._open_calls.discard(said.tool_call_id or "")
        if entry.kind in {"task.finished", "task.cancelled"}:
            if task == self._task:
                # Not one that was cancelled while it was queued behind it.
                self._task = None
                self._texts.clear()
        elif entry.kind == "turn.discarded":
            for text in self._growing():
                if (text.task_id, text.turn) == (task, entry.payload["turn"]):
                    del self._texts[text.part]
        elif said is not None and said.role == "assistant":
            if task == self._task and entry.kind == "turn.completed":
                self._turn = said.turn
                self._open_calls = {str(call["id"]) for call in said.tool_calls}
            return self._take_text(task, said.turn)
        return ""

    def _take_text(self, task: str | None, turn: int) -> str:
        """The published part of a turn's text, which is stored now and replaced by its entry."""
        published = ""
        for text in self._growing():
            if text.task_id == task and text.turn <= turn:
                del self._texts[text.part]
                if text.turn == turn and text.part is TextPart.answer:
                    published = text.published()
        return published

    def _growing(self) -> list[_GrowingText]:
        """The texts of the current turn, in the order in which they are shown."""
        return [text for part in TextPart if (text := self._texts.get(part)) is not None]

    def _is_due(self, text: _GrowingText) -> bool:
        """Whether everything before the text was published, and the text is not stored yet."""
        is_next = text.task_id == self._task and text.turn > self._turn and not self._open_calls
        return is_next and not self._is_behind and not self._may_have_grown

    def _deliver_text(self) -> None:
        self._text_is_due = False
        # The log wakes the feed when it has what comes before the text.
        for text in self._growing():
            if self._is_due(text) and (item := text.next_item()) is not None:
                self._deliver_all(item)

    def _deliver_all(self, item: FeedItem) -> None:
        encoded = self._encode(self.session_id, item)
        for subscriber in tuple(self.subscribers):
            subscriber.deliver(encoded)

    async def _read(self, after: int, through: int) -> list[LogEntry]:
        return await self._database.read(
            lambda db: read_entries(db, self.session_id, after=after, through=through, limit=PAGE)
        )


def _running_task(connection: DbConnection, session_id: str) -> tuple[str | None, int]:
    for (task,) in connection.query(LAST_TASK, (session_id, session_id)):
        turns = connection.query(LAST_TURN, (session_id, task))
        return str(task), int(orjson.loads(turns[0][0]).get("turn", 0)) if turns else 0
    return None, 0
