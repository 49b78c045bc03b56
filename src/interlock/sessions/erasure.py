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
from interlock.db.leases import IS_LIVE, session_lease
from interlock.log.erasure import erase_stream
from interlock.log.hash_chain import now_us
from interlock.log.kinds import SYSTEM_STREAM, LogErased, merge_payload
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
# Calls of programs and of `interlock tool call` belong to no task, and no worker holds their session.
OPEN_CALLS = """
SELECT time_us, facts FROM events
WHERE stream = ? AND kind = 'tool_call.started' AND id NOT IN (
    SELECT parent FROM events WHERE stream = ? AND parent IS NOT NULL AND kind IN
        ('tool_call.completed', 'tool_call.failed', 'tool_call.denied', 'tool_call.interrupted'))
"""
# Files outside the store are erased for these.
CLOSED = "SELECT stream FROM stream_heads WHERE closed_us IS NOT NULL"


class SessionEraser:
    def __init__(
        self,
        database: Database,
        log: EventLog,
        forgetting: Sequence[Callable[[str], None]] = (),
        *,
        statements: Sequence[str] = (),
    ) -> None:
        """Each of `forgetting` erases its files of a session, or raises `OSError`.

        `statements` erase the rows of a session that follow from no event.
        """
        self._database = database
        self._events = log
        self._forgetting = forgetting
        self._statements = statements
        self._threads = DaemonThreadPool("interlock-erasure")

    async def is_deleted(self, session_id: str) -> bool:
        return (await self._database.read(lambda db: _state(db, session_id)))[0]

    async def erase(self, session_id: str, *, who: str, wait_seconds: float = 0.0) -> LogErased:
        """Erase the content of a deleted session, once no call of it runs any more."""
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                told = await self._events.transact(
                    SYSTEM_STREAM, lambda unit: self._erase(unit, session_id, who), on_full_disk=True
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

    def _erase(self, transaction: Transaction, session_id: str, who: str) -> LogErased:
        """One transaction on the system stream: if it is interrupted, all of the content stays."""
        transaction.next_seq()
        connection, projections = transaction.connection, self._events.projections
        is_deleted, is_erased = _state(connection, session_id)
        if not is_deleted:
            raise UserError(f"session {session_id} is not deleted; only a deleted session can be erased")
        if is_erased:
            raise UserError(f"session {session_id} is already erased")
        # Locks the stream, so that all erased content is covered.
        transaction.on(session_id).next_seq()
        if projections.is_at_work(connection, session_id) or _has_running_call(connection, session_id):
            raise SessionBusy(
                f"a call of session {session_id} is still running; erase the session when it has "
                "ended (if its worker is gone, it ends when a worker runs again)"
            )
        for statement in self._statements:
            connection.change(statement, (session_id,))
        return erase_stream(transaction, projections, session_id, who)

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


def _has_running_call(connection: DbConnection, session_id: str) -> bool:
    # A worker holds the session for as long as a call of it runs.
    if connection.query(IS_LIVE, (session_lease(session_id),)):
        return True
    for time_us, facts in connection.query(OPEN_CALLS, (session_id, session_id)):
        seconds = merge_payload(facts, None).get("timeout_seconds", 0.0) + LOST_AFTER_SECONDS
        if now_us() < time_us + seconds * 1_000_000:
            return True
    return False
