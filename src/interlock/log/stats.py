"""Turns, tasks, calls, refusals, errors, tokens and time by day, model, agent, actor and session."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from interlock.core.errors import UserError
from interlock.core.token_usage import NO_USAGE, TokenUsage
from interlock.db.driver import DbConnection
from interlock.log.usage import DENIAL, ERROR, QUARTER_US, TASK, TURN

COUNTS = """
SELECT kind, name, CAST(sum(events) AS BIGINT), CAST(sum(calls) AS BIGINT),
    CAST(sum(input_tokens) AS BIGINT), CAST(sum(output_tokens) AS BIGINT), CAST(sum(milliseconds) AS BIGINT)
FROM usage WHERE quarter >= ? AND quarter < ? GROUP BY kind, name ORDER BY kind, name
"""
SHARES = """
SELECT {column}, name, CAST(sum(events) AS BIGINT), CAST(sum(calls) AS BIGINT),
    CAST(sum(input_tokens) AS BIGINT), CAST(sum(output_tokens) AS BIGINT), CAST(sum(milliseconds) AS BIGINT)
FROM usage WHERE kind = 'turn' AND quarter >= ? AND quarter < ? GROUP BY {column}, name ORDER BY 1, 2
"""

MAX_DAYS = 366
MAX_NAMES = 50


@dataclass(slots=True)
class TurnTotals:
    """`calls` are those that models requested, `milliseconds` the time of their answers."""

    turns: int = 0
    calls: int = 0
    milliseconds: int = 0
    by_model: dict[str, TokenUsage] = field(default_factory=dict)

    @property
    def tokens(self) -> TokenUsage:
        return sum(self.by_model.values(), NO_USAGE)

    def add(self, model: str, turns: int, calls: int, tokens: TokenUsage, milliseconds: int) -> None:
        self.turns += turns
        self.calls += calls
        self.milliseconds += milliseconds
        self.by_model[model] = self.by_model.get(model, NO_USAGE) + tokens


@dataclass(slots=True)
class DailyStats:
    """`tasks` counts ended ones, `errors` excludes denials."""

    date: str
    totals: TurnTotals = field(default_factory=TurnTotals)
    tasks: int = 0
    denials: int = 0
    errors: int = 0


@dataclass(frozen=True, slots=True)
class Stats:
    """Every day of the span, oldest first; then the most frequent denials and errors, and the turns by what
    used most tokens."""

    days: tuple[DailyStats, ...]
    denials_by_tool: Mapping[str, int]
    errors_by_class: Mapping[str, int]
    by_agent: Mapping[str, TurnTotals]
    by_actor: Mapping[str, TurnTotals]
    by_session: Mapping[str, TurnTotals]


def read_stats(connection: DbConnection, *, days: int, now_us: int, zone: tzinfo = UTC) -> Stats:
    """The last `days` days, today included, in the given time zone."""
    if not 1 <= days <= MAX_DAYS:
        raise UserError(f"days: must be from 1 to {MAX_DAYS}")
    today = datetime.fromtimestamp(now_us / 1_000_000, zone).date()
    dates = [today - timedelta(days=back) for back in reversed(range(days))]
    denials, errors = Counter[str](), Counter[str]()
    counted = tuple(_day(connection, day, zone, denials, errors) for day in dates)
    span = _first_quarter(dates[0], zone), _first_quarter(today + timedelta(days=1), zone)
    shares = (_shares(connection, column, span) for column in ("agent", "actor", "session_id"))
    return Stats(counted, _most(denials), _most(errors), *shares)


def _day(
    connection: DbConnection, day: date, zone: tzinfo, denials: Counter[str], errors: Counter[str]
) -> DailyStats:
    stats = DailyStats(day.isoformat())
    span = _first_quarter(day, zone), _first_quarter(day + timedelta(days=1), zone)
    for kind, name, number, calls, taken, given, milliseconds in connection.query(COUNTS, span):
        if kind == TURN:
            stats.totals.add(name, number, calls, TokenUsage(taken, given), milliseconds)
        elif kind == TASK:
            stats.tasks += number
        elif kind == DENIAL:
            stats.denials += number
            denials[name] += number
        elif kind == ERROR:
            stats.errors += number
            errors[name] += number
    return stats


def _shares(connection: DbConnection, column: str, span: tuple[int, int]) -> dict[str, TurnTotals]:
    shares: dict[str, TurnTotals] = {}
    rows = connection.query(SHARES.format(column=column), span)
    for owner, model, turns, calls, taken, given, milliseconds in rows:
        share = shares.setdefault(owner, TurnTotals())
        share.add(model, turns, calls, TokenUsage(taken, given), milliseconds)
    largest = sorted(shares.items(), key=lambda share: -share[1].tokens.total)
    return dict(largest[:MAX_NAMES])


def _first_quarter(day: date, zone: tzinfo) -> int:
    return int(datetime.combine(day, time.min, zone).timestamp()) * 1_000_000 // QUARTER_US


def _most(counted: Counter[str]) -> dict[str, int]:
    """The most frequent names; entries without a name are dropped."""
    named = Counter({name: number for name, number in counted.items() if name})
    return dict(named.most_common(MAX_NAMES))
