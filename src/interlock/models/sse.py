"""Reads server-sent events from bytes that come in any pieces."""

from collections.abc import Iterator

# One event of a model is a few hundred bytes; a server that sends more than this in one is broken.
MAX_EVENT_BYTES = 8 * 1024 * 1024


class TooLong(ValueError):
    """An event did not end within the bound."""


class EventReader:
    """`feed` it bytes; it gives the data of each event that has ended."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0
        self._is_first = True

    def feed(self, piece: bytes) -> Iterator[bytes]:
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) + self._size > self._max_event_bytes:
            raise TooLong
        for line in lines:
            if (data := self._line(line.removesuffix(b"\r"))) is not None:
                yield data

    def finish(self) -> Iterator[bytes]:
        """What a server leaves that closes without the empty line."""
        for line in (self._rest, b""):
            if (data := self._line(line.removesuffix(b"\r"))) is not None:
                yield data
        self._rest = b""

    def _line(self, line: bytes) -> bytes | None:
        if self._is_first:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._is_first = False
        if not line:
            if not self._data:
                return None
            data, self._data, self._size = b"\n".join(self._data), [], 0
            return data
        if line.startswith(b"data:"):
            value = line[5:].removeprefix(b" ")
            self._size += len(value)
            if self._size > self._max_event_bytes:
                raise TooLong
            self._data.append(value)
        # Comments keep a connection alive; other fields mean nothing here.
        return None
