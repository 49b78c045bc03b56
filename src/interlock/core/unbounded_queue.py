"""Passes items from callbacks to one reader of the same event loop, without a queue's locks and limits."""

import asyncio
from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class UnboundedQueue(Generic[Item]):
    """`put` never waits; `next` waits for the oldest item."""

    __slots__ = ("_items", "_sleeping")

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._sleeping: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Item) -> None:
        self._items.append(item)
        if self._sleeping is not None and not self._sleeping.done():
            self._sleeping.set_result(None)

    async def next(self) -> Item:
        while not self._items:
            self._sleeping = asyncio.get_running_loop().create_future()
            await self._sleeping
        return self._items.popleft()
