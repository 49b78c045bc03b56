"""All open sockets: how many there may be, and which of them have to go."""

import asyncio
from collections.abc import Awaitable, Callable

from interlock.gateway.auth import Who
from interlock.gateway.connection import Connection
from interlock.gateway.protocol import Close
from interlock.infra.errors import InterlockError
from interlock.infra.logging import Log

_log = Log(__name__)

CHECK_SECONDS = 1.0
# A client that has taken nothing for so long is not there any more.
STUCK_SECONDS = 20.0


class Sockets:
    def __init__(self, still_valid: Callable[[Who], Awaitable[bool]], *, most: int) -> None:
        self._still_valid = still_valid
        self._most = most
        self._open: dict[Connection, asyncio.Task[object] | None] = {}
        self.is_stopping = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def is_full(self) -> bool:
        return len(self._open) >= self._most

    async def serve(self, connection: Connection) -> None:
        self._open[connection] = asyncio.current_task()
        try:
            await connection.run()
        finally:
            del self._open[connection]

    def close_all(self) -> None:
        self.is_stopping = True
        for connection in tuple(self._open):
            connection.close(Close.stopping)

    def send_away(self, credential_id: str) -> None:
        for connection in tuple(self._open):
            if connection.who.credential_id == credential_id:
                connection.close(Close.revoked)

    async def run(self) -> None:
        """Look after them: whoever was let in is sent away once that does not hold any more."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for connection, task in tuple(self._open.items()):
                if connection.is_stuck(STUCK_SECONDS) and task is not None:
                    connection.close(Close.too_slow)
                    task.cancel()
            try:
                await self._send_away_the_revoked()
            except InterlockError as error:
                _log.warning("credentials_not_checked", error=str(error))

    async def _send_away_the_revoked(self) -> None:
        known: dict[str, bool] = {}
        for connection in tuple(self._open):
            who = connection.who
            if who.credential_id not in known:
                known[who.credential_id] = await self._still_valid(who)
            if not known[who.credential_id]:
                connection.close(Close.revoked)
