"""The process's own log: structured lines on stderr, never on stdout, redacted before they leave."""

import logging
import sys
from collections.abc import Callable, MutableMapping
from typing import Any

import structlog

from interlock.infra.text import visible

Redact = Callable[[Any], Any]


def _harmless(value: Any) -> Any:
    return visible(value, lines=True) if isinstance(value, str) else value


def configure_logging(level: str, *, redact: Redact, as_json: bool) -> None:
    """Route every structlog line to stderr; `redact` sees each value before it is rendered."""

    def redact_values(
        _logger: object, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        return {visible(str(key)): _harmless(redact(value)) for key, value in event.items()}

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
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
