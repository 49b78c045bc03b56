"""Creates, changes and reads sessions and their messages; determines the mode of a session.

There is no way to change a mode here. Every doubt about a mode is resolved as `chat_safe`.
"""

import re
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from interlock.config.modes import ToolMode
from interlock.core.errors import ModeNotOpen, SessionNotFound, UserError
from interlock.core.logging import StructuredLogger
from interlock.core.text import sanitize_text
from interlock.db.database import Database
from interlock.db.driver import DbConnection, Row
from interlock.log.kinds import (
    SYSTEM_STREAM,
    SessionArchived,
    SessionCreated,
    SessionDeleted,
    SessionModelChanged,
    SessionRenamed,
)
from interlock.log.stream_appender import NO_SCOPE, EventScope
from interlock.log.task_events import ContextCompactRequested
from interlock.log.writer import EventLog, Transaction
from interlock.models.provider import Reasoning
from interlock.redaction.redactor import Redactor
from interlock.sessions.models import (
    EXEC,
    TOOL_CALL,
    Message,
    Role,
    Session,
    SessionKind,
    SessionListFilter,
    session_from_row,
)
from interlock.sessions.storable_message import StorableMessage, make_storable, require_session
from interlock.sessions.transcript import in_call_order, in_given_order, read_messages

_log = StructuredLogger(__name__)

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_TITLE = 200

READ_MODE = "SELECT mode FROM sessions WHERE id = ? AND deleted_us IS NULL"

_SESSION_COLUMNS = """
SELECT s.id, s.kind, s.title, s.mode, s.opened_by, s.created_us, h.time_us, h.seq, s.archived_us,
    s.agent, s.model
FROM sessions s JOIN stream_heads h ON h.stream = s.id
WHERE s.deleted_us IS NULL
"""
READ_SESSION = f"{_SESSION_COLUMNS} AND s.id = ?"
LIST_SESSIONS = f"""
{_SESSION_COLUMNS} AND (1 = ? OR s.archived_us IS NULL)
    AND (? = 'all'
        OR ? = CASE WHEN s.opened_by IN ('{EXEC}', '{TOOL_CALL}') THEN 'commands' ELSE 'chats' END)
ORDER BY h.time_us DESC, h.stream DESC LIMIT ? OFFSET ?
"""

PRESENT_MODEL = "SELECT model FROM sessions WHERE id = ? AND deleted_us IS NULL"


def new_session_id() -> str:
    return f"s_{secrets.token_hex(8)}"


def read_sessions(
    connection: DbConnection,
    group: SessionListFilter,
    *,
    include_archived: bool,
    limit: int,
    offset: int = 0,
) -> list[Session]:
    """The sessions of the group, the most recently used first."""
    parameters = (1 if include_archived else 0, group.value, group.value, limit, offset)
    return [session_from_row(row) for row in connection.query(LIST_SESSIONS, parameters)]


def read_sessions_by_id(connection: DbConnection, session_ids: Sequence[str]) -> list[Session]:
    """Those of the sessions that exist."""
    places = ", ".join("?" for _ in session_ids)
    sql = f"{_SESSION_COLUMNS} AND s.id IN ({places})"
    return [session_from_row(row) for row in connection.query(sql, tuple(session_ids))]


class SessionManager:
    def __init__(
        self,
        database: Database,
        log: EventLog,
        redactor: Redactor,
        *,
        default_mode: ToolMode,
        open_modes: frozenset[ToolMode],
    ) -> None:
        self._database = database
        self._events = log
        self._redactor = redactor
        self._default_mode = default_mode
        self._open_modes = open_modes | {ToolMode.chat_safe}

    # -- life cycle --

    async def create(
        self,
        *,
        opened_by: str,
        kind: SessionKind = SessionKind.chat,
        title: str = "",
        mode: ToolMode | None = None,
        session_id: str | None = None,
        agent: str | None = None,
        model: str | None = None,
    ) -> Session:
        """Create a session. Only a mode that is open in this process is accepted."""
        identity = session_id or new_session_id()
        work = self.creating(
            identity, opened_by=opened_by, kind=kind, title=title, mode=mode, agent=agent, model=model
        )
        return await self._events.transact(identity, work)

    def creating(
        self,
        identity: str,
        *,
        opened_by: str,
        kind: SessionKind = SessionKind.chat,
        title: str = "",
        mode: ToolMode | None = None,
        agent: str | None = None,
        model: str | None = None,
    ) -> Callable[[Transaction], Session]:
        """The work that creates a session, for a transaction on its stream."""
        if agent is not None and kind is SessionKind.chat:
            kind = SessionKind.agent
        if not _ID.fullmatch(identity) or identity == SYSTEM_STREAM:
            raise UserError(f"'{identity}' is not a valid session id")
        first_mode = mode or self._default_mode
        if first_mode not in self._open_modes:
            raise ModeNotOpen(f"{first_mode} mode is not open on this deployment")
        safe_title, opener = self._title(title), self._title(opened_by)

        def work(transaction: Transaction) -> Session:
            transaction.open_stream()
            transaction.record(
                SessionCreated(
                    session_kind=kind.value,
                    title=safe_title,
                    mode=first_mode.value,
                    opened_by=opener,
                    agent=agent or "",
                    model=model or "",
                )
            )
            return session_from_row(transaction.connection.query(READ_SESSION, (identity,))[0])

        return work

    async def get(self, session_id: str) -> Session:
        rows = await self._database.fetch(READ_SESSION, (session_id,))
        if not rows:
            raise SessionNotFound(f"there is no session {session_id}")
        return session_from_row(rows[0])

    async def list_sessions(
        self,
        *,
        group: SessionListFilter = SessionListFilter.chats,
        include_archived: bool = False,
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[Session]:
        """Sessions by their last activity; archived ones only on request."""
        return await self._database.read(
            lambda db: read_sessions(
                db, group, include_archived=include_archived, limit=limit, offset=offset
            )
        )

    async def rename(self, session_id: str, title: str, *, who: str) -> None:
        safe_title = self._title(title)

        def work(transaction: Transaction) -> None:
            require_session(transaction.connection, session_id)
            transaction.record(SessionRenamed(who=who, title=safe_title))

        await self._events.transact(session_id, work)

    async def choose_model(self, session_id: str, model: str | None, *, who: str) -> None:
        """Set the model from the next task on; None is the default model."""

        def work(transaction: Transaction) -> None:
            rows = transaction.connection.query(PRESENT_MODEL, (session_id,))
            if not rows:
                raise SessionNotFound(f"there is no session {session_id}")
            before = rows[0][0]
            if before != model:
                transaction.record(
                    SessionModelChanged(who=who, from_model=before or "", to_model=model or "")
                )

        await self._events.transact(session_id, work)

    async def request_compaction(self, session_id: str, *, who: str) -> None:
        """Have older messages summarised at the start of the next task."""

        def work(transaction: Transaction) -> None:
            require_session(transaction.connection, session_id)
            transaction.record(ContextCompactRequested(who=who))

        await self._events.transact(session_id, work)

    async def archive(self, session_id: str, *, who: str, archived: bool = True) -> None:
        def work(transaction: Transaction) -> None:
            require_session(transaction.connection, session_id)
            transaction.record(SessionArchived(who=who, archived=archived))

        await self._events.transact(session_id, work)

    def deleting(self, session_id: str, *, who: str) -> Callable[[Transaction], None]:
        """The work that hides a session, for a transaction. Nothing of it is erased.

        `TaskService.delete_session` cancels its tasks in the same transaction.
        """

        def work(transaction: Transaction) -> None:
            require_session(transaction.connection, session_id)
            transaction.record(SessionDeleted(who=who))

        return work

    # -- messages --

    async def append_message(
        self,
        session_id: str,
        role: Role,
        content: str,
        *,
        tool_calls: Sequence[dict[str, Any]] | None = None,
        tool_call_id: str | None = None,
        scope: EventScope = NO_SCOPE,
        token: int | None = None,
    ) -> Message:
        """Add to the transcript: numbered, fenced, and recorded by an event, all or nothing.

        After a session was deleted, only the worker that holds it can add to it.
        """
        if token is None:
            await self.get(session_id)
        draft = self.draft(role, content, tool_calls=tool_calls, tool_call_id=tool_call_id)
        (recorded,) = await self._events.append(session_id, draft.event(), scope=scope, token=token)
        return draft.message(recorded.seq, recorded.time_us)

    def draft(
        self,
        role: Role,
        content: str,
        *,
        tool_calls: Sequence[dict[str, Any]] | None = None,
        tool_call_id: str | None = None,
        reasoning: Reasoning | None = None,
    ) -> StorableMessage:
        """A redacted message, to be written as an event or in the caller's transaction."""
        return make_storable(
            *(self._redactor, role, content),
            tool_calls=tool_calls,
            tool_call_id=tool_call_id,
            reasoning=reasoning,
        )

    async def transcript(self, session_id: str, *, after_seq: int = 0) -> list[Message]:
        """The messages for the model: all of them, tool results and denials included."""
        messages = await self._database.read(lambda db: read_messages(db, session_id, after_seq))
        return in_call_order(in_given_order(messages))

    async def history(self, session_id: str) -> list[Message]:
        """The messages for people: without tool results and empty messages."""
        messages = await self.transcript(session_id)
        return [message for message in messages if message.role is not Role.tool and message.content]

    # -- the mode --

    async def get_mode(self, session_id: str) -> ToolMode:
        """The session's mode within the modes that are open here; `chat_safe` in every doubt."""
        try:
            rows = await self._database.fetch(READ_MODE, (session_id,))
        except Exception as error:  # noqa: BLE001 - a mode that cannot be read must not stop a request
            _log.warning("mode_read_error", session_id=session_id, error=type(error).__name__)
            return ToolMode.chat_safe
        return self._judged(rows, session_id)

    def mode_of(self, session: Session) -> ToolMode:
        """The same for a session that was read already, for display: nothing is logged."""
        known = session.stored_mode in ToolMode.__members__ and ToolMode(session.stored_mode)
        return known if known and known in self._open_modes else ToolMode.chat_safe

    def mode_within(self, connection: DbConnection, session_id: str) -> ToolMode:
        """The same within the caller's transaction, so that the mode cannot change before it ends."""
        return self._judged(connection.query(READ_MODE, (session_id,)), session_id)

    def _judged(self, rows: Sequence[Row], session_id: str) -> ToolMode:
        if not rows:
            _log.warning("mode_read_error", session_id=session_id, error="no such session")
            return ToolMode.chat_safe
        value = rows[0][0]
        try:
            mode = ToolMode(value)
        except ValueError:
            _log.warning("invalid_mode_value", session_id=session_id, value=value)
            return ToolMode.chat_safe
        if mode not in self._open_modes:
            _log.warning(
                "mode_downgraded",
                session_id=session_id,
                value=mode.value,
                reason=f"{mode.value} mode is not open on this deployment",
            )
            return ToolMode.chat_safe
        return mode

    def _title(self, title: str) -> str:
        return self._redactor.text(sanitize_text(" ".join(title.split())))[:MAX_TITLE]
