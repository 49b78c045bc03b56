"""Days as the log tells them, on both databases."""

import tracemalloc
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from interlock.core.errors import UserError
from interlock.log import task_events
from interlock.log.kinds import ToolCallDenied, ToolCallFailed
from interlock.log.stats import COUNT_PROBLEMS, COUNT_TURNS, TokenCount, read_stats
from tests.harness.store import StoreHarness
from tests.harness.tasks import TaskHarness

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def us(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000


def turn(
    given: int = 10, taken: int = 1, calls: int = 0, model: str = "m"
) -> task_events.TurnCompletedEvent:
    tokens = {"input_tokens": given, "output_tokens": taken}
    return task_events.TurnCompletedEvent(
        turn=1, finish_reason="stop", tool_calls=calls, latency_ms=1, model=model, **tokens
    )


def failed(tool: str, error_class: str = "timeout") -> ToolCallFailed:
    return ToolCallFailed(**failure(tool, error_class))


def denied(tool: str) -> ToolCallDenied:
    return ToolCallDenied(**failure(tool, "policy"), layer="mode")


def failure(tool: str, error_class: str) -> dict:
    return {
        "call_id": "c",
        "tool_name": tool,
        "mode": "chat",
        "authority_digest": "d",
        "requested_name": tool,
        "error": "x",
        "error_code": "X",
        "error_class": error_class,
        "latency_ms": 1.0,
        "next_action": "y",
    }


@pytest.fixture
async def tell(store: StoreHarness):
    await store.sessions.create(opened_by="test", session_id="talk")

    async def at(moment: datetime, *events) -> None:
        for recorded in await store.log.append("talk", *events):
            store.execute("UPDATE events SET time_us = ? WHERE id = ?", us(moment), recorded.id)

    return at


def stats(store: StoreHarness, days: int, **options):
    with store.database.reading() as connection:
        return read_stats(connection, days=days, now_us=us(NOON), **options)


@pytest.mark.usefixtures("tell")
async def test_a_busy_day_is_not_held_in_memory(store):
    """A server that was asked for its figures each minute came to hold a day of turns each time."""
    await store.log.append("talk", *[turn(1, 1) for _ in range(4000)])
    await store.log.append("talk", *[denied("bash") for _ in range(2000)])
    store.execute("UPDATE events SET time_us = ?", us(NOON))
    tracemalloc.start()
    try:
        [day] = stats(store, 1).days
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (day.turns, day.denials) == (4000, 2000)
    assert peak < 700_000


async def test_each_day_is_counted_by_itself_and_an_empty_one_is_there(store, tell):
    yesterday = NOON - timedelta(days=1)
    await tell(NOON, turn(10, 1, calls=2), turn(5, 2, model="n"), turn(1, 1, calls=1), denied("bash"))
    await tell(yesterday, turn(7, 7), failed("read_file"), denied("bash"), denied("write_file"))
    await tell(yesterday, task_events.AgentFailed(turns=1, error="x", error_class="max_turns"))
    await tell(NOON - timedelta(days=3), turn(1000, 1000))
    told = stats(store, 3)
    assert [asdict(day) for day in told.days] == [
        _day("2026-03-08"),
        _day(
            "2026-03-09",
            turns=1,
            denials=2,
            errors=2,
            input_tokens=7,
            output_tokens=7,
            by_model={"m": {"input": 7, "output": 7}},
        ),
        _day(
            "2026-03-10",
            turns=3,
            calls=3,
            denials=1,
            input_tokens=16,
            output_tokens=4,
            by_model={"m": {"input": 11, "output": 2}, "n": {"input": 5, "output": 2}},
        ),
    ]
    assert told.denials_by_tool == {"bash": 2, "write_file": 1}
    assert list(told.denials_by_tool) == ["bash", "write_file"]
    assert told.errors_by_class == {"timeout": 1, "max_turns": 1}
    assert stats(store, 4).days[0].input_tokens == 1000


def _day(date: str, **counted) -> dict:
    names = ("turns", "tasks", "calls", "denials", "errors", "input_tokens", "output_tokens")
    return {"date": date, **dict.fromkeys(names, 0), "by_model": {}, **counted}


async def test_a_day_begins_where_the_clocks_of_its_zone_say(store, tell):
    # A night in which these clocks go forward: the day has 23 hours.
    zone = ZoneInfo("Europe/Berlin")
    moments = [datetime(2026, 3, 28, 22, 59, tzinfo=UTC), datetime(2026, 3, 28, 23, 0, tzinfo=UTC)]
    moments += [datetime(2026, 3, 29, 21, 59, tzinfo=UTC), datetime(2026, 3, 29, 22, 0, tzinfo=UTC)]
    for moment in moments:
        await tell(moment, turn())
    with store.database.reading() as connection:
        told = read_stats(connection, days=3, now_us=us(moments[-1]), zone=zone)
    assert [(day.date, day.turns) for day in told.days] == [
        *(("2026-03-28", 1), ("2026-03-29", 2)),
        ("2026-03-30", 1),
    ]


async def test_tasks_count_on_the_day_they_ended(store):
    shop = TaskHarness(store)
    session = await shop.session()
    tasks = [await shop.put(session) for _ in range(3)]
    for task in tasks[:2]:
        await shop.tasks.cancel(task.id, who="ada")
    store.execute("UPDATE tasks SET ended_us = ? WHERE id = ?", us(NOON), tasks[0].id)
    zone = ZoneInfo("Asia/Kathmandu")
    ended = datetime(2026, 3, 8, 18, 15, tzinfo=UTC)
    store.execute("UPDATE tasks SET ended_us = ? WHERE id = ?", us(ended), tasks[1].id)
    assert [day.tasks for day in stats(store, 3).days] == [1, 0, 1]
    # 5:45 ahead: it was midnight there.
    assert [day.tasks for day in stats(store, 3, zone=zone).days] == [0, 1, 1]


BROKEN = ("no json", "[1, 2]", "7", '"text"', "null", "", '{"input_tokens": null, "model": null}')


async def test_what_is_broken_is_counted_and_does_not_stop_the_rest(store, tell):
    await tell(NOON, turn(), *[turn() for _ in BROKEN], denied("bash"), failed("bash"))
    numbers = [row[0] for row in store.query("SELECT seq FROM events ORDER BY seq")]
    for seq, facts in zip(numbers[1:], BROKEN, strict=False):
        store.execute("UPDATE events SET facts = ? WHERE seq = ?", facts, seq)
    store.execute("UPDATE events SET facts = '{}' WHERE seq >= ?", numbers[-2])
    told = stats(store, 1)
    (day,) = told.days
    assert (day.turns, day.denials, day.errors, day.input_tokens) == (1 + len(BROKEN), 1, 1, 10)
    assert day.by_model == {"m": TokenCount(10, 1), "": TokenCount()}
    assert (told.denials_by_tool, told.errors_by_class) == ({}, {})


@pytest.mark.parametrize("days", [0, -1, 367])
async def test_a_span_beyond_a_year_is_refused(store, days):
    with pytest.raises(UserError, match="366"):
        stats(store, days)


async def test_a_whole_year_can_be_asked_for(store, tell):
    await tell(NOON - timedelta(days=365), turn())
    told = stats(store, 366)
    assert len(told.days) == 366
    assert told.days[0].turns == 1


async def test_only_the_indexes_made_for_it_are_read(sqlite_store):
    for statement, index in ((COUNT_TURNS, "events_turns"), (COUNT_PROBLEMS, "events_problems")):
        plan = sqlite_store.query(f"EXPLAIN QUERY PLAN {statement}", 0, 1)
        assert index in plan[0][3]
