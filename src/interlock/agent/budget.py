"""Spending in tokens and money, and its limits.

What a session and a day have used comes from the table `usage`; a `TaskBudget` adds the turns since then.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain
from typing import Self

from interlock.agent.limits import LimitStop, out_of_budget, without_price
from interlock.config.limits import TaskLimitSettings
from interlock.core.token_usage import TokenUsage
from interlock.db.database import Database
from interlock.db.driver import DbConnection
from interlock.log.usage import read_session_usage, read_usage_since

_MILLION = 1_000_000
# Other sessions spend too: the totals are read again after this time.
FRESH_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a million tokens; all prices share one currency."""

    input: Decimal
    output: Decimal

    def cost(self, usage: TokenUsage) -> Decimal:
        return (self.input * usage.input_tokens + self.output * usage.output_tokens) / _MILLION


FREE = Price(Decimal(0), Decimal(0))


@dataclass(frozen=True, slots=True)
class UsageCost:
    """Tokens and their cost; `cost` is None once a model without a price took part."""

    tokens: int = 0
    cost: Decimal | None = Decimal(0)

    def __add__(self, other: "UsageCost") -> "UsageCost":
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return UsageCost(self.tokens + other.tokens, cost)


NO_COST = UsageCost()


@dataclass(frozen=True, slots=True)
class UsageTotals:
    """The session's and today's totals, this task's own turns included."""

    session: UsageCost = NO_COST
    day: UsageCost = NO_COST


class PriceTable:
    """Prices by model name, as in `ModelProvider.name` and the events."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = dict(prices)

    @classmethod
    def of(cls, rows: Mapping[str, tuple[Decimal, Decimal]], free: Iterable[str] = ()) -> Self:
        """Build the table from the settings. `free` are the built-in models, which cost nothing."""
        prices = {model: Price(given, taken) for model, (given, taken) in rows.items()}
        return cls(dict.fromkeys(free, FREE) | prices)

    def spent(self, usage: Mapping[str, TokenUsage]) -> UsageCost:
        """The total of these models."""
        total = NO_COST
        for model, used in usage.items():
            price = self._prices.get(model)
            cost = None if price is None else price.cost(used)
            total += UsageCost(used.input_tokens + used.output_tokens, cost)
        return total

    def knows(self, model: str) -> bool:
        return model in self._prices


def need_usage_totals(limits: TaskLimitSettings) -> bool:
    """Whether any limit covers more than the task, so that usage totals must be read."""
    return any(
        limit is not None
        for limit in (
            limits.max_session_tokens,
            limits.max_day_tokens,
            limits.max_session_cost,
            limits.max_day_cost,
        )
    )


class UsageTotalsReader:
    """Reads the usage totals that one task's limits need, again when they are old."""

    def __init__(
        self, database: Database, limits: TaskLimitSettings, prices: PriceTable, session_id: str
    ) -> None:
        self._database = database
        self._is_needed = need_usage_totals(limits)
        self._prices = prices
        self._session_id = session_id
        self._read_at: float | None = None

    async def history(self) -> UsageTotals | None:
        """The totals; None if no limit needs them, or the last ones are fresh enough."""
        now = time.monotonic()
        if not self._is_needed or (self._read_at is not None and now - self._read_at < FRESH_SECONDS):
            return None
        history = await self._database.read(self._read)
        self._read_at = now
        return history

    def _read(self, connection: DbConnection) -> UsageTotals:
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return UsageTotals(
            session=self._prices.spent(read_session_usage(connection, self._session_id)),
            day=self._prices.spent(read_usage_since(connection, int(midnight.timestamp()) * 1_000_000)),
        )


class TaskBudget:
    """One task's spending, against every limit on tokens and costs."""

    def __init__(self, limits: TaskLimitSettings, prices: PriceTable, model: str, spent: UsageCost) -> None:
        self._limits = limits
        self._needs_totals = need_usage_totals(limits)
        self._prices = prices
        self._model = model
        self._history: UsageTotals | None = None
        self._unlogged = NO_COST
        self.spent = spent

    def use_model(self, model: str) -> None:
        """Count later usage of the task as that model's."""
        self._model = model

    def add(self, usage: TokenUsage) -> None:
        self.add_others({self._model: usage})

    def add_others(self, usage: Mapping[str, TokenUsage]) -> None:
        """Add what other models used for this task."""
        more = self._prices.spent(usage)
        self.spent += more
        self._unlogged += more

    def exceeded(self, history: UsageTotals | None) -> LimitStop | None:
        """The first limit that is used up.

        Without a fresh `history`, the last one plus later usage counts.
        """
        if history is not None:
            self._history, self._unlogged = history, NO_COST
        totals = self._history
        if totals is None:
            if self._needs_totals:
                raise ValueError("a limit of the session or the day is set: say what was spent before")
            totals = UsageTotals()
        session, day = totals.session + self._unlogged, totals.day + self._unlogged
        return next(chain(self._tokens(session, day), self._costs(session, day)), None)

    def _tokens(self, session: UsageCost, day: UsageCost) -> Iterator[LimitStop]:
        limits = self._limits
        for limit, allowed, spent in (
            ("max_tokens", limits.max_tokens, self.spent),
            ("max_session_tokens", limits.max_session_tokens, session),
            ("max_day_tokens", limits.max_day_tokens, day),
        ):
            if allowed is not None and spent.tokens >= allowed:
                yield out_of_budget(limit, allowed, spent.tokens)

    def _costs(self, session: UsageCost, day: UsageCost) -> Iterator[LimitStop]:
        limits = self._limits
        for limit, allowed, spent, whose in (
            ("max_cost", limits.max_cost, self.spent, "a model of this task"),
            ("max_session_cost", limits.max_session_cost, session, "a model of this session"),
            ("max_day_cost", limits.max_day_cost, day, "a model used today"),
        ):
            if allowed is None:
                continue
            if not self._prices.knows(self._model):
                yield without_price(limit, allowed, f"the model '{self._model}'")
            elif spent.cost is None:
                yield without_price(limit, allowed, whose)
            elif spent.cost >= allowed:
                yield out_of_budget(limit, allowed, spent.cost)
