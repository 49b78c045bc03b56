"""Looking events up by task or kind reads no long session, although the frequent kinds are in no index."""

import pytest

from interlock.agent import resume, subagents
from interlock.cli import command_line_session, workflow_run_here
from interlock.feed import entries, follow
from interlock.log import checkpoint, recorded_erasures, retention, timeline
from interlock.log.event import FREQUENT_KINDS, IS_MILESTONE
from interlock.log.kinds import SessionRenamed, ToolCallCompleted, ToolCallStarted
from interlock.log.read import FROM_TASK
from interlock.log.task_events import TurnCompletedEvent
from interlock.runtime import task_rows
from interlock.sessions import slash_commands, transcript
from tests.harness.store import StoreHarness

LOOKUPS = {
    "a task's past": resume.READ_OWN_OF_TASK,
    "how the mode was entered": resume.LAST_ENTRY,
    "the first task since": resume.TASK_BEGUN_SINCE,
    "the compactions": resume.COMPACTIONS,
    "the running task": follow.LAST_TASK,
    "delegated tasks": subagents._WITHIN,
    "messages that steered": transcript.READ_STEERED,
    "tasks that a credential steered": task_rows.STEERED_WITH,
    "the call of a result": entries.CALLS_BEFORE,
    "why a task ended": entries.ENDED_BY,
    "why a task failed": command_line_session.WHY_FAILED,
    "failed calls of a step": workflow_run_here._FAILED_CALLS,
    "a task's last turn": follow.LAST_TURN,
    "a task's tree": timeline.OF_TASK,
    "a task's messages": transcript.READ_OF_TASK,
    "any events of a task": f"SELECT id {FROM_TASK}",
    "the last checkpoint": checkpoint.NEWEST,
    "erasures": recorded_erasures.ERASURES,
    "when a run ended": retention.RUN_ENDED,
    "when tasks ended": retention.TASK_ENDS,
    "what was delegated": subagents.REQUEST,
    "the last denial": slash_commands.LAST_DENIAL,
}


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_a_lookup_reads_a_part_of_the_session(sqlite_store: StoreHarness, lookup):
    sql = LOOKUPS[lookup]
    plan = [row[3] for row in sqlite_store.query(f"EXPLAIN QUERY PLAN {sql}", *[None] * sql.count("?"))]
    assert any("events_stream_task" in step or "events_stream_kind" in step for step in plan)
    assert not [step for step in plan if step.endswith("sqlite_autoindex_events_1 (stream=?)")]


def test_the_indexes_leave_out_the_kinds_of_every_turn(sqlite_store: StoreHarness):
    assert set(FREQUENT_KINDS) == {
        kind.kind for kind in (TurnCompletedEvent, ToolCallStarted, ToolCallCompleted)
    }
    made = sqlite_store.query(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql LIKE '% events %'"
    )
    assert {name for name, sql in made if sql.endswith(f"WHERE {IS_MILESTONE}")} == {
        "events_stream_task",
        "events_stream_kind",
    }
    assert len(made) == 2


@pytest.mark.parametrize("end", ["task.finished", "task.cancelled", "task.steered", None])
async def test_a_task_is_read_from_its_message_to_its_end(store: StoreHarness, end):
    """On both databases: what follows its end, in the same session, is not read."""
    session = (await store.sessions.create(opened_by="test")).id
    kinds = [
        "message.appended",
        "turn.completed",
        "tool_call.started",
        "tool_call.completed",
        "agent.completed",
    ]
    rows = [(kind, "t") for kind in (*kinds, *filter(None, [end]))]
    rows = [
        ("turn.completed", "t"),
        *rows,
        ("message.appended", "u"),
        ("turn.completed", "t"),
        ("turn.completed", "u"),
    ]
    head = store.query("SELECT seq FROM stream_heads WHERE stream = ?", session)[0][0]
    for seq, (kind, task) in enumerate(rows, head + 1):
        store.execute(
            "INSERT INTO events (id, time_us, stream, seq, task, kind, facts, prev_hash, hash)"
            " VALUES (?, 0, ?, ?, ?, ?, '{}', ?, ?)",
            *(f"e{seq}", session, seq, task, kind, b"", b""),
        )
    found = [row[0] for row in store.query(f"SELECT kind {FROM_TASK} ORDER BY seq", session, "t")]
    assert found == [*kinds, end or "turn.completed"]


async def test_a_call_does_not_move_the_time_by_which_sessions_are_sorted(store: StoreHarness):
    session = (await store.sessions.create(opened_by="test")).id
    store.execute("UPDATE stream_heads SET time_us = 1 WHERE stream = ?", session)
    call = ToolCallStarted(
        call_id="c",
        tool_name="clock",
        mode="chat_safe",
        authority_digest="",
        requested_name="clock",
        arguments={},
        effect="read",
        timeout_seconds=1,
    )
    (receipt,) = await store.log.append(session, call)
    assert store.query("SELECT seq, time_us FROM stream_heads WHERE stream = ?", session) == [
        (receipt.seq, 1)
    ]
    renamed = await store.log.append(session, call, SessionRenamed(who="test", title="clock"))
    assert store.query("SELECT seq, time_us FROM stream_heads WHERE stream = ?", session) == [
        (renamed[1].seq, renamed[1].time_us)
    ]
