"""Events for display: the tree of a task or session with durations and usage, and a stream's newest.

The output is bounded, and never nested deeper than a JSON parser allows.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from interlock.db.driver import DbConnection
from interlock.log.read import COLUMNS, StoredEvent, stored_event_from_row
from interlock.log.tree import payload_of

CostOf = Callable[[str, int, int], Decimal | None]

# Deeper nodes are shown at this depth, as siblings of their parents.
MAX_DEPTH = 40

_BEYOND = 2**63 - 1

NEWEST = f"""
SELECT {COLUMNS} FROM events WHERE stream = ? AND seq < ? {{kinds}} ORDER BY seq DESC LIMIT ?
"""  # noqa: S608 - the columns are a constant
OLDEST = f"""
SELECT {COLUMNS} FROM events WHERE stream = ? AND seq > ? AND seq < ? {{kinds}} ORDER BY seq LIMIT ?
"""  # noqa: S608
# A task's first event is its message; delegated tasks are named after it, with a dot. All of them lie
# before its own last event, which exists once it has ended.
OF_TASK = f"""
SELECT {COLUMNS} FROM events WHERE stream = ? AND (task = ? OR substr(task, 1, ?) = ?)
    AND seq >= coalesce((SELECT message_seq FROM tasks WHERE id = ? AND session_id = ?), 0)
    AND seq <= CASE WHEN EXISTS (SELECT 1 FROM tasks WHERE id = ? AND ended_us IS NOT NULL)
        THEN (SELECT max(seq) FROM events WHERE stream = ? AND task = ?) ELSE {_BEYOND} END
ORDER BY seq LIMIT ?
"""  # noqa: S608

# The kinds that end their parent.
_ENDS = {
    "task.started": {"task.finished", "task.cancelled", "task.waiting"},
    "agent.started": {"agent.completed", "agent.failed"},
    "turn.started": {"turn.completed"},
    "run.started": {"run.finished", "run.stopped"},
    "node.entered": {"node.completed", "node.failed"},
    "tool_call.started": {
        "tool_call.completed",
        "tool_call.failed",
        "tool_call.denied",
        "tool_call.interrupted",
    },
}
_TASK_ENDS = {"task.finished", "task.cancelled"}
_ANSWERS = {"ask_user.answered", "ask_user.expired"}
# These sum up the tokens of all turns below them.
_SCOPES = {"run.started", "node.entered", "task.queued", "task.started", "agent.started", "turn.started"}


@dataclass(frozen=True, slots=True)
class Timeline:
    """The roots in order, as JSON. `has_more`: the limit cut off events."""

    roots: list[dict[str, Any]]
    has_more: bool


@dataclass(slots=True)
class _Used:
    input_tokens: int = 0
    output_tokens: int = 0
    # The cost of the turns with a known price; and whether those are all turns.
    known_cost: Decimal = field(default_factory=Decimal)
    is_cost_whole: bool = True

    def add(self, other: "_Used") -> None:
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.known_cost += other.known_cost
        self.is_cost_whole &= other.is_cost_whole

    def add_to(self, node: dict[str, Any]) -> None:
        if not (self.is_cost_whole or self.input_tokens or self.output_tokens):
            # None of its turns can be read.
            return
        node["tokens"] = {"input": self.input_tokens, "output": self.output_tokens}
        node["cost"] = float(self.known_cost) if self.is_cost_whole else None
        node["cost_at_least"] = float(self.known_cost)


@dataclass(slots=True)
class _Entry:
    stored: StoredEvent
    node: dict[str, Any]
    above: "_Entry | None"
    depth: int
    used: _Used | None = None

    @property
    def kind(self) -> str:
        return self.stored.header.kind


def read_timeline(
    connection: DbConnection,
    *,
    session_id: str,
    task_id: str | None = None,
    limit: int,
    cost_of: CostOf = lambda _model, _input, _output: None,
) -> Timeline:
    """A task from its beginning, or the newest of a session (or of `system`); at most `limit` events."""
    if task_id is None:
        rows = connection.query(NEWEST.format(kinds=""), (session_id, _BEYOND, limit + 1))
        chosen = rows[:limit][::-1]
    else:
        within = f"{task_id}."
        span = (task_id, session_id, task_id, session_id, task_id)
        parameters = (session_id, task_id, len(within), within, *span, limit + 1)
        rows = connection.query(OF_TASK, parameters)
        chosen = rows[:limit]
    return Timeline(
        build_timeline([stored_event_from_row(row) for row in chosen], cost_of), len(rows) > limit
    )


def build_timeline(events: Iterable[StoredEvent], cost_of: CostOf) -> list[dict[str, Any]]:
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
    _add_up(list(entries.values()), cost_of)
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


def _add_up(entries: list[_Entry], cost_of: CostOf) -> None:
    """Children follow their parents, so in reverse order every sum is complete."""
    for entry in reversed(entries):
        if entry.kind == "turn.completed":
            entry.used = _used_by_turn(entry.node["payload"], cost_of)
        if entry.used is None:
            continue
        if entry.kind in _SCOPES or entry.kind == "turn.completed":
            entry.used.add_to(entry.node)
        if entry.above is not None:
            entry.above.used = entry.above.used or _Used()
            entry.above.used.add(entry.used)


def _used_by_turn(payload: Any, cost_of: CostOf) -> _Used:
    try:
        given, taken = int(payload["input_tokens"]), int(payload["output_tokens"])
        cost = cost_of(str(payload.get("model", "")), given, taken)
    except (TypeError, KeyError, ValueError, AttributeError):
        # The row is not what was written: the usage is unknown.
        return _Used(is_cost_whole=False)
    return _Used(given, taken, cost or Decimal(), cost is not None)
