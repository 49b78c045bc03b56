"""The process's own log: named events with facts, redacted before they are emitted.

Lines go through the standard `logging`, under the name of their module: a program that embeds Interlock
receives them as from any library. The command line shows them on stderr, never on stdout.
structlog is not used: it has one configuration per process, which would change an embedding program's log.
"""

import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TextIO, cast

import orjson

from interlock.core.best_effort_stream import BestEffortStream
from interlock.core.text import escape_control_characters, to_json_value

Redact = Callable[[Any], Any]

_ROOT = "interlock"
_COLORS = {"DEBUG": "2", "INFO": "32", "WARNING": "33", "ERROR": "31"}
# Characters that need no quotes; any other text is quoted.
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:/@+%*")

_redact: Redact = lambda value: value  # noqa: E731


def set_log_redaction(redact: Redact) -> None:
    """Redact everything that is logged from now on with `redact`."""
    global _redact  # noqa: PLW0603 - a process has one log
    _redact = redact


class StructuredLogger:
    """A module's logger."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, **facts: Any) -> None:
        self._write(logging.DEBUG, event, None, facts)

    def info(self, event: str, **facts: Any) -> None:
        self._write(logging.INFO, event, None, facts)

    def warning(self, event: str, *, exc_info: BaseException | None = None, **facts: Any) -> None:
        self._write(logging.WARNING, event, exc_info, facts)

    def error(self, event: str, *, exc_info: BaseException | None = None, **facts: Any) -> None:
        self._write(logging.ERROR, event, exc_info, facts)

    def _write(self, level: int, event: str, error: BaseException | None, facts: Mapping[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            # As plain values first: a value that becomes text only when shown would escape redaction.
            safe = _redact(to_json_value({"event": event, **facts}))
            name = escape_control_characters(str(safe.pop("event")))
            line = " ".join(
                [name, *(f"{escape_control_characters(str(key))}={_shown(safe[key])}" for key in safe)]
            )
            if error is not None:
                line += "\n" + escape_control_characters(str(_redact(_format_traceback(error))), lines=True)
            self._logger.log(level, "%s", line, extra={"event": name, "facts": safe}, stacklevel=3)


def _shown(value: Any) -> str:
    if isinstance(value, str) and value and _PLAIN.issuperset(value):
        return value
    return escape_control_characters(orjson.dumps(value).decode())


def _format_traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip("\n")


class _OwnFormatter(logging.Formatter):
    """Interlock's own records, with time and level."""

    def __init__(self, *, colors: bool) -> None:
        super().__init__()
        self._colors = colors

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        level = f"{record.levelname.lower():7}"
        if self._colors:
            level = f"\x1b[{_COLORS.get(record.levelname, '31')}m{level}\x1b[0m"
        return f"{seconds}.{int(record.msecs):03}Z {level} {record.getMessage()}"


class _LibraryFormatter(logging.Formatter):
    """Records of libraries and the event loop, which are not redacted yet."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return escape_control_characters(str(_redact(super().format(record))), lines=True)


def log_to_stderr(level: str) -> None:
    """Show records from `level` on, on stderr. Only for a process that is Interlock's alone."""
    stderr = cast("TextIO", BestEffortStream(sys.stderr))
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty()
    ours = logging.getLogger(_ROOT)
    ours.setLevel(level.upper())
    ours.propagate = False
    ours.handlers = [logging.StreamHandler(stderr)]
    ours.handlers[0].setFormatter(_OwnFormatter(colors=not is_plain))
    # For loggers of others that have no handler.
    logging.lastResort = logging.StreamHandler(stderr)
    logging.lastResort.setLevel(logging.WARNING)
    logging.lastResort.setFormatter(_LibraryFormatter())
