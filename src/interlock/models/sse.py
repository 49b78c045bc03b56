"""Reads server-sent events from bytes cut anywhere."""

# One event of a model is a few hundred bytes; a server that sends more than this in one is broken.
MAX_EVENT_BYTES = 8 * 1024 * 1024


class SseEventTooLong(ValueError):
    """An event did not end within the limit."""


class SseReader:
    """`feed` it bytes; it returns the data of each complete event."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        # An incomplete line: it grows in place, however small the reads are.
        self._held = bytearray()
        self._data: list[bytes] = []
        # The size of the lines in `_data` as sent: empty ones take memory as well.
        self._data_bytes = 0
        self._is_first = True

    def feed(self, piece: bytes) -> list[bytes]:
        if b"\n" not in piece:
            self._held += piece
            self._bound()
            return []
        if self._held:
            piece = bytes(self._held) + piece
        lines = piece.split(b"\n")
        self._held = bytearray(lines.pop())
        events = self._events(lines)
        self._bound()
        return events

    def finish(self) -> list[bytes]:
        """The event left by a server that closes without the empty line."""
        lines, self._held = [bytes(self._held), b""], bytearray()
        return self._events(lines)

    def _bound(self) -> None:
        if self._data_bytes + len(self._held) > self._max_event_bytes:
            raise SseEventTooLong

    def _events(self, lines: list[bytes]) -> list[bytes]:
        if self._is_first:
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
            self._is_first = False
        events, data = [], self._data
        for line in lines:
            if line.endswith(b"\r"):
                line = line[:-1]  # noqa: PLW2901 - the line itself, without its end
            if not line:
                if data:
                    events.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
                    self._data_bytes = 0
            elif line.startswith(b"data:"):
                data.append(line[6:] if line.startswith(b"data: ") else line[5:])
                self._data_bytes += len(line)
            # Comments keep a connection alive; other fields mean nothing here.
        return events
