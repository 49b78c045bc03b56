"""Switches a session's mode: for people, among the modes the operator opened, recorded by an event."""

from collections.abc import Callable

from interlock.config.modes import ToolMode
from interlock.core.errors import ModeNotOpen, SessionNotFound
from interlock.log.kinds import SessionModeChanged
from interlock.log.writer import EventLog, Transaction

PRESENT_MODE = "SELECT mode FROM sessions WHERE id = ? AND deleted_us IS NULL"


class ModeSwitch:
    def __init__(self, log: EventLog, *, open_modes: frozenset[ToolMode]) -> None:
        self._events = log
        self._open_modes = open_modes | {ToolMode.chat_safe}

    async def switch(self, session_id: str, mode: ToolMode, *, who: str) -> ToolMode:
        """Store the session's mode. A task that has begun never gets a looser mode than it has; any other
        mode applies to it at once, from its next call on."""
        return await self._events.transact(session_id, self.switching(session_id, mode, who=who))

    def is_open(self, mode: ToolMode) -> bool:
        return mode in self._open_modes

    def switching(self, session_id: str, mode: ToolMode, *, who: str) -> Callable[[Transaction], ToolMode]:
        """The same as a part of the caller's transaction."""
        if mode not in self._open_modes:
            names = ", ".join(name for name in ToolMode if name in self._open_modes)
            raise ModeNotOpen(
                f"{mode} mode is not open on this deployment (open: {names}); "
                "the operator opens modes with SESSION_OPEN_MODES"
            )

        def work(transaction: Transaction) -> ToolMode:
            rows = transaction.connection.query(PRESENT_MODE, (session_id,))
            if not rows:
                raise SessionNotFound(f"there is no session {session_id}")
            before = str(rows[0][0])
            if before != mode.value:
                transaction.record(SessionModeChanged(who=who, from_mode=before, to_mode=mode.value))
            return mode

        return work
