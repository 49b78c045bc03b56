"""The table `usage`: turns, calls, tokens, time, refusals and errors by session, task and quarter hour.

Each counted event adds to one row, in the transaction that stores the event. Only facts are counted, which
are never erased: `events verify` counts them again and compares. Budgets, statistics, resumed and delegated
tasks read their totals here.
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import orjson

from interlock.core.text import sanitize_text
from interlock.core.token_usage import TokenUsage
from interlock.db.driver import DbConnection
from interlock.log.kinds import ToolCallDenied, ToolCallFailed
from interlock.log.task_events import AgentFailed, TaskCancelled, TaskFinished, TurnCompletedEvent

# A day of any time zone begins at a multiple of this.
QUARTER_US = 900_000_000

TURN, DENIAL, ERROR, TASK = "turn", "denial", "error", "task"

# A bound, so that sums fit into the columns and names into an index, whatever a model or its server says.
_LARGEST = 10**12
_LONGEST_NAME = 200

COUNTED = frozenset(
    event.kind
    for event in (
        TurnCompletedEvent,
        ToolCallDenied,
        ToolCallFailed,
        AgentFailed,
        TaskFinished,
        TaskCancelled,
    )
)

ADD = """
INSERT INTO usage (session_id, task, quarter, kind, name, agent, actor,
    events, calls, input_tokens, output_tokens, milliseconds)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (session_id, task, quarter, kind, name, agent, actor) DO UPDATE SET
    events = usage.events + excluded.events,
    calls = usage.calls + excluded.calls,
    input_tokens = usage.input_tokens + excluded.input_tokens,
    output_tokens = usage.output_tokens + excluded.output_tokens,
    milliseconds = usage.milliseconds + excluded.milliseconds
"""
ROWS_OF_SESSION = """
SELECT session_id, task, quarter, kind, name, agent, actor,
    events, calls, input_tokens, output_tokens, milliseconds
FROM usage WHERE session_id = ?
"""
TOKENS = """
SELECT name, CAST(sum(input_tokens) AS BIGINT), CAST(sum(output_tokens) AS BIGINT)
FROM usage WHERE kind = 'turn' AND {condition} GROUP BY name
"""
TOKENS_SINCE = TOKENS.format(condition="quarter >= ?")
TOKENS_OF_SESSION = TOKENS.format(condition="session_id = ?")
TOKENS_OF_TASK = TOKENS.format(condition="session_id = ? AND task = ?")
# Delegated tasks are named after the task, with a dot; a slash follows it. One range, so that no other
# rows are read.
TOKENS_WITHIN_TASK = TOKENS.format(
    condition="session_id = ? AND task >= ? AND task < ? AND (task = ? OR task > ?)"
)
ACTOR_OF_TASK = "SELECT actor FROM usage WHERE session_id = ? AND task = ? AND kind = 'turn' LIMIT 1"


class CountedEvent(NamedTuple):
    """What is read of an event. `facts` are JSON."""

    stream: str
    task: str | None
    time_us: int
    kind: str
    facts: str | bytes


class UsageKey(NamedTuple):
    """`name` is the model, the tool, the error's class or how the task ended, by `kind`."""

    session_id: str
    task: str
    quarter: int
    kind: str
    name: str
    agent: str
    actor: str


class UsageCounts(NamedTuple):
    events: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    milliseconds: int = 0


NOTHING = UsageCounts()
# The facts that the columns after `events` sum up.
_SUMMED = ("tool_calls", "input_tokens", "output_tokens", "latency_ms")

UsageRows = dict[UsageKey, UsageCounts]


def record_usage(connection: DbConnection, events: Iterable[CountedEvent]) -> None:
    """Add events of the kinds in `COUNTED` to the table, in the transaction that stores them."""
    rows: UsageRows = {}
    for event in events:
        count_usage(rows, event)
    if rows:
        connection.change_many(ADD, [(*key, *counts) for key, counts in rows.items()])


def count_usage(rows: UsageRows, event: CountedEvent) -> None:
    """Add an event of a kind in `COUNTED` to `rows`."""
    facts = orjson.loads(event.facts)
    kind, name = _subject(event.kind, facts)
    if kind is None:
        return
    place = (event.stream, event.task or "", event.time_us // QUARTER_US)
    key = UsageKey(*place, kind, name, _name(facts, "agent"), _name(facts, "actor"))
    counts = (1, *(_number(facts, field) for field in _SUMMED))
    before = rows.get(key, NOTHING)
    rows[key] = UsageCounts(*map(sum, zip(before, counts, strict=True)))


def rows_of_session(connection: DbConnection, session_id: str) -> UsageRows:
    return {
        UsageKey(*row[:7]): UsageCounts(*row[7:])
        for row in connection.query(ROWS_OF_SESSION, (session_id,))
    }


def _subject(kind: str, facts: Mapping[str, Any]) -> tuple[str | None, str]:
    """The kind of row, and its name; no kind for an event that does not count."""
    match kind:
        case TurnCompletedEvent.kind:
            return TURN, _name(facts, "model")
        case ToolCallDenied.kind:
            return DENIAL, _name(facts, "tool_name")
        case TaskFinished.kind:
            return TASK, _name(facts, "status")
        case TaskCancelled.kind:
            return TASK, "cancelled"
        case _:
            # A person cancelled the call or left it unanswered: no error.
            return None if facts.get("error_code") == "CANCELLED" else ERROR, _name(facts, "error_class")


def turn_usage(facts: Mapping[str, Any]) -> tuple[str, TokenUsage]:
    """A turn's model and tokens; of a turn that cannot be read, no model and none."""
    tokens = TokenUsage(_number(facts, "input_tokens"), _number(facts, "output_tokens"))
    return _name(facts, "model"), tokens


def _name(facts: Mapping[str, Any], field: str) -> str:
    return sanitize_text(str(facts.get(field) or ""))[:_LONGEST_NAME]


def _number(facts: Mapping[str, Any], field: str) -> int:
    value = facts.get(field)
    return min(max(round(value), 0), _LARGEST) if isinstance(value, int | float) else 0


# -- costs -------------------------------------------------------------------------------------------

# The price of a model's tokens, if known.
CostOf = Callable[[str, TokenUsage], Decimal | None]


def cost_json(used: Mapping[str, TokenUsage], cost_of: CostOf) -> dict[str, float | None]:
    """The cost, null once a model without a price took part, and the part of it that is known."""
    costs = [cost_of(model, tokens) if model else None for model, tokens in used.items()]
    known = float(sum(cost for cost in costs if cost is not None))
    return {"cost": None if None in costs else known, "cost_at_least": known}


# -- totals ------------------------------------------------------------------------------------------


def read_usage_since(connection: DbConnection, time_us: int) -> dict[str, TokenUsage]:
    """The tokens of all turns since the beginning of that quarter of an hour, by model."""
    return _tokens(connection, TOKENS_SINCE, time_us // QUARTER_US)


def read_session_usage(connection: DbConnection, session_id: str) -> dict[str, TokenUsage]:
    return _tokens(connection, TOKENS_OF_SESSION, session_id)


def read_task_usage(
    connection: DbConnection, session_id: str, task: str, *, delegated: bool = True
) -> dict[str, TokenUsage]:
    """The tokens of a task by model, with or without those of the tasks that it delegated."""
    if not delegated:
        return _tokens(connection, TOKENS_OF_TASK, session_id, task)
    return _tokens(connection, TOKENS_WITHIN_TASK, session_id, task, f"{task}/", task, f"{task}.")


def read_task_actor(connection: DbConnection, session_id: str, task: str) -> str:
    """The person for whom a task has had turns; empty if unknown."""
    rows = connection.query(ACTOR_OF_TASK, (session_id, task))
    return str(rows[0][0]) if rows else ""


def _tokens(connection: DbConnection, statement: str, *parameters: object) -> dict[str, TokenUsage]:
    return {
        model: TokenUsage(taken, given) for model, taken, given in connection.query(statement, parameters)
    }
