"""The table `usage`: turns, calls, tokens, time, refusals and errors by session, task and quarter hour.

Each counted event adds to one row. Only facts are counted, which are never erased. Budgets, statistics,
resumed and delegated tasks read their totals here.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from interlock.core.text import sanitize_text
from interlock.core.token_usage import TokenUsage
from interlock.db.driver import DbConnection
from interlock.log.event import Event
from interlock.log.hash_chain import EventHeader
from interlock.log.kinds import ToolCallDenied, ToolCallFailed
from interlock.log.projections import ProjectedRow, Projection
from interlock.log.task_events import (
    AgentFailed,
    ContextCompacted,
    TaskCancelled,
    TaskFinished,
    TurnCompletedEvent,
    TurnDiscarded,
    TurnInterrupted,
)

# A day of any time zone begins at a multiple of this.
QUARTER_US = 900_000_000

# The kinds with tokens that are no turn. Older ones have no model, and do not count.
COSTS_ONLY = frozenset({ContextCompacted.kind, TurnDiscarded.kind, TurnInterrupted.kind})

TURN, DENIAL, ERROR, TASK = "turn", "denial", "error", "task"

# A bound, so that sums fit into the columns and names into an index, whatever a model or its server says.
_LARGEST = 10**12
_LONGEST_NAME = 200

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


# The facts that these columns sum up.
_SUMMED = {
    "calls": "tool_calls",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "milliseconds": "latency_ms",
}


def _rows_of(event: Event, header: EventHeader) -> list[ProjectedRow]:
    facts = event.payload()
    kind, name = _subject(header.kind, facts)
    if kind is None:
        return []
    row = {"session_id": header.stream, "task": header.task or "", "quarter": header.time_us // QUARTER_US}
    names = {"agent": _name(facts, "agent"), "actor": _name(facts, "actor")}
    return [row | {"kind": kind, "name": name} | names]


def _evolve(row: ProjectedRow | None, event: Event, header: EventHeader) -> ProjectedRow:
    before = row or _rows_of(event, header)[0] | dict.fromkeys(("events", *_SUMMED), 0)
    facts = event.payload()
    sums = {column: before[column] + _number(facts, fact) for column, fact in _SUMMED.items()}
    # A summary or the part of an answer costs tokens, and is no turn.
    number = 0 if header.kind in COSTS_ONLY else 1
    return before | sums | {"events": before["events"] + number}


USAGE = Projection(
    table="usage",
    noun="sum of usage",
    key=("session_id", "task", "quarter", "kind", "name", "agent", "actor"),
    columns=("events", *_SUMMED),
    kinds=(
        TurnCompletedEvent,
        TurnDiscarded,
        TurnInterrupted,
        ContextCompacted,
        ToolCallDenied,
        ToolCallFailed,
        AgentFailed,
        TaskFinished,
        TaskCancelled,
    ),
    rows_of=_rows_of,
    evolve=_evolve,
    stream_column="session_id",
)


def _subject(kind: str, facts: Mapping[str, Any]) -> tuple[str | None, str]:
    """The kind of row, and its name; no kind for an event that does not count."""
    match kind:
        case TurnCompletedEvent.kind:
            return TURN, _name(facts, "model")
        case ContextCompacted.kind | TurnDiscarded.kind | TurnInterrupted.kind:
            return TURN if facts.get("model") else None, _name(facts, "model")
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


def _tokens(connection: DbConnection, statement: str, *parameters: object) -> dict[str, TokenUsage]:
    return {
        model: TokenUsage(taken, given) for model, taken, given in connection.query(statement, parameters)
    }
