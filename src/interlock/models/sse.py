"""Reads server-sent events from bytes that come in any pieces."""

# One event of a model is a few hundred bytes; a server that sends more than this in one is broken.
MAX_EVENT_BYTES = 8 * 1024 * 1024


class TooLong(ValueError):
    """An event did not end within the bound."""


class EventReader:
    """`feed` it bytes; it gives the data of each event that has ended."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        # Pieces of a line that has not ended: joined once, however many there are.
        self._held: list[bytes] = []
        self._data: list[bytes] = []
        self._size = 0
        self._is_first = True

    def feed(self, piece: bytes) -> list[bytes]:
        if b"\n" not in piece:
            self._held.append(piece)
            self._count(len(piece))
            return []
        if self._held:
            self._held.append(piece)
            piece = b"".join(self._held)
            self._held = []
        lines = piece.split(b"\n")
        if rest := lines.pop():
            self._held = [rest]
        events = self._events(lines)
        self._size = sum(map(len, self._data))
        self._count(len(rest))
        return events

    def finish(self) -> list[bytes]:
        """What a server leaves that closes without the empty line."""
        lines, self._held = [b"".join(self._held), b""], []
        return self._events(lines)

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > self._max_event_bytes:
            raise TooLong

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
            elif line.startswith(b"data:"):
                data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            # Comments keep a connection alive; other fields mean nothing here.
        return events
