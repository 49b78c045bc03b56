"""The tree of causes with times and tokens, and the newest events, on both databases."""

import itertools
from decimal import Decimal

import orjson
import pytest

from interlock.log import task_events
from interlock.log.kinds import (
    AskUserAnswered,
    AskUserAsked,
    SessionRenamed,
    ToolCallCompleted,
    ToolCallInterrupted,
    ToolCallStarted,
)
from interlock.log.stream_appender import EventScope
from interlock.log.timeline import MAX_DEPTH, read_tail, read_timeline
from tests.harness.store import StoreHarness

CALL = {"call_id": "c1", "tool_name": "clock", "mode": "chat", "authority_digest": "d"}
STARTED = ToolCallStarted(**CALL, requested_name="clock", arguments={}, effect="read", timeout_seconds=30)


def started(task: str, attempt: int = 1) -> task_events.TaskStarted:
    return task_events.TaskStarted(task_id=task, mode="chat", worker="w", attempt=attempt)


def answered(
    given: int, taken: int, model: str = "m", latency_ms: float = 12.5
) -> task_events.TurnCompletedEvent:
    return task_events.TurnCompletedEvent(
        turn=1,
        finish_reason="stop",
        tool_calls=0,
        input_tokens=given,
        output_tokens=taken,
        latency_ms=latency_ms,
        model=model,
    )


def completed(latency_ms: float) -> ToolCallCompleted:
    cut = {"truncated_lines": False, "truncated_bytes": False, "output_hash": ""}
    return ToolCallCompleted(**CALL, latency_ms=latency_ms, exit_code=0, **cut)


class Writer:
    """Writes events under one another; each comes a millisecond after the one before."""

    def __init__(self, store: StoreHarness, session: str) -> None:
        self.store = store
        self.session = session

    async def __call__(self, event, parent: str | None = None, task: str | None = "t_1") -> str:
        (recorded,) = await self.store.log.append(self.session, event, scope=EventScope(task, parent))
        return recorded.id

    async def work(self, task: str = "t_1", second_model: str = "m") -> str:
        """A task with a call and two turns, to its end."""
        queued = await self(
            task_events.TaskQueued(
                task_id=task, message_seq=int(task[-1]) + 1, who="ada", mode="chat_safe"
            ),
            task=task,
        )
        begun = await self(started(task), queued, task)
        agent = await self(
            task_events.AgentStarted(task_id=task, agent="", agent_hash="", model="m"), begun, task
        )
        first = await self(answered(100, 10), agent, task)
        call = await self(STARTED, first, task)
        await self(completed(4.25), call, task)
        await self(answered(200, 20, second_model), agent, task)
        await self(task_events.AgentCompleted(turns=2, input_tokens=300, output_tokens=30), agent, task)
        await self(task_events.TaskFinished(task_id=task, status="done"), begun, task)
        return queued

    def clock(self) -> None:
        self.store.execute(
            "UPDATE events SET time_us = 1000000 + seq * 1000 WHERE stream = ?", self.session
        )


@pytest.fixture
async def writer(store: StoreHarness) -> Writer:
    return Writer(store, (await store.sessions.create(opened_by="test", session_id="talk")).id)


def told(store: StoreHarness, cost_of=lambda _model, tokens: Decimal(tokens.total) / 1000, **wanted):
    with store.database.reading() as connection:
        return read_timeline(connection, session_id="talk", cost_of=cost_of, **{"limit": 100, **wanted})


def every(roots: list[dict]) -> list[dict]:
    found, waiting = [], list(roots)
    while waiting:
        node = waiting.pop(0)
        found.append(node)
        waiting[:0] = node["children"]
    return found


def only(roots: list[dict], kind: str, number: int = 0) -> dict:
    return [node for node in every(roots) if node["kind"] == kind][number]


async def test_a_task_is_a_tree_with_times_tokens_and_costs(store, writer):
    queued = await writer.work()
    writer.clock()
    (root,) = told(store, task_id="t_1").roots
    assert {name for node in every([root]) for name in node} == {
        *("event_id", "kind", "time_us", "seq", "task_id", "parent", "payload", "is_erased", "children"),
        *("duration_ms", "tokens", "cost", "cost_at_least"),
    }
    assert (root["event_id"], root["kind"], root["task_id"], root["parent"]) == (
        *(queued, "task.queued", "t_1"),
        None,
    )
    queued = {"task_id": "t_1", "message_seq": 2, "who": "ada", "mode": "chat_safe", "credential_id": ""}
    queued["retry_of"] = queued["steers"] = ""
    assert root["payload"] == queued
    # Queued as number 2, finished as number 10.
    assert root["duration_ms"] == 8.0
    assert only([root], "task.started")["duration_ms"] == 7.0
    assert only([root], "agent.started")["duration_ms"] == 5.0
    assert only([root], "turn.completed")["duration_ms"] == 12.5
    assert only([root], "tool_call.started")["duration_ms"] == 4.25
    assert only([root], "tool_call.started")["parent"] == only([root], "turn.completed")["event_id"]
    for kind in ("task.queued", "task.started", "agent.started"):
        assert only([root], kind)["tokens"] == {"input": 300, "output": 30}
        assert only([root], kind)["cost"] == pytest.approx(0.33)
    assert only([root], "turn.completed", 1)["tokens"] == {"input": 200, "output": 20}
    assert only([root], "turn.completed", 0)["cost"] == pytest.approx(0.11)
    assert "tokens" not in only([root], "tool_call.started")
    orjson.dumps(root)


async def test_a_model_without_a_price_leaves_the_sum_unknown_and_says_what_is_known(store, writer):
    await writer.work(second_model="n")
    prices = {"m": Decimal(1)}
    (root,) = told(store, lambda model, _tokens: prices.get(model), task_id="t_1").roots
    assert (root["cost"], root["cost_at_least"]) == (None, 1.0)
    assert root["tokens"] == {"input": 300, "output": 30}
    assert only([root], "turn.completed", 0)["cost"] == 1.0
    second = only([root], "turn.completed", 1)
    assert (second["cost"], second["cost_at_least"]) == (None, 0.0)


async def test_what_a_broken_turn_cost_is_not_known_where_turns_are_added_up(store, writer):
    """The task's own total is in a table."""
    await writer.work()
    seq = store.query("SELECT max(seq) FROM events WHERE kind = 'turn.completed'")[0][0]
    store.execute("UPDATE events SET facts = '{}' WHERE stream = 'talk' AND seq = ?", seq)
    (root,) = told(store, task_id="t_1").roots
    assert (root["cost"], root["tokens"]) == (pytest.approx(0.33), {"input": 300, "output": 30})
    begun = only([root], "task.started")
    assert (begun["cost"], begun["cost_at_least"]) == (None, pytest.approx(0.11))
    assert begun["tokens"] == {"input": 100, "output": 10}
    assert "tokens" not in only([root], "turn.completed", 1)


async def test_a_total_is_that_of_all_turns_although_some_are_not_shown(store, writer):
    await writer.work()
    (root,) = told(store, task_id="t_1", limit=4).roots
    assert [node["kind"] for node in every([root])][3:] == ["turn.completed"]
    assert root["tokens"] == {"input": 300, "output": 30}
    assert root["cost"] == pytest.approx(0.33)
    for kind in ("task.started", "agent.started"):
        assert "tokens" not in only([root], kind)
    assert only([root], "turn.completed")["tokens"] == {"input": 100, "output": 10}


async def test_what_was_handed_over_counts_for_the_task_and_alone(store, writer):
    begun = await writer(task_events.TaskQueued(task_id="t_1", message_seq=2, who="ada", mode="chat_safe"))
    call = await writer(STARTED, await writer(answered(100, 10), begun))
    agent = task_events.AgentStarted(task_id="t_1.1", agent="helper", agent_hash="", model="m")
    child = await writer(agent, call, task="t_1.1")
    for _ in range(2):
        await writer(answered(20, 2), child, task="t_1.1")
    (root,) = told(store, task_id="t_1", limit=5).roots
    assert root["tokens"] == {"input": 140, "output": 14}
    assert only([root], "agent.started")["tokens"] == {"input": 40, "output": 4}


async def test_a_question_lasts_until_its_answer_and_its_call_as_long_as_it_says(store, writer):
    asked = {"question_id": "q", "call_id": "c1"}
    call = await writer(STARTED)
    question = {
        "tool_name": "ask_user",
        "mode": "chat",
        "authority_digest": "",
        "widget": "form",
        "question": {},
    }
    await writer(AskUserAsked(**asked, **question), call)
    other = await writer(STARTED)
    await writer(AskUserAsked(**asked, **question), other)
    await writer(AskUserAnswered(**asked, who="ada", answer={}), call)
    await writer(ToolCallInterrupted(**CALL, effect="ask"), other)
    writer.clock()
    roots = told(store).roots
    assert only(roots, "ask_user.asked", 0)["duration_ms"] == 3.0
    assert "duration_ms" not in only(roots, "ask_user.asked", 1)
    assert "duration_ms" not in only(roots, "tool_call.started", 0)
    assert only(roots, "tool_call.started", 1)["duration_ms"] == 3.0


async def test_what_has_not_ended_has_no_duration_and_what_waits_ends_its_attempt(store, writer):
    queued = await writer(task_events.TaskQueued(task_id="t_1", message_seq=2, who="ada", mode="chat_safe"))
    first = await writer(started("t_1"), queued)
    await writer(task_events.TaskWaiting(task_id="t_1", question_id="q"), first)
    await writer(started("t_1", 2), queued)
    writer.clock()
    (root,) = told(store, task_id="t_1").roots
    assert "duration_ms" not in root
    assert root["children"][0]["duration_ms"] == 1.0
    assert "duration_ms" not in root["children"][1]
    await writer(task_events.TaskCancelled(task_id="t_1", who="ada"), first)
    writer.clock()
    (root,) = told(store, task_id="t_1").roots
    assert root["duration_ms"] == 4.0


async def test_a_task_is_read_without_what_stands_beside_it(store, writer):
    await writer.work("t_1")
    await writer(SessionRenamed(who="ada", title="x"), task=None)
    await writer.work("t_2")
    both = told(store)
    assert [root["kind"] for root in both.roots] == [
        *("session.created", "task.queued"),
        *("session.renamed", "task.queued"),
    ]
    assert both.has_more is False
    (root,) = told(store, task_id="t_2").roots
    assert {node["task_id"] for node in every([root])} == {"t_2"}
    assert told(store, task_id="t_3") == type(both)([], has_more=False)


async def test_of_too_many_events_a_session_shows_the_newest_and_a_task_the_first(store, writer):
    await writer.work()
    newest = told(store, limit=3)
    assert [root["seq"] for root in newest.roots] == [8, 9, 10]
    assert newest.has_more is True
    first = told(store, limit=3, task_id="t_1")
    assert [node["seq"] for node in every(first.roots)] == [2, 3, 4]
    assert first.has_more is True
    assert told(store, limit=9, task_id="t_1").has_more is False


async def test_what_a_task_handed_over_is_told_while_the_task_waits_for_it(store, writer):
    """Then nothing of its own comes behind it yet."""
    begun = await writer(started("t_1"))
    call = await writer(STARTED, begun)
    await writer(answered(1, 1), call, task="t_1.1")
    (root,) = told(store, task_id="t_1").roots
    assert [node["kind"] for node in every([root])] == [
        "task.started",
        "tool_call.started",
        "turn.completed",
    ]


async def test_facts_that_are_odd_do_not_stop_the_tree(store, writer):
    await writer.work()
    store.execute("UPDATE events SET facts = '{}' WHERE seq = 5")
    store.execute("UPDATE events SET facts = '[1]' WHERE seq = 8")
    (root,) = told(store, task_id="t_1").roots
    assert "tokens" not in only([root], "task.started")
    payloads = [node["payload"] for node in every([root])]
    said = {"content": "", "calls": None, "reasoning": None}
    assert said in payloads
    assert {"facts": [1], **said} in payloads
    assert only([root], "turn.completed", 0)["duration_ms"] >= 0


async def test_a_tree_that_is_very_deep_can_still_be_written_as_json(store, writer):
    parent = None
    for _ in range(MAX_DEPTH + 60):
        parent = await writer(answered(0, 0), parent)
    await writer(answered(1, 2), parent)
    roots = told(store, limit=1000).roots
    assert len(every(roots)) == MAX_DEPTH + 62
    assert len(orjson.dumps(roots)) > 1000
    assert roots[1]["tokens"] == {"input": 1, "output": 2}


def numbers(store: StoreHarness, **wanted) -> list[int]:
    with store.database.reading() as connection:
        found = read_tail(connection, "talk", **{"limit": 3, **wanted})
    return [stored.header.seq for stored in found]


async def test_the_tail_is_the_newest_or_what_comes_next(store, writer):
    for number in range(9):
        await writer(SessionRenamed(who="ada", title=str(number)), task=None)
    assert numbers(store) == [8, 9, 10]
    assert numbers(store, before_seq=8) == [5, 6, 7]
    assert numbers(store, after_seq=4) == [5, 6, 7]
    assert numbers(store, after_seq=4, before_seq=6) == [5]
    assert numbers(store, after_seq=10) == []
    assert numbers(store, before_seq=1) == []
    assert numbers(store, limit=100) == list(range(1, 11))


async def test_the_tail_can_be_of_some_kinds_alone(store, writer):
    for number, kind in itertools.product(range(4), ("renamed", "turn")):
        event = SessionRenamed(who="ada", title=str(number)) if kind == "renamed" else answered(1, 1)
        await writer(event)
    assert numbers(store, kinds=["turn.completed"]) == [5, 7, 9]
    assert numbers(store, kinds=["turn.completed"], before_seq=7) == [3, 5]
    assert numbers(store, kinds=["turn.completed", "session.created"], after_seq=1) == [3, 5, 7]
    assert numbers(store, kinds=["' OR 1 = 1 --"]) == []
