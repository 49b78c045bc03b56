"""One opened connection together with what must be put back when it has ended: both end once, and as one.

Whoever asks for the end waits for the same end. It is seen through whoever stops waiting for it, since a
server that could write must not leave a protected name changed because a call was cancelled.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from interlock.sandbox.guard import ProtectedGuard
from interlock.tools.blocking import CancelSignal, beside_the_loop
from interlock.tools.mcp.trouble import ServerTrouble

if TYPE_CHECKING:
    from interlock.tools.mcp.connection import Connection

Result = TypeVar("Result")


class Opened:
    """`guard` is None for a server that cannot write. `on_ended` hears of the end, when all is put back."""

    def __init__(
        self,
        connection: "Connection",
        guard: ProtectedGuard | None,
        on_ended: Callable[["Opened"], None],
    ) -> None:
        self.connection = connection
        self.in_use = 0
        # Calls that nobody waits for any more.
        self.abandoned = 0
        # What was put back, once it has ended.
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
        """Remember first. If it comes to nothing, it has ended when this raises."""
        try:
            if self._guard is not None:
                await beside_the_loop(CancelSignal(), self._guard.remember)
            if self._ending is not None:
                raise ServerTrouble(self.connection.reason)
            await self.connection.open()
        except BaseException as error:
            await self.end(str(error) or "it was stopped")
            raise

    async def end(self, reason: str) -> None:
        """Over, and everything put back. A cancellation of the one who waits is passed on after that."""
        if self._ending is None:
            self.connection.end(reason)
            self._ending = asyncio.ensure_future(self._end())
        await seen_through(self._ending)

    async def _end(self) -> None:
        try:
            await seen_through(asyncio.ensure_future(self.connection.close()))
        finally:
            guard, self._guard = self._guard, None
            try:
                if guard is not None:
                    await beside_the_loop(CancelSignal(), lambda: self._put_back(guard))
            finally:
                self._on_ended(self)

    def _put_back(self, guard: ProtectedGuard) -> None:
        self.restored = guard.restore()


async def seen_through(work: "asyncio.Future[Result]") -> Result:
    """The result of work that goes on, and is waited for, whoever cancels the waiting."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not work.cancelled():
            work.exception()
        raise cancelled
    return work.result()
