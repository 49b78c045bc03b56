"""Whether a fleet kept its promises, by what stands in the store and on disk."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import orjson

from tests.e2e.fleet.crowd import Conversation
from tests.e2e.fleet.fleet import Fleet

ENDS = "SELECT stream, seq, task, kind, facts FROM events WHERE kind IN ('task.finished', 'task.cancelled')"
HEADS = "SELECT stream, seq FROM stream_heads"
CALLS = "SELECT task, kind FROM events WHERE kind IN ('tool_call.completed', 'tool_call.interrupted')"
TASKS = "SELECT id, session_id, message_seq, status, reason FROM tasks ORDER BY session_id, message_seq"


def judge(fleet: Fleet, conversations: list[Conversation], root: Path) -> dict[str, Any]:
    """Raises where a promise was broken; gives a few figures."""
    tasks = fleet.query(TASKS)
    wanted = {task_id for each in conversations for task_id, _ in each.messages}
    assert {task for task, *_ in tasks} == wanted, "a message was lost, or became two tasks"
    broken = [(task, status, reason) for task, _, _, status, reason in tasks if status != "done"]
    assert not broken, f"{len(broken)} tasks did not end well: {broken[:3]}"
    _each_ends_once_and_in_order(fleet, conversations)
    _nobody_missed_anything(fleet, conversations)
    calls = fleet.query(CALLS)
    completed = {task for task, kind in calls if kind == "tool_call.completed"}
    interrupted = {task for task, kind in calls if kind == "tool_call.interrupted"}
    _what_is_written_is_what_was_told(conversations, completed, interrupted, root)
    # Else nothing of this would have been tried.
    assert len(completed) > 0.7 * len(tasks), f"only {len(completed)} of {len(tasks)} were written"
    verified = fleet.verified()
    assert verified["ok"] is True, verified
    return {"tasks": len(tasks), "completed": len(completed), "interrupted": len(interrupted)}


def _each_ends_once_and_in_order(fleet: Fleet, conversations: list[Conversation]) -> None:
    ends: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for session_id, seq, task, _kind, payload in fleet.query(ENDS):
        ends[session_id].append((seq, task or orjson.loads(payload)["task_id"]))
    for each in conversations:
        ended = [task for _, task in sorted(ends[each.session_id])]
        assert ended == [task_id for task_id, _ in each.messages], f"{each.session_id}: {ended}"


def _nobody_missed_anything(fleet: Fleet, conversations: list[Conversation]) -> None:
    heads = dict(fleet.query(HEADS))
    for each in conversations:
        head = heads[each.session_id]
        assert each.told == list(range(1, len(each.told) + 1)), f"{each.session_id}: {each.told}"
        assert len(each.told) == head, f"{each.session_id} was told {len(each.told)} of {head}"
        assert set(each.ended.values()) == {"done"}


def _what_is_written_is_what_was_told(
    conversations: list[Conversation], completed: set[str], interrupted: set[str], root: Path
) -> None:
    """Each line at most once, in order. What is told as done is there, what is told as failed is not."""
    for each in conversations:
        file = root / f"{each.session_id}.txt"
        lines = file.read_text().splitlines() if file.exists() else []
        ordered = [task_id for task_id, _ in each.messages]
        assert len(set(lines)) == len(lines), f"{file.name}: a line twice: {lines}"
        assert [line for line in ordered if line in set(lines)] == lines, (
            f"{file.name}: {lines}, not {ordered}"
        )
        assert completed & set(ordered) <= set(lines), f"{file.name}: told as written, and is not there"
        assert set(lines) <= completed | interrupted, f"{file.name}: told as failed, and is there"
