"""A lock per name: work on the same name runs serially, on different names concurrently."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class KeyedLock:
    """Holds no entry for a name without waiters."""

    def __init__(self) -> None:
        self._waiting: dict[str, int] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(name, asyncio.Lock())
        self._waiting[name] = self._waiting.get(name, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._waiting[name], self._locks[name]
