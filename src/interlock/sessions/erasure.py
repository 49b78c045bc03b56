"""Erases the content of deleted sessions, on an operator's request; retention does so by age.

Facts and hashes stay, and a `log.erased` in the system stream names the operator: `events verify` reports
missing content that no such event covers.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from interlock.core.errors import SessionBusy, SessionNotFound, StoreError, UserError
from interlock.core.logging import StructuredLogger
from interlock.core.threads import DaemonThreadPool
from interlock.db.database import Database
from interlock.db.driver import DbConnection
from interlock.db.leases import LIVE, session_lease
from interlock.log.hash_chain import now_us
from interlock.log.kinds import IS_MESSAGE, SYSTEM_STREAM, LogErased, merge_payload
from interlock.log.retention import number_ranges
from interlock.log.writer import EventLog, Transaction

_log = StructuredLogger(__name__)

HOUR_SECONDS = 3600.0
POLL_SECONDS = 0.25
# So long after its time-out a call without an outcome counts as lost with its process.
LOST_AFTER_SECONDS = 60.0

SESSION = """
SELECT s.deleted_us IS NOT NULL, h.closed_us IS NOT NULL
FROM sessions s JOIN stream_heads h ON h.stream = s.id WHERE s.id = ?
"""
# A worker holds the session for as long as a call of it runs.
IS_AT_WORK = f"""
SELECT 1 FROM tasks WHERE session_id = ? AND status IN ('queued', 'running', 'waiting')
UNION SELECT 1 FROM leases WHERE name = ? AND {LIVE}
"""  # noqa: S608
# Calls of programs and of `interlock tool call` belong to no task, and no worker holds their session.
OPEN_CALLS = """
SELECT time_us, facts FROM events
WHERE stream = ? AND kind = 'tool_call.started' AND id NOT IN (
    SELECT parent FROM events WHERE stream = ? AND parent IS NOT NULL AND kind IN
        ('tool_call.completed', 'tool_call.failed', 'tool_call.denied', 'tool_call.interrupted'))
"""
# Content that retention erased before is covered by its own records.
TO_COVER = """
SELECT seq, time_us, content IS NOT NULL FROM events
WHERE stream = ? AND (content IS NOT NULL OR content_hash IS NULL) ORDER BY seq
"""
COUNT_MESSAGES = f"SELECT count(*) FROM events WHERE stream = ? AND {IS_MESSAGE}"  # noqa: S608 - a constant
ERASE_REST = (
    "DELETE FROM event_texts WHERE stream = ?",
    "UPDATE questions SET document = NULL, answer = NULL, close_reason = NULL WHERE session_id = ?",
    # Unfinished answers in a chat.
    "DELETE FROM telegram_questions WHERE session_id = ?",
    "UPDATE tasks SET reason = NULL WHERE session_id = ?",
    "UPDATE runs SET definition = NULL, input = NULL, reason = NULL WHERE session_id = ?",
    "UPDATE run_nodes SET summary = NULL, artifacts = NULL, reason = NULL WHERE session_id = ?",
    "UPDATE sessions SET title = '' WHERE id = ?",
    "UPDATE events SET content = NULL, salt = NULL WHERE stream = ?",
)
# A closed stream accepts no events. Files outside the store are erased for these streams.
CLOSE_STREAM = "UPDATE stream_heads SET closed_us = ? WHERE stream = ?"
CLOSED = "SELECT stream FROM stream_heads WHERE closed_us IS NOT NULL"


class SessionEraser:
    def __init__(
        self, database: Database, log: EventLog, forgetting: Sequence[Callable[[str], None]] = ()
    ) -> None:
        """Each of `forgetting` erases its files of a session, or raises `OSError`."""
        self._database = database
        self._events = log
        self._forgetting = forgetting
        self._threads = DaemonThreadPool("interlock-erasure")

    async def is_deleted(self, session_id: str) -> bool:
        return (await self._database.read(lambda db: _state(db, session_id)))[0]

    async def erase(self, session_id: str, *, who: str, wait_seconds: float = 0.0) -> LogErased:
        """Erase the content of a deleted session, once no call of it runs any more."""
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                told = await self._events.transact(
                    SYSTEM_STREAM, _erasing(session_id, who), on_full_disk=True
                )
                break
            except SessionBusy:
                if time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(POLL_SECONDS)
        await self._threads.start(lambda: self._forget_files(session_id))
        return told

    async def finish(self) -> None:
        """Erase the remaining files of erased sessions.

        Their rows are erased first: the process may have ended in between, a removal may have failed, or
        the files are on another machine than the one where the session was erased.
        """
        try:
            rows = await self._database.read(lambda db: db.query(CLOSED))
        except StoreError as error:
            _log.warning("erasures_not_finished", error=str(error))
            return

        def forget() -> None:
            for (session_id,) in rows:
                self._forget_files(session_id)

        await self._threads.start(forget)

    async def finish_hourly(self) -> None:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(HOUR_SECONDS)
            await self.finish()

    def _forget_files(self, session_id: str) -> None:
        for forget in self._forgetting:
            try:
                forget(session_id)
            except OSError as error:
                # The operator believes that it is gone.
                _log.error(
                    "files_not_erased",
                    session_id=session_id,
                    path=str(error.filename or ""),
                    error=error.strerror or str(error),
                    next="workers retry every hour; or remove it by hand",
                )


def _state(connection: DbConnection, session_id: str) -> tuple[bool, bool]:
    """Whether it is deleted, and whether it is erased."""
    rows = connection.query(SESSION, (session_id,))
    if not rows:
        raise SessionNotFound(f"there is no session {session_id}")
    return bool(rows[0][0]), bool(rows[0][1])


def _is_at_work(connection: DbConnection, session_id: str) -> bool:
    if connection.query(IS_AT_WORK, (session_id, session_lease(session_id))):
        return True
    for time_us, facts in connection.query(OPEN_CALLS, (session_id, session_id)):
        seconds = merge_payload(facts, None).get("timeout_seconds", 0.0) + LOST_AFTER_SECONDS
        if now_us() < time_us + seconds * 1_000_000:
            return True
    return False


def _erasing(session_id: str, who: str) -> Callable[[Transaction], LogErased]:
    """One transaction on the system stream: if it is interrupted, all of the content stays."""

    def work(transaction: Transaction) -> LogErased:
        transaction.next_seq()
        connection = transaction.connection
        is_deleted, is_erased = _state(connection, session_id)
        if not is_deleted:
            raise UserError(f"session {session_id} is not deleted; only a deleted session can be erased")
        if is_erased:
            raise UserError(f"session {session_id} is already erased")
        # Locks the stream, so that all erased content is covered.
        transaction.on(session_id).next_seq()
        if _is_at_work(connection, session_id):
            raise SessionBusy(
                f"a call of session {session_id} is still running; erase the session when it has "
                "ended (if its worker is gone, it ends when a worker runs again)"
            )
        covered = connection.query(TO_COVER, (session_id,))
        messages = connection.query(COUNT_MESSAGES, (session_id,))[0][0]
        for statement in ERASE_REST:
            connection.change(statement, (session_id,))
        connection.change(CLOSE_STREAM, (now_us(), session_id))
        told = LogErased(
            who=who,
            of=session_id,
            # The clock of a machine that wrote some of it may be ahead of this one.
            before_us=max(now_us(), *(time_us for _, time_us, _ in covered)) + 1,
            events=sum(1 for *_, has_content in covered if has_content),
            messages=messages,
            ranges=number_ranges(seq for seq, *_ in covered),
        )
        transaction.record(told)
        return told

    return work
