"""The sandbox that servers run in: the runtime's own, or one that is chosen when a server needs it."""

import asyncio
from collections.abc import Awaitable, Callable

from interlock.sandbox.backend_selection import BackendSelection


class SandboxProvider:
    """`given` is None where nobody looked for a sandbox, as for a command that runs nothing."""

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
        """Only what was chosen here."""
        chosen, self._chosen = self._chosen, None
        if chosen is not None and chosen.backend is not None:
            await chosen.backend.close()
