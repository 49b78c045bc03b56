"""A connection together with the restore after its end: both happen once, as one.

All callers of `end` wait for the same end. It completes even if they are cancelled, since a server that
could write must not leave a protected name changed.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from interlock.core.aio import finish_uncancelled
from interlock.sandbox.protected_snapshot import ProtectedSnapshot
from interlock.tools.mcp.errors import McpServerError
from interlock.tools.threads import CancelSignal, run_in_thread

if TYPE_CHECKING:
    from interlock.tools.mcp.connection import McpConnection

Result = TypeVar("Result")


class RestoringConnection:
    """`guard` is None for a server that cannot write. `on_ended` is called after the restore."""

    def __init__(
        self,
        connection: "McpConnection",
        guard: ProtectedSnapshot | None,
        on_ended: Callable[["RestoringConnection"], None],
    ) -> None:
        self.connection = connection
        self.in_use = 0
        # Calls whose callers stopped waiting.
        self.abandoned = 0
        # What was restored, once it has ended.
        self.restored: list[str] = []
        self._guard = guard
        self._on_ended = on_ended
        self._ending: asyncio.Task[None] | None = None

    @property
    def is_usable(self) -> bool:
        return self._ending is None and self.connection.is_open

    @property
    def is_ending(self) -> bool:
        return self._ending is not None

    async def open(self) -> None:
        """Take the snapshot, then open. On an error it has ended when this raises."""
        try:
            if self._guard is not None:
                await run_in_thread(CancelSignal(), self._guard.remember)
            if self._ending is not None:
                raise McpServerError(self.connection.reason)
            await self.connection.open()
        except BaseException as error:
            await self.end(str(error) or "it was stopped")
            raise

    async def end(self, reason: str) -> None:
        """End and restore. A cancellation of the caller is raised after that."""
        if self._ending is None:
            self.connection.end(reason)
            self._ending = asyncio.ensure_future(self._end())
        await finish_uncancelled(self._ending)

    async def _end(self) -> None:
        try:
            await finish_uncancelled(asyncio.ensure_future(self.connection.close()))
        finally:
            guard, self._guard = self._guard, None
            try:
                if guard is not None:
                    await run_in_thread(CancelSignal(), lambda: self._put_back(guard))
            finally:
                self._on_ended(self)

    def _put_back(self, guard: ProtectedSnapshot) -> None:
        self.restored = guard.restore()
