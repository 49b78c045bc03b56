"""What is only said in passing: it may be lost, and nothing else with it."""

from contextlib import suppress
from typing import Any, TextIO


class BestEffortStream:
    """A stream that drops what its disk or its reader does not take.

    Whoever logs does so in the middle of something else, often of a failure, which must not become another.
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
