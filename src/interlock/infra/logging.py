"""The process's own log: structured lines on stderr, never on stdout, redacted before they leave."""

import logging
import sys
from collections.abc import Callable, MutableMapping
from typing import Any, TextIO, cast

import structlog

from interlock.infra.lossy import Lossy
from interlock.infra.text import json_value, visible

Redact = Callable[[Any], Any]


class _RedactedLines(logging.Formatter):
    def __init__(self, redact: Redact) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return visible(str(self._redact(super().format(record))), lines=True)


def _harmless(value: Any) -> Any:
    return visible(value, lines=True) if isinstance(value, str) else value


def configure_logging(level: str, *, redact: Redact, as_json: bool) -> None:
    """Route every structlog line to stderr; `redact` sees all of it before it is rendered."""

    def redact_values(
        _logger: object, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        # As plain values first: what is only made a text when it is printed would not be seen here.
        safe = redact(json_value(dict(event)))
        return {visible(str(key)): _harmless(value) for key, value in safe.items()}

    stderr = cast("TextIO", Lossy(sys.stderr))
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            redact_values,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(file=stderr),
        cache_logger_on_first_use=False,
    )
    # What libraries log, the event loop among them, where nobody set up anything else for it.
    logging.lastResort = logging.StreamHandler(stderr)
    logging.lastResort.setLevel(logging.WARNING)
    logging.lastResort.setFormatter(_RedactedLines(redact))
