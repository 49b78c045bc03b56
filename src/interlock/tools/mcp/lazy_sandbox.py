"""The sandbox of servers: the runtime's own, or one selected when a server first needs it."""

import asyncio
from collections.abc import Awaitable, Callable

from interlock.sandbox.backend_selection import BackendSelection


class LazySandbox:
    """`given` is None if no sandbox was selected, as for commands that run nothing."""

    def __init__(
        self, given: BackendSelection | None, choose: Callable[[], Awaitable[BackendSelection]]
    ) -> None:
        self._given = given
        self._choose = choose
        self._chosen: BackendSelection | None = None
        self._choosing = asyncio.Lock()

    async def choice(self) -> BackendSelection:
        if self._given is not None:
            return self._given
        async with self._choosing:
            if self._chosen is None:
                self._chosen = await self._choose()
            return self._chosen

    async def close(self) -> None:
        """Close only what was selected here."""
        chosen, self._chosen = self._chosen, None
        if chosen is not None and chosen.backend is not None:
            await chosen.backend.close()
