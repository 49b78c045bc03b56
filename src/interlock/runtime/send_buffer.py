"""Messages waiting for a slow bus, merged where possible."""

import asyncio
from dataclasses import replace
from typing import Generic, TypeVar

from interlock.runtime.bus import BusMessage, TextAppended

T = TypeVar("T")

# Sessions with waiting messages. Beyond that the oldest is dropped: receivers resync or poll.
MAX_WAITING = 20_000
# A NATS message may have 1 MiB; a character takes at most 6 bytes.
MAX_PIECE_CHARS = 100_000


class SendBuffer(Generic[T]):
    """A buffer on one event loop. Adjacent deltas of one answer are merged."""

    def __init__(self) -> None:
        # Text by session; of all other messages, duplicates are merged.
        self._waiting: dict[str | BusMessage, list[BusMessage]] = {}
        self._released: list[T] = []
        self._some = asyncio.Event()
        # Deltas are arriving, so that waiting a little merges more of them.
        self.is_busy = False

    def put(self, message: BusMessage) -> None:
        while len(self._waiting) >= MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
        match message:
            case TextAppended():
                self._put_text(message, self._waiting.setdefault(message.session_id, []))
            case _:
                self._waiting[message] = [message]
        self._some.set()

    def let_go(self, thing: T) -> None:
        """Queue a resource of the connection for release."""
        self._released.append(thing)
        self._some.set()

    async def next(self) -> tuple[list[BusMessage], list[T]]:
        """Remove and return everything that waits."""
        await self._some.wait()
        self._some.clear()
        waiting, self._waiting = self._waiting, {}
        released, self._released = self._released, []
        messages = [message for some in waiting.values() for message in some]
        self.is_busy = any(isinstance(message, TextAppended) for message in messages)
        return messages, released

    def _put_text(self, piece: TextAppended, said: list[BusMessage]) -> None:
        if said and (joined := _joined(said[-1], piece)) is not None:
            said[-1] = joined
        else:
            said += _parts(piece)


def _joined(before: BusMessage, piece: TextAppended) -> TextAppended | None:
    """Both as one, if the second continues the first."""
    if (
        not isinstance(before, TextAppended)
        or (before.task_id, before.turn, before.part) != (piece.task_id, piece.turn, piece.part)
        or before.offset + len(before.text) != piece.offset
        or len(before.text) + len(piece.text) > MAX_PIECE_CHARS
    ):
        return None
    return replace(piece, offset=before.offset, text=before.text + piece.text)


def _parts(piece: TextAppended) -> list[BusMessage]:
    cuts = range(0, max(len(piece.text), 1), MAX_PIECE_CHARS)
    return [
        replace(piece, offset=piece.offset + cut, text=part)
        for cut in cuts
        if (part := piece.text[cut : cut + MAX_PIECE_CHARS]) or not cut
    ]
