"""Whether and when a failed turn is retried."""

from interlock.config.limits import TaskLimitSettings
from interlock.core.aio import Backoff
from interlock.log.task_events import RetryExhausted, RetryScheduled
from interlock.models.provider import ModelError


class TurnRetries:
    """The retries of one turn: after 1, 2, 4 … 30 seconds, or as long as the server asks if that is longer.

    A wait that the server asks for is never shortened: if it exceeds the operator's limit, the turn is not
    retried.
    """

    def __init__(self, limits: TaskLimitSettings) -> None:
        self._limits = limits
        self._backoff = Backoff(limits.retry_seconds, limits.max_retry_seconds)
        self._scheduled = 0

    def next_delay(self, error: ModelError) -> float | None:
        """Seconds to wait, or None: this model is not asked again."""
        limits = self._limits
        if not error.fault.is_transient or self._scheduled >= limits.max_retries:
            return None
        delay = self._backoff.next_seconds()
        asked = error.retry_after_seconds
        if asked is not None and asked > delay:
            if asked > limits.max_retry_after_seconds:
                return None
            delay = asked
        self._scheduled += 1
        return delay

    def scheduled(self, error: ModelError, delay_seconds: float) -> RetryScheduled:
        return RetryScheduled(
            attempt=self._scheduled,
            delay_seconds=delay_seconds,
            error_class=error.fault.value,
            error=str(error),
        )

    def exhausted(self, error: ModelError) -> RetryExhausted:
        return RetryExhausted(attempts=self._scheduled + 1, error_class=error.fault.value, error=str(error))
