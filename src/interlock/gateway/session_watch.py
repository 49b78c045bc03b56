"""Sends clients that watch the sessions a frame for each one that changed, whichever process changed it.

The bus says which, the store how they are now. Messages may be lost, so the log is also polled for changes.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from interlock.core.errors import StoreError
from interlock.core.logging import StructuredLogger
from interlock.db.database import Database
from interlock.db.driver import DbConnection
from interlock.gateway.protocol import SESSION_CHANGED, Frame, make_frame
from interlock.runtime.bus import SESSION_CHANGES, Bus, SessionChanged

_log = StructuredLogger(__name__)

POLL_SECONDS = 1.0
# Changes within this time are read together.
GATHER_SECONDS = 0.05
# PostgreSQL: an event may become visible this long after others that were numbered later.
SETTLE_SECONDS = 5.0
# At the first look: events that may have been numbered and not been visible yet.
EARLIER_EVENTS = 1000
# Of messages; what is beyond is found by the next poll.
MAX_CHANGED = 5000
PAGE = 500

NEWEST = "SELECT coalesce(max(position), 0) FROM events"
_KINDS = ", ".join(f"'{kind}'" for kind in sorted(SESSION_CHANGES))
CHANGED_SINCE = f"""
SELECT stream, max(seq) FROM events WHERE position > ? AND kind IN ({_KINDS}) GROUP BY stream
"""  # noqa: S608 - the kinds are constants

ReadSessions = Callable[[DbConnection, Sequence[str]], dict[str, dict[str, Any]]]


class SessionWatcher(Protocol):
    def deliver(self, frame: Frame) -> None: ...


class SessionWatch:
    """`read` gives the named sessions as clients see them; those that are missing were deleted."""

    def __init__(self, database: Database, bus: Bus, read: ReadSessions) -> None:
        self._database = database
        self._read = read
        self._watchers: set[SessionWatcher] = set()
        self._changed: dict[str, None] = {}
        self._has_changed = asyncio.Event()
        # The newest position at each of the last polls; and the reported number of each session since.
        self._marks: deque[tuple[float, int]] = deque()
        self._reported: dict[str, int] = {}
        bus.subscribe(self._on_change, SessionChanged)

    async def watch(self, watcher: SessionWatcher) -> None:
        """Send `watcher` what changes from now on."""
        is_first = not self._watchers
        self._watchers.add(watcher)
        if is_first:
            self._marks.clear()
            try:
                await self._poll()
            except BaseException:
                self.leave(watcher)
                raise

    def leave(self, watcher: SessionWatcher) -> None:
        self._watchers.discard(watcher)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        polled_at = loop.time()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._has_changed.wait()
                await asyncio.sleep(GATHER_SECONDS)
            try:
                if self._watchers and loop.time() - polled_at >= POLL_SECONDS:
                    polled_at = loop.time()
                    await self._poll()
                await self._send()
            except StoreError as error:
                _log.warning("sessions_not_looked_at", error=str(error))
                await asyncio.sleep(POLL_SECONDS)

    def _on_change(self, message: SessionChanged) -> None:
        # The next poll finds what is beyond.
        is_new = message.seq > self._reported.get(message.session_id, 0)
        if self._watchers and is_new and len(self._changed) < MAX_CHANGED:
            self._reported[message.session_id] = message.seq
            self._note(message.session_id)

    def _note(self, session_id: str) -> None:
        self._changed[session_id] = None
        self._has_changed.set()

    async def _poll(self) -> None:
        """Note what changed in the last seconds and was not reported yet."""
        now, is_first = asyncio.get_running_loop().time(), not self._marks
        newest = (await self._database.fetch(NEWEST))[0][0]
        if not is_first and newest == self._marks[0][1] == self._marks[-1][1]:
            return
        self._marks.append((now, max(0, newest - EARLIER_EVENTS) if is_first else newest))
        while len(self._marks) > 1 and self._marks[1][0] < now - SETTLE_SECONDS:
            self._marks.popleft()
        since = self._marks[0][1]
        rows = await self._database.read(lambda db: db.query(CHANGED_SINCE, (since,)))
        found = {str(stream): int(seq) for stream, seq in rows}
        for session_id, seq in found.items():
            if not is_first and seq > self._reported.get(session_id, 0):
                self._note(session_id)
        # Older ones are not found again.
        self._reported = {each: max(seq, self._reported.get(each, 0)) for each, seq in found.items()}

    async def _send(self) -> None:
        self._has_changed.clear()
        changed, self._changed = list(self._changed), {}
        if not changed or not self._watchers:
            return
        try:
            sessions = await self._database.read(lambda db: self._read_all(db, changed))
        except StoreError:
            self._changed = dict.fromkeys(changed) | self._changed
            self._has_changed.set()
            raise
        for session_id in changed:
            data = {"session": sessions.get(session_id)}
            frame = make_frame(SESSION_CHANGED, data, session_id=session_id)
            for watcher in tuple(self._watchers):
                watcher.deliver(frame)

    def _read_all(self, connection: DbConnection, changed: Sequence[str]) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for begin in range(0, len(changed), PAGE):
            found |= self._read(connection, changed[begin : begin + PAGE])
        return found
