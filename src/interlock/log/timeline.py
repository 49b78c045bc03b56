"""Events for display: the tree of a task or session with durations and usage, and a stream's newest.

The output is bounded, and never nested deeper than a JSON parser allows.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interlock.core.token_usage import NO_USAGE, TokenUsage
from interlock.db.driver import DbConnection
from interlock.log.event import FREQUENT_KINDS, IS_MILESTONE
from interlock.log.read import COLUMNS, FROM_TASK_SPAN, StoredEvent, stored_event_from_row
from interlock.log.tree import payload_of
from interlock.log.usage import (
    COSTS_ONLY,
    CostOf,
    cost_json,
    read_session_usage,
    read_task_usage,
    turn_usage,
)

# Deeper nodes are shown at this depth, as siblings of their parents.
MAX_DEPTH = 40

_BEYOND = 2**63 - 1

NEWEST = f"""
SELECT {COLUMNS} FROM events WHERE stream = ? AND seq < ? {{kinds}} ORDER BY seq DESC LIMIT ?
"""  # noqa: S608 - the columns are a constant
OLDEST = f"""
SELECT {COLUMNS} FROM events WHERE stream = ? AND seq > ? AND seq < ? {{kinds}} ORDER BY seq LIMIT ?
"""  # noqa: S608
# Delegated tasks are named after the task, with a dot, and lie between its first and its last event.
OF_TASK = f"""
SELECT {COLUMNS} {FROM_TASK_SPAN} AND (task = of_task OR substr(task, 1, ?) = ?)
ORDER BY seq LIMIT ?
"""

# The kinds that end their parent.
_ENDS = {
    "task.started": {"task.finished", "task.cancelled", "task.waiting"},
    "agent.started": {"agent.completed", "agent.failed"},
    "run.started": {"run.finished", "run.stopped"},
    "node.entered": {"node.completed", "node.failed"},
    "tool_call.started": {
        "tool_call.completed",
        "tool_call.failed",
        "tool_call.denied",
        "tool_call.interrupted",
    },
}
_TASK_ENDS = {"task.finished", "task.cancelled", "task.steered"}
_ANSWERS = {"ask_user.answered", "ask_user.expired"}
# These show the tokens of all turns below them.
_SCOPES = {"run.started", "node.entered", "task.queued", "task.started", "agent.started", "turn.completed"}


@dataclass(frozen=True, slots=True)
class Timeline:
    """The roots in order, as JSON. `has_more`: the limit cut off events."""

    roots: list[dict[str, Any]]
    has_more: bool


@dataclass(slots=True)
class _Entry:
    stored: StoredEvent
    node: dict[str, Any]
    above: "_Entry | None"
    depth: int
    used: dict[str, TokenUsage] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.stored.header.kind


def read_timeline(
    connection: DbConnection,
    *,
    session_id: str,
    task_id: str | None = None,
    limit: int,
    cost_of: CostOf = lambda _model, _tokens: None,
) -> Timeline:
    """A task from its beginning, or the newest of a session (or of `system`); at most `limit` events."""
    if task_id is None:
        rows = connection.query(NEWEST.format(kinds=""), (session_id, _BEYOND, limit + 1))
        chosen = rows[:limit][::-1]
    else:
        within = f"{task_id}."
        rows = connection.query(OF_TASK, (session_id, task_id, len(within), within, limit + 1))
        chosen = rows[:limit]
    events, has_more = [stored_event_from_row(row) for row in chosen], len(rows) > limit
    # What a task lacks is its end, a session its beginning.
    is_cut = has_more and task_id is not None
    roots = _build(events, lambda entry: _stored_usage(connection, entry), cost_of, is_cut=is_cut)
    return Timeline(roots, has_more)


Used = Mapping[str, TokenUsage]


def _build(
    events: Iterable[StoredEvent],
    stored_usage: "Callable[[_Entry], Used | None]",
    cost_of: CostOf,
    *,
    is_cut: bool,
) -> list[dict[str, Any]]:
    """The tree of these events. An event whose parent is not among them is a root."""
    entries: dict[str, _Entry] = {}
    roots: list[dict[str, Any]] = []
    for stored in events:
        header = stored.header
        parent = entries.get(header.parent) if header.parent else None
        above = parent if parent is None or parent.depth < MAX_DEPTH else parent.above
        entry = _Entry(stored, _node(stored), above, 1 if above is None else above.depth + 1)
        entries[header.id] = entry
        (roots if above is None else above.node["children"]).append(entry.node)
        if parent is not None:
            _measure(entry, parent)
    # Children follow their parents, so in reverse order every sum is complete.
    for entry in reversed(entries.values()):
        _add_up(entry, stored_usage(entry), cost_of, is_cut=is_cut)
    return roots


def read_tail(
    connection: DbConnection,
    stream: str,
    *,
    after_seq: int = 0,
    before_seq: int | None = None,
    kinds: Sequence[str] = (),
    limit: int,
) -> list[StoredEvent]:
    """At most `limit` events, oldest first: those after `after_seq`, else the newest."""
    end = _BEYOND if before_seq is None else before_seq
    chosen = f"AND kind IN ({', '.join('?' for _ in kinds)})" if kinds else ""
    if kinds and not set(kinds) & set(FREQUENT_KINDS):
        chosen += f" AND {IS_MILESTONE}"
    if after_seq > 0:
        parameters = (stream, after_seq, end, *kinds, limit)
        return [
            stored_event_from_row(row) for row in connection.query(OLDEST.format(kinds=chosen), parameters)
        ]
    rows = connection.query(NEWEST.format(kinds=chosen), (stream, end, *kinds, limit))
    return [stored_event_from_row(row) for row in reversed(rows)]


def _node(stored: StoredEvent) -> dict[str, Any]:
    header = stored.header
    return {
        "event_id": header.id,
        "kind": header.kind,
        "time_us": header.time_us,
        "seq": header.seq,
        "task_id": header.task,
        "parent": header.parent,
        "payload": payload_of(stored),
        "is_erased": stored.is_erased,
        "children": [],
    }


# -- durations ---------------------------------------------------------------------------------------


def _measure(entry: _Entry, above: _Entry) -> None:
    """Set the duration of the event that this one ends."""
    if entry.kind in _ENDS.get(above.kind, ()):
        _lasted(above, entry)
    if entry.kind in _ANSWERS:
        for sibling in above.node["children"]:
            if sibling["kind"] == "ask_user.asked":
                sibling["duration_ms"] = _milliseconds(sibling["time_us"], entry)
    if entry.kind in _TASK_ENDS:
        queued = above if above.kind == "task.queued" else above.above
        if queued is not None and queued.kind == "task.queued":
            _lasted(queued, entry)


def _lasted(began: _Entry, ended: _Entry) -> None:
    """Prefer the measured latency: events written together have the same time in the log."""
    measured = ended.node["payload"].get("latency_ms")
    if isinstance(measured, int | float):
        began.node["duration_ms"] = float(measured)
    else:
        began.node["duration_ms"] = _milliseconds(began.stored.header.time_us, ended)


def _milliseconds(began_us: int, ended: _Entry) -> float:
    return max(0.0, (ended.stored.header.time_us - began_us) / 1000)


# -- usage -------------------------------------------------------------------------------------------


def _stored_usage(connection: DbConnection, entry: _Entry) -> Used | None:
    """All that a run or a task has used, with turns that are not shown; None for an attempt or a turn."""
    header = entry.stored.header
    match header.kind, header.task:
        case "run.started", _:
            return read_session_usage(connection, header.stream)
        case "task.queued", str(task):
            return read_task_usage(connection, header.stream, task)
        case "agent.started", str(task) if "." in task:
            return read_task_usage(connection, header.stream, task)
        case _:
            return None


def _add_up(entry: _Entry, stored: Used | None, cost_of: CostOf, *, is_cut: bool) -> None:
    if entry.kind == "turn.completed" or (entry.kind in COSTS_ONLY and entry.node["payload"].get("model")):
        model, tokens = turn_usage(entry.node["payload"])
        entry.used[model] = entry.used.get(model, NO_USAGE) + tokens
    if entry.kind == "turn.completed":
        _lasted(entry, entry)
    if stored is not None:
        entry.used = dict(stored)
    # Of an attempt that is not shown to its end, the sum is not known.
    if entry.kind in _SCOPES and (stored is not None or not is_cut or "duration_ms" in entry.node):
        entry.node |= _totals(entry.used, cost_of)
    if entry.above is not None:
        above = entry.above.used
        for model, tokens in entry.used.items():
            above[model] = above.get(model, NO_USAGE) + tokens


def _totals(used: Used, cost_of: CostOf) -> dict[str, Any]:
    """Nothing where there are no turns, or none that can be read."""
    if not any(used):
        return {}
    tokens = sum(used.values(), NO_USAGE)
    shown = {"input": tokens.input_tokens, "output": tokens.output_tokens}
    return {"tokens": shown, **cost_json(used, cost_of)}
