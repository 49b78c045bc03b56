"""The limits of a task. Limit stops and their sentences are in `limit_stops.py`.

A limit is named after its field, and its variable after both: `max_turns` is `CONTROL_MAX_TURNS`.
"""

from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Self

from interlock.config.limits import TaskLimitSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlLimits:
    """Every limit of a task; `config/limits.py` has the same fields. None means no limit."""

    max_turns: int = 50
    max_wall_seconds: float = 1800.0
    max_tokens: int = 2_000_000
    max_session_tokens: int | None = None
    max_day_tokens: int | None = None
    max_cost: Decimal | None = None
    max_session_cost: Decimal | None = None
    max_day_cost: Decimal | None = None
    max_retries: int = 5
    retry_seconds: float = 1.0
    max_retry_seconds: float = 30.0
    max_retry_after_seconds: float = 120.0
    circuit_failures: int = 5
    circuit_seconds: float = 30.0
    max_repeats: int = 3
    max_denials: int = 3
    max_recent_denials: int = 10
    recent_calls: int = 50

    @classmethod
    def of(cls, settings: TaskLimitSettings) -> Self:
        return cls(**{field.name: getattr(settings, field.name) for field in fields(cls)})

    @property
    def need_usage_totals(self) -> bool:
        """Whether any limit covers more than the task, so that usage totals must be read."""
        return any(
            limit is not None
            for limit in (
                self.max_session_tokens,
                self.max_day_tokens,
                self.max_session_cost,
                self.max_day_cost,
            )
        )


LIMIT_NAMES = frozenset(field.name for field in fields(ControlLimits))
