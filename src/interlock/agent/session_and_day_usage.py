"""Reads the usage of sessions and days from the log, for limits that cover more than one task."""

import time
from collections.abc import Iterable
from datetime import UTC, datetime

import orjson

from interlock.agent.budget import PriceTable, UsageCost, UsageTotals
from interlock.agent.limits import ControlLimits
from interlock.core.token_usage import NO_USAGE, TokenUsage
from interlock.db.database import Database
from interlock.db.driver import DbConnection, Row

OF_SESSION = "SELECT facts FROM events WHERE stream = ? AND kind = 'turn.completed'"
SINCE = "SELECT facts FROM events WHERE kind = 'turn.completed' AND time_us >= ?"

# Other sessions spend too: the totals are read again after this time.
FRESH_SECONDS = 5.0


class UsageTotalsReader:
    """Reads the usage totals that one task's limits need, again when they are old."""

    def __init__(
        self, database: Database, limits: ControlLimits, prices: PriceTable, session_id: str
    ) -> None:
        self._database = database
        self._is_needed = limits.need_usage_totals
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
        session = connection.query(OF_SESSION, (self._session_id,))
        day = connection.query(SINCE, (int(midnight.timestamp() * 1_000_000),))
        return UsageTotals(session=self._spent(session), day=self._spent(day))

    def _spent(self, rows: Iterable[Row]) -> UsageCost:
        usage: dict[str, TokenUsage] = {}
        for (facts,) in rows:
            add_usage(usage, orjson.loads(facts))
        return self._prices.spent(usage)


def add_usage(usage: dict[str, TokenUsage], turn: dict[str, object]) -> None:
    """Add a turn.

    `turn` has the fields of a `turn.completed`; older ones without a model count as unknown.
    """
    model = str(turn.get("model", ""))
    before = usage.get(model, NO_USAGE)
    usage[model] = TokenUsage(
        before.input_tokens + int(str(turn["input_tokens"])),
        before.output_tokens + int(str(turn["output_tokens"])),
    )
