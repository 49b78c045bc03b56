"""Daily counts of turns, tasks, calls, refusals, failures and tokens, from the log.

Both queries on the log have a partial index, so the rest of it is not read. They count facts, which are
never erased.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any

import orjson

from interlock.core.errors import UserError
from interlock.db.driver import DbConnection, Row

# The kinds exactly as in the indexes `events_turns` and `events_problems`, so that both databases use them.
_TURNS = "FROM events WHERE kind = 'turn.completed' AND time_us >= ? AND time_us < ?"
_PROBLEMS = """
FROM events
WHERE kind IN ('tool_call.denied', 'tool_call.failed', 'agent.failed') AND time_us >= ? AND time_us < ?
"""
READ_TURNS = f"SELECT facts {_TURNS}"
READ_PROBLEMS = f"SELECT kind, facts {_PROBLEMS}"

# SQLite counts by itself: row by row, Python would pass the GIL to and fro for each. PostgreSQL cannot read
# text as JSON without failing on a broken one. `total` does not overflow.
_TOLD = "CASE WHEN json_valid(facts) THEN facts ELSE '{}' END"
COUNT_TURNS = f"""
SELECT json_extract(told, '$.model'), count(*),
    CAST(total(json_extract(told, '$.tool_calls')) AS INTEGER),
    CAST(total(json_extract(told, '$.input_tokens')) AS INTEGER),
    CAST(total(json_extract(told, '$.output_tokens')) AS INTEGER)
FROM (SELECT {_TOLD} AS told {_TURNS}) AS turns GROUP BY 1
"""  # noqa: S608
COUNT_PROBLEMS = f"""
SELECT kind, json_extract(told, '$.tool_name'), json_extract(told, '$.error_class'),
    json_extract(told, '$.error_code'), count(*)
FROM (SELECT kind, {_TOLD} AS told {_PROBLEMS}) AS problems GROUP BY 1, 2, 3, 4
"""  # noqa: S608
TASKS = """
SELECT ended_us / 900000000, count(*) FROM tasks WHERE ended_us >= ? AND ended_us < ? GROUP BY 1
"""

MAX_DAYS = 366
MAX_NAMES = 50
_SECOND_US = 1_000_000
# A day of any time zone begins at a multiple of this.
_QUARTER_SECONDS = 900


@dataclass(frozen=True, slots=True)
class TokenCount:
    input: int = 0
    output: int = 0

    def __add__(self, other: "TokenCount") -> "TokenCount":
        return TokenCount(self.input + other.input, self.output + other.output)


@dataclass(frozen=True, slots=True)
class DailyStats:
    """`tasks` counts ended ones, `calls` those that models requested, `errors` excludes denials."""

    date: str
    turns: int
    tasks: int
    calls: int
    denials: int
    errors: int
    input_tokens: int
    output_tokens: int
    # By the model's name; empty where the row cannot be read.
    by_model: Mapping[str, TokenCount]


@dataclass(frozen=True, slots=True)
class Stats:
    """Every day of the span, oldest first; then the most frequent denials and errors."""

    days: tuple[DailyStats, ...]
    denials_by_tool: Mapping[str, int]
    errors_by_class: Mapping[str, int]


@dataclass(slots=True)
class _Problems:
    by_tool: Counter[str] = field(default_factory=Counter)
    by_class: Counter[str] = field(default_factory=Counter)


def read_stats(connection: DbConnection, *, days: int, now_us: int, zone: tzinfo = UTC) -> Stats:
    """The last `days` days, today included, in the given time zone."""
    if not 1 <= days <= MAX_DAYS:
        raise UserError(f"days: must be from 1 to {MAX_DAYS}")
    today = datetime.fromtimestamp(now_us / _SECOND_US, zone).date()
    dates = [today - timedelta(days=back) for back in reversed(range(days))]
    ended = _ended_tasks(connection, _begin_us(dates[0], zone), _begin_us(_next(today), zone), zone)
    problems = _Problems()
    counted = tuple(
        _day(connection, day, (_begin_us(day, zone), _begin_us(_next(day), zone)), ended[day], problems)
        for day in dates
    )
    return Stats(counted, _most(problems.by_tool), _most(problems.by_class))


def _day(
    connection: DbConnection, day: date, span_us: tuple[int, int], tasks: int, problems: _Problems
) -> DailyStats:
    turns, calls, by_model = 0, 0, dict[str, TokenCount]()
    for model, number, own_calls, given, taken in _turns(connection, span_us):
        turns += number
        calls += own_calls
        name = str(model or "")
        by_model[name] = by_model.get(name, TokenCount()) + TokenCount(given, taken)
    denials, errors = _count_problems(connection, span_us, problems)
    total = sum(by_model.values(), TokenCount())
    return DailyStats(
        *(day.isoformat(), turns, tasks, calls, denials, errors),
        *(total.input, total.output),
        {model: used for model, used in by_model.items() if used != TokenCount() or not model},
    )


def _count_problems(
    connection: DbConnection, span_us: tuple[int, int], problems: _Problems
) -> tuple[int, int]:
    denials, errors = 0, 0
    for kind, tool, error_class, code, number in _problems(connection, span_us):
        if kind == "tool_call.denied":
            denials += number
            problems.by_tool[str(tool or "")] += number
        elif code != "CANCELLED":
            # A person cancelled it or left it unanswered: no error.
            errors += number
            problems.by_class[str(error_class or "")] += number
    return denials, errors


def _turns(connection: DbConnection, span_us: tuple[int, int]) -> Iterator[Row]:
    """A model's name, its number of turns, and their calls and tokens."""
    if connection.dialect == "sqlite":
        yield from connection.query(COUNT_TURNS, span_us)
        return
    for (facts,) in connection.stream(READ_TURNS, span_us):
        told = _fields(facts)
        numbers = (_number(told, name) for name in ("tool_calls", "input_tokens", "output_tokens"))
        yield told.get("model"), 1, *numbers


def _problems(connection: DbConnection, span_us: tuple[int, int]) -> Iterator[Row]:
    """A kind, the tool, the error's class and code, and the count."""
    if connection.dialect == "sqlite":
        yield from connection.query(COUNT_PROBLEMS, span_us)
        return
    for kind, facts in connection.stream(READ_PROBLEMS, span_us):
        told = _fields(facts)
        yield kind, told.get("tool_name"), told.get("error_class"), told.get("error_code"), 1


def _ended_tasks(connection: DbConnection, begin_us: int, end_us: int, zone: tzinfo) -> Counter[date]:
    ended: Counter[date] = Counter()
    for quarter, number in connection.query(TASKS, (begin_us, end_us)):
        ended[datetime.fromtimestamp(quarter * _QUARTER_SECONDS, zone).date()] += number
    return ended


def _begin_us(day: date, zone: tzinfo) -> int:
    return int(datetime.combine(day, time.min, zone).timestamp()) * _SECOND_US


def _next(day: date) -> date:
    return day + timedelta(days=1)


def _fields(facts: str) -> Mapping[str, Any]:
    """The fields of an event; empty where the row cannot be read."""
    try:
        told = orjson.loads(facts)
    except orjson.JSONDecodeError:
        return {}
    return told if isinstance(told, dict) else {}


def _number(told: Mapping[str, Any], name: str) -> int:
    value = told.get(name)
    return value if isinstance(value, int) else 0


def _most(counted: Counter[str]) -> dict[str, int]:
    """The most frequent names; entries without a name are dropped."""
    named = Counter({name: number for name, number in counted.items() if name})
    return dict(named.most_common(MAX_NAMES))
