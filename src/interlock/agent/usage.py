"""What sessions and days used before, read from the log: for limits that reach beyond one task."""

import time
from collections.abc import Iterable
from datetime import UTC, datetime

import orjson

from interlock.agent.budget import PriceTable, UsageCost, UsageTotals
from interlock.agent.limits import ControlLimits
from interlock.db.database import Database
from interlock.db.driver import DbConnection, Row
from interlock.models.provider import NO_USAGE, TokenUsage

OF_SESSION = "SELECT facts FROM events WHERE stream = ? AND kind = 'turn.completed'"
SINCE = "SELECT facts FROM events WHERE kind = 'turn.completed' AND time_us >= ?"

# Other sessions spend too: what they used is looked up again after so long.
FRESH_SECONDS = 5.0


class UsageReader:
    """For one task: the history its limits need, read again when it has grown old."""

    def __init__(
        self, database: Database, limits: ControlLimits, prices: PriceTable, session_id: str
    ) -> None:
        self._database = database
        self._is_needed = limits.need_usage_totals
        self._prices = prices
        self._session_id = session_id
        self._read_at: float | None = None

    async def history(self) -> UsageTotals | None:
        """None where no limit needs it, or what was told last is fresh enough."""
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
    """`turn` has the facts of a `turn.completed`; those of before it named its model count as unknown."""
    model = str(turn.get("model", ""))
    before = usage.get(model, NO_USAGE)
    usage[model] = TokenUsage(
        before.input_tokens + int(str(turn["input_tokens"])),
        before.output_tokens + int(str(turn["output_tokens"])),
    )
