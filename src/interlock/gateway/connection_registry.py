"""The open WebSockets: their limit, and closing the stuck and the revoked ones."""

import asyncio
from collections.abc import Awaitable, Callable

from interlock.core.errors import InterlockError
from interlock.core.logging import StructuredLogger
from interlock.gateway.auth import ClientIdentity
from interlock.gateway.connection import WebSocketConnection
from interlock.gateway.protocol import CloseReason

_log = StructuredLogger(__name__)

CHECK_SECONDS = 1.0
# A client that has read nothing for this long is considered dead.
STUCK_SECONDS = 20.0


class ConnectionRegistry:
    def __init__(self, still_valid: Callable[[ClientIdentity], Awaitable[bool]], *, most: int) -> None:
        self._still_valid = still_valid
        self._most = most
        self._open: dict[WebSocketConnection, asyncio.Task[object] | None] = {}
        self.is_stopping = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def is_full(self) -> bool:
        return len(self._open) >= self._most

    async def serve(self, connection: WebSocketConnection) -> None:
        self._open[connection] = asyncio.current_task()
        try:
            await connection.run()
        finally:
            del self._open[connection]

    def close_all(self) -> None:
        self.is_stopping = True
        for connection in tuple(self._open):
            connection.close(CloseReason.stopping)

    def close_by_credential(self, credential_id: str) -> None:
        for connection in tuple(self._open):
            if connection.who.credential_id == credential_id:
                connection.close(CloseReason.revoked)

    async def run(self) -> None:
        """Close stuck connections, and those whose credential was revoked, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for connection, task in tuple(self._open.items()):
                if connection.is_stuck(STUCK_SECONDS) and task is not None:
                    connection.close(CloseReason.too_slow)
                    task.cancel()
            try:
                await self._close_revoked()
            except InterlockError as error:
                _log.warning("credentials_not_checked", error=str(error))

    async def _close_revoked(self) -> None:
        known: dict[str, bool] = {}
        for connection in tuple(self._open):
            who = connection.who
            if who.credential_id not in known:
                known[who.credential_id] = await self._still_valid(who)
            if not known[who.credential_id]:
                connection.close(CloseReason.revoked)
