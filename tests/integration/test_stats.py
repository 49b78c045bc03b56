"""Days as the log tells them, on both databases."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from interlock.core.errors import UserError
from interlock.core.token_usage import TokenUsage
from interlock.log import stream_appender, task_events
from interlock.log.kinds import ToolCallDenied, ToolCallFailed
from interlock.log.stats import TurnTotals, read_stats
from interlock.log.stream_appender import EventScope
from tests.harness.store import StoreHarness
from tests.harness.tasks import TaskHarness

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def us(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000


def turn(
    given: int = 10, taken: int = 1, calls: int = 0, model: str = "m", **who: str
) -> task_events.TurnCompletedEvent:
    tokens = {"input_tokens": given, "output_tokens": taken}
    return task_events.TurnCompletedEvent(
        turn=1, finish_reason="stop", tool_calls=calls, latency_ms=1, model=model, **tokens, **who
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
async def tell(store: StoreHarness, monkeypatch):
    for session in ("talk", "other"):
        await store.sessions.create(opened_by="test", session_id=session)

    async def at(moment: datetime, *events, session: str = "talk") -> None:
        monkeypatch.setattr(stream_appender, "now_us", lambda: us(moment))
        await store.log.append(session, *events, scope=EventScope("t_1"))

    return at


def stats(store: StoreHarness, days: int, now: datetime = NOON, **options):
    with store.database.reading() as connection:
        return read_stats(connection, days=days, now_us=us(now), **options)


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
            *(1, 0, 1, {"m": {"input_tokens": 7, "output_tokens": 7}}),
            denials=2,
            errors=2,
        ),
        _day(
            "2026-03-10",
            *(3, 3, 3),
            {
                "m": {"input_tokens": 11, "output_tokens": 2},
                "n": {"input_tokens": 5, "output_tokens": 2},
            },
            denials=1,
        ),
    ]
    assert told.denials_by_tool == {"bash": 2, "write_file": 1}
    assert list(told.denials_by_tool) == ["bash", "write_file"]
    assert told.errors_by_class == {"timeout": 1, "max_turns": 1}
    assert stats(store, 4).days[0].totals.tokens == TokenUsage(1000, 1000)


def _day(date: str, turns=0, calls=0, milliseconds=0, by_model=None, **counted) -> dict:
    totals = {"turns": turns, "calls": calls, "milliseconds": milliseconds, "by_model": by_model or {}}
    return {"date": date, "totals": totals, "tasks": 0, "denials": 0, "errors": 0, **counted}


async def test_turns_are_counted_by_agent_by_actor_and_by_session(store, tell):
    await tell(NOON, turn(10, 1, actor="ada"), turn(5, 1, actor="ada", agent="helper", model="n"))
    await tell(NOON - timedelta(days=1), turn(100, 1, actor="eve", agent="helper"), session="other")
    await tell(NOON - timedelta(days=2), turn(1000, 1, actor="eve"))
    told = stats(store, 2)
    helper = TurnTotals(2, 0, 2, {"m": TokenUsage(100, 1), "n": TokenUsage(5, 1)})
    assert told.by_agent == {"helper": helper, "": TurnTotals(1, 0, 1, {"m": TokenUsage(10, 1)})}
    assert list(told.by_actor) == ["eve", "ada"]
    assert told.by_actor["ada"].tokens == TokenUsage(15, 2)
    assert {name: totals.turns for name, totals in told.by_session.items()} == {"other": 1, "talk": 2}


async def test_a_day_begins_where_the_clocks_of_its_zone_say(store, tell):
    # A night in which these clocks go forward: the day has 23 hours.
    zone = ZoneInfo("Europe/Berlin")
    moments = [datetime(2026, 3, 28, 22, 59, tzinfo=UTC), datetime(2026, 3, 28, 23, 0, tzinfo=UTC)]
    moments += [datetime(2026, 3, 29, 21, 59, tzinfo=UTC), datetime(2026, 3, 29, 22, 0, tzinfo=UTC)]
    for moment in moments:
        await tell(moment, turn())
    told = stats(store, 3, moments[-1], zone=zone)
    assert [(day.date, day.totals.turns) for day in told.days] == [
        *(("2026-03-28", 1), ("2026-03-29", 2)),
        ("2026-03-30", 1),
    ]


async def test_tasks_count_on_the_day_they_ended(store, monkeypatch):
    shop = TaskHarness(store)
    session = await shop.session()
    tasks = [await shop.put(session) for _ in range(3)]
    # 5:45 ahead: it was midnight in Kathmandu.
    for task, ended in zip(tasks, (NOON, datetime(2026, 3, 8, 18, 15, tzinfo=UTC)), strict=False):
        monkeypatch.setattr(stream_appender, "now_us", lambda ended=ended: us(ended))
        await shop.tasks.cancel(task.id, who="ada")
    assert [day.tasks for day in stats(store, 3).days] == [1, 0, 1]
    assert [day.tasks for day in stats(store, 3, zone=ZoneInfo("Asia/Kathmandu")).days] == [0, 1, 1]


@pytest.mark.parametrize("days", [0, -1, 367])
async def test_a_span_beyond_a_year_is_refused(store, days):
    with pytest.raises(UserError, match="366"):
        stats(store, days)


async def test_a_whole_year_can_be_asked_for(store, tell):
    await tell(NOON - timedelta(days=365), turn())
    told = stats(store, 366)
    assert len(told.days) == 366
    assert told.days[0].totals.turns == 1
