"""What the process logs, as facts."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from interlock.core import logging as ours

LOGGER = logging.getLogger("interlock")
LAST_RESORT = logging.lastResort


@contextmanager
def capture_logs() -> Iterator[list[dict[str, Any]]]:
    heard: list[dict[str, Any]] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append({"event": record.event, "log_level": record.levelname.lower(), **record.facts})

    ear, level = Ear(), LOGGER.level
    LOGGER.addHandler(ear)
    LOGGER.setLevel(logging.DEBUG)
    try:
        yield heard
    finally:
        LOGGER.removeHandler(ear)
        LOGGER.setLevel(level)


def reset_logging() -> None:
    """As in a process in which nobody has set up anything."""
    LOGGER.handlers.clear()
    LOGGER.propagate = True
    LOGGER.setLevel(logging.NOTSET)
    logging.lastResort = LAST_RESORT
    ours.set_log_redaction(lambda value: value)
