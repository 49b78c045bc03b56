"""The operator's limits for a task, a session and a day."""

import json
from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from interlock.config.settings_group import PositiveInt, SettingsGroup

_LONGEST_SECONDS = 30 * 86_400
_HIGHEST_PRICE = 1_000_000

Seconds = Annotated[float, Field(gt=0, le=_LONGEST_SECONDS)]
Money = Annotated[Decimal, Field(gt=0)]
Prices = dict[str, tuple[Decimal, Decimal]]


class TaskLimitSettings(SettingsGroup):
    """Limits that end a task which would run for ever or cost too much. An unset budget does not limit."""

    model_config = SettingsConfigDict(env_prefix="CONTROL_")

    max_turns: PositiveInt = 50
    max_wall_seconds: Seconds = 1800.0
    max_tokens: PositiveInt = 2_000_000
    max_session_tokens: PositiveInt | None = None
    max_day_tokens: PositiveInt | None = None

    prices: Annotated[Prices, NoDecode] = Field(default_factory=dict)
    max_cost: Money | None = None
    max_session_cost: Money | None = None
    max_day_cost: Money | None = None

    max_retries: Annotated[int, Field(ge=0, le=100)] = 5
    retry_seconds: Seconds = 1.0
    max_retry_seconds: Seconds = 30.0
    max_retry_after_seconds: Seconds = 120.0

    circuit_failures: PositiveInt = 5
    circuit_seconds: Seconds = 30.0

    max_repeats: Annotated[int, Field(ge=2)] = 3
    max_denials: PositiveInt = 3
    max_recent_denials: PositiveInt = 10
    recent_calls: Annotated[int, Field(gt=0, le=10_000)] = 50

    @field_validator("prices", mode="before")
    @classmethod
    def _priced(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            table = json.loads(value, parse_float=Decimal) if value.strip() else {}
        except ValueError:
            table = None
        if not isinstance(table, dict):
            raise ValueError('is not JSON such as {"model": [2.5, 10]}')
        return {model: _two_prices(model, prices) for model, prices in table.items()}

    @model_validator(mode="after")
    def _bounds_that_fit(self) -> "TaskLimitSettings":
        if self.retry_seconds > self.max_retry_seconds:
            raise ValueError("CONTROL_RETRY_SECONDS must not exceed CONTROL_MAX_RETRY_SECONDS")
        if self.max_recent_denials > self.recent_calls:
            raise ValueError("CONTROL_MAX_RECENT_DENIALS must not exceed CONTROL_RECENT_CALLS")
        for name in ("max_cost", "max_session_cost", "max_day_cost"):
            if getattr(self, name) is not None and not self.prices:
                raise ValueError(
                    f"CONTROL_{name.upper()} needs CONTROL_PRICES, because costs are unknown without prices"
                )
        return self


def _two_prices(model: str, prices: Any) -> tuple[Decimal, Decimal]:
    match prices:
        case [int() | Decimal() as given, int() | Decimal() as taken] if not (
            isinstance(given, bool) or isinstance(taken, bool)
        ):
            if 0 <= given <= _HIGHEST_PRICE and 0 <= taken <= _HIGHEST_PRICE:
                return Decimal(given), Decimal(taken)
    raise ValueError(
        f"'{model}' needs two prices from 0 to {_HIGHEST_PRICE}: per million input tokens and per "
        "million output tokens"
    )
