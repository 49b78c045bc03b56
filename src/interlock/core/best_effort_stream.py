"""A text stream whose write errors are ignored, for logging."""

from contextlib import suppress
from typing import Any, TextIO


class BestEffortStream:
    """A stream that ignores write errors.

    Logging happens in the middle of other work, often while handling a failure, and must not add another
    one.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
