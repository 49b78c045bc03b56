"""The usage table: what events count up to, on both databases."""

import asyncio

import pytest

from interlock.core.token_usage import TokenUsage
from interlock.log import stream_appender
from interlock.log.kinds import ToolCallDenied, ToolCallFailed
from interlock.log.stream_appender import EventScope
from interlock.log.task_events import (
    AgentFailed,
    ContextCompacted,
    TaskCancelled,
    TaskFinished,
    TurnCompletedEvent,
)
from interlock.log.usage import QUARTER_US, read_session_usage, read_task_usage, read_usage_since
from interlock.wiring.projections import verify

CALL = {
    "call_id": "c",
    "tool_name": "bash",
    "mode": "chat",
    "authority_digest": "d",
    "requested_name": "bash",
    "error": "x",
    "next_action": "y",
    "latency_ms": 2.4,
}
DENIED = ToolCallDenied(**CALL, error_code="MODE_DENIED", error_class="policy", layer="mode")
TIMED_OUT = ToolCallFailed(**CALL, error_code="TIMEOUT", error_class="timeout")
CANCELLED = ToolCallFailed(**CALL, error_code="CANCELLED", error_class="cancelled")
ROWS = """
SELECT task, kind, name, agent, actor, events, calls, input_tokens, output_tokens, milliseconds
FROM usage ORDER BY quarter, task, kind, name
"""


def turn(taken: int, given: int, model: str = "m", **fields: object) -> TurnCompletedEvent:
    known = {"turn": 1, "finish_reason": "stop", "tool_calls": 1, "latency_ms": 10.0, "actor": "ada"}
    return TurnCompletedEvent(
        **{**known, "input_tokens": taken, "output_tokens": given, "model": model, **fields}
    )


@pytest.fixture
async def append(store):
    async def add(*events, task: str | None = "t_1", session: str = "talk", token: int | None = None):
        return await store.log.append(session, *events, scope=EventScope(task), token=token)

    for session in ("talk", "other"):
        await store.sessions.create(opened_by="test", session_id=session)
    return add


def read(store, reader, *parameters, **options):
    with store.database.reading() as connection:
        return reader(connection, *parameters, **options)


def faults(store) -> list[str]:
    return [str(fault) for fault in read(store, verify).faults]


async def test_every_counted_event_adds_to_the_row_of_its_task_and_subject(store, append):
    await append(turn(10, 1), turn(5, 2), turn(1, 1, "n", agent="helper"), DENIED, TIMED_OUT, CANCELLED)
    await append(
        AgentFailed(turns=1, error="x", error_class="max_turns"), TaskFinished(task_id="t", status="failed")
    )
    await append(TaskCancelled(task_id="t_2", who="ada"), task="t_2")
    await append(turn(7, 7), task=None)
    assert store.query(ROWS) == [
        ("", "turn", "m", "", "ada", 1, 1, 7, 7, 10),
        ("t_1", "denial", "bash", "", "", 1, 0, 0, 0, 2),
        ("t_1", "error", "max_turns", "", "", 1, 0, 0, 0, 0),
        ("t_1", "error", "timeout", "", "", 1, 0, 0, 0, 2),
        ("t_1", "task", "failed", "", "", 1, 0, 0, 0, 0),
        ("t_1", "turn", "m", "", "ada", 2, 2, 15, 3, 20),
        ("t_1", "turn", "n", "helper", "ada", 1, 1, 1, 1, 10),
        ("t_2", "task", "cancelled", "", "", 1, 0, 0, 0, 0),
    ]
    assert faults(store) == []


async def test_a_summary_that_a_model_wrote_costs_tokens_and_is_no_turn(store, append):
    cut = ContextCompacted(through_seq=1, tokens_before=9, tokens_after=3)
    written = {"model": "m", "input_tokens": 100, "output_tokens": 20, "actor": "ada", "summary": "x"}
    await append(cut, turn(10, 1), ContextCompacted(**cut.payload() | written))
    assert store.query(ROWS) == [("t_1", "turn", "m", "", "ada", 1, 1, 110, 21, 10)]
    assert faults(store) == []


async def test_totals_are_those_of_a_session_of_a_task_and_of_a_time(store, append, monkeypatch):
    monkeypatch.setattr(stream_appender, "now_us", lambda: 5 * QUARTER_US)
    await append(turn(1, 1))
    monkeypatch.setattr(stream_appender, "now_us", lambda: 6 * QUARTER_US)
    for task in ("t_1", "t_1.1", "t_1.1.2", "t_1-x", "t_10"):
        await append(turn(10, 2), task=task)
    await append(turn(100, 3, "n"), session="other")
    assert read(store, read_session_usage, "talk") == {"m": TokenUsage(51, 11)}
    assert read(store, read_task_usage, "talk", "t_1") == {"m": TokenUsage(31, 7)}
    assert read(store, read_task_usage, "talk", "t_1", delegated=False) == {"m": TokenUsage(11, 3)}
    assert read(store, read_task_usage, "talk", "t_1.1") == {"m": TokenUsage(20, 4)}
    assert read(store, read_task_usage, "other", "t_2") == {}
    assert read(store, read_usage_since, 6 * QUARTER_US) == {
        "m": TokenUsage(50, 10),
        "n": TokenUsage(100, 3),
    }


async def test_what_is_not_written_is_not_counted(store, append):
    with pytest.raises(Exception, match="lease"):
        await append(turn(1, 1), token=7)

    def work(transaction):
        transaction.record(turn(2, 2))
        raise RuntimeError("half-way")

    with pytest.raises(RuntimeError):
        await store.log.transact("talk", work)
    await asyncio.gather(*(append(turn(3, 3), session=name) for name in ("talk", "other") * 20))
    assert read(store, read_usage_since, 0) == {"m": TokenUsage(120, 120)}
    assert faults(store) == []


async def test_odd_figures_and_names_are_bounded(store, append):
    await append(turn(-5, 10**15, "m" * 5000), turn(10**18, 1, "n\x00\x07", latency_ms=-1.0))
    usage = read(store, read_session_usage, "talk")
    assert usage == {"m" * 200: TokenUsage(0, 10**12), "n\ufffd\x07": TokenUsage(10**12, 1)}
    assert faults(store) == []


async def test_usage_stays_when_a_session_is_erased(store, append):
    await append(turn(10, 1))
    await store.delete("talk")
    await store.erase("talk")
    assert read(store, read_session_usage, "talk") == {"m": TokenUsage(10, 1)}
    assert faults(store) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("UPDATE usage SET output_tokens = 0", "broken"),
        ("UPDATE usage SET actor = 'eve'", "missing"),
        ("DELETE FROM usage", "missing"),
        ("UPDATE usage SET session_id = 'other'", "broken"),
        ("UPDATE usage SET session_id = 'nowhere'", "broken"),
    ],
)
async def test_a_row_that_the_events_do_not_result_in_is_found(store, append, change, fault):
    await append(turn(10, 1))
    store.execute(change)
    assert any(found.startswith(f"{fault}: ") and "usage" in found for found in faults(store))
