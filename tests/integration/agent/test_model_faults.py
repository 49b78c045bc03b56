"""A model that breaks off is asked again, and one that fails is followed by the next in its chain."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from decimal import Decimal

from interlock.agent.budget import Price, PriceTable
from interlock.agent.circuit_breaker import CircuitBreakers
from interlock.agent.events import RetryAnnounced, TaskEnded, TextDelta, TurnCompleted
from interlock.agent.loop import TaskAssignment
from interlock.config.modes import ToolMode
from interlock.log.hash_chain import now_us
from interlock.log.stats import read_stats
from interlock.log.stream_appender import EventScope
from interlock.log.usage import read_session_usage
from interlock.models.provider import (
    ModelError,
    ModelFault,
    ModelReply,
    ModelRequest,
    ModelStreamItem,
    ModelTextDelta,
    RequestedCall,
)
from interlock.sessions.models import Role
from tests.harness.agent_loop import SECRET
from tests.harness.task_limits import task_limits
from tests.integration.agent.test_loop import of

DOWN = ModelError(ModelFault.server, "the server failed")
REFUSED = ModelError(ModelFault.auth, "the key is refused")
CALL = ModelReply("", (RequestedCall("", "current_time", "{}"),))


class Answering:
    """Gives these in turn: each a text, a reply, a fault, or a tuple of deltas and one of them."""

    def __init__(self, name: str, *answers: object) -> None:
        self.name = name
        self._answers = list(answers)
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelStreamItem]:
        self.requests.append(request)
        answer = self._answers.pop(0)
        *deltas, last = answer if isinstance(answer, tuple) else (answer,)
        for delta in deltas:
            yield ModelTextDelta(delta)
        if isinstance(last, Exception):
            raise last
        if isinstance(last, str):
            yield ModelTextDelta(last)
        yield last if isinstance(last, ModelReply) else ModelReply("".join([*deltas, last]))

    async def close(self) -> None:
        pass


def payloads(harness, session: str, *kinds: str) -> list[dict]:
    return [json.loads(row[4]) for row in harness.event_rows(session, *kinds)]


def shown(events: list) -> str:
    """What a reader has on the screen who follows the offsets."""
    text = ""
    for delta in of(TextDelta, events):
        text = text[: delta.offset] + delta.text
    return text


# -- a stream that breaks ----------------------------------------------------------------------------


async def test_an_answer_that_breaks_off_is_asked_for_again_and_takes_the_place_of_its_beginning(harness):
    model, session = Answering("m", ("Half an ans", DOWN), "The whole answer."), await harness.session()
    events = await harness.run(session, "go", model)
    assert shown(events) == "The whole answer."
    assert [delta.offset for delta in of(TextDelta, events)].count(0) >= 2
    (discarded,) = payloads(harness, session, "turn.discarded")
    assert {key: discarded[key] for key in ("turn", "error_class", "error", "model")} == {
        "turn": 1,
        "error_class": "server",
        "error": "the server failed",
        "model": "m",
    }
    kinds = [row[1] for row in harness.event_rows(session)]
    assert kinds.index("turn.discarded") < kinds.index("retry.scheduled") < kinds.index("turn.completed")
    (turn,) = of(TurnCompleted, events)
    assert turn.text == "The whole answer."
    told = await harness.runtime.sessions.transcript(session)
    assert [(each.role, each.content) for each in told] == [
        (Role.user, "go"),
        (Role.assistant, "The whole answer."),
    ]


async def test_nothing_is_discarded_of_which_nothing_was_shown(harness):
    session = await harness.session()
    await harness.run(session, "go", Answering("m", DOWN, "ok"))
    assert payloads(harness, session, "turn.discarded") == []


async def test_half_a_secret_before_the_break_shows_nothing_after_it(harness):
    """The redaction of the new answer begins anew: the two halves are of two texts."""
    model = Answering("m", (f"It is {SECRET[:9]}", DOWN), (SECRET[9:], " is the rest."))
    session = await harness.session()
    events = await harness.run(session, "go", model)
    assert SECRET not in str(events)
    assert shown(events) == f"{SECRET[9:]} is the rest."


async def test_one_that_breaks_off_every_time_fails_in_the_end(harness):
    harness.limits = task_limits(retry_seconds=0.001, max_retries=2)
    model, session = Answering("m", *[("Half", DOWN)] * 3), await harness.session()
    events = await harness.run(session, "go", model)
    assert [event.status for event in of(TaskEnded, events)] == ["failed"]
    assert len(payloads(harness, session, "turn.discarded")) == 3
    assert shown(events) == ""
    with harness.runtime.database.reading() as connection:
        (used,) = read_session_usage(connection, session).values()
    assert used.total == spent_by(harness, session, "turn.discarded")
    assert payloads(harness, session, "retry.exhausted")[0]["attempts"] == 3


# -- what a broken answer costs -----------------------------------------------------------------------


TOLD = 300
BROKEN = ("word " * TOLD, DOWN)


def spent_by(harness, session: str, *kinds: str) -> int:
    turns = payloads(harness, session, *kinds)
    return sum(turn["input_tokens"] + turn["output_tokens"] for turn in turns)


async def test_what_was_discarded_counts_towards_the_limits_of_its_task(harness):
    model, session = Answering("m", BROKEN, "never"), await harness.session()
    harness.limits = task_limits(retry_seconds=0.001, max_tokens=TOLD)
    events = await harness.run(session, "go", model)
    assert [event.limit for event in of(TaskEnded, events)] == ["max_tokens"]
    assert len(model.requests) == 1
    (discarded,) = payloads(harness, session, "turn.discarded")
    assert discarded["output_tokens"] > TOLD
    (reached,) = payloads(harness, session, "control.limit_reached")
    assert reached["reached"] == spent_by(harness, session, "turn.discarded")


async def hanging(text: str) -> AsyncGenerator[ModelStreamItem]:
    yield ModelTextDelta(text)
    await asyncio.Event().wait()


async def test_what_was_written_until_the_time_was_up_counts(harness):
    model, session = Answering("m"), await harness.session()
    model.stream = lambda _request: hanging("word " * TOLD)
    harness.limits = task_limits(max_wall_seconds=0.3)
    events = await harness.run(session, "go", model)
    assert [event.limit for event in of(TaskEnded, events)] == ["max_wall_seconds"]
    (interrupted,) = payloads(harness, session, "turn.interrupted")
    assert (interrupted["turn"], interrupted["model"]) == (1, "m")
    assert interrupted["output_tokens"] > TOLD
    with harness.runtime.database.reading() as connection:
        (used,) = read_session_usage(connection, session).values()
    assert used.total == spent_by(harness, session, "turn.interrupted")


async def test_what_was_written_until_it_was_cancelled_counts_also_for_the_attempt_after_it(harness):
    model, session = Answering("m"), await harness.session()
    model.stream = lambda _request: hanging("word " * TOLD)
    scope = EventScope("t_1")
    await harness.runtime.sessions.append_message(session, Role.user, "go", scope=scope)
    loop = harness.loop(model)
    async with aclosing(
        loop.handle_message(session, None, TaskAssignment(ToolMode.coding, scope))
    ) as events:
        async for event in events:
            assert isinstance(event, TextDelta)
            break
    before = spent_by(harness, session, "turn.interrupted")
    assert before > TOLD
    harness.limits = task_limits(max_tokens=before)
    again = TaskAssignment(ToolMode.coding, scope, attempt=2)
    model = Answering("m", "never")
    ended = [event async for event in harness.loop(model).handle_message(session, None, again)]
    assert (ended[-1].limit, model.requests) == ("max_tokens", [])


async def test_what_was_discarded_counts_once_if_it_is_cancelled_then(harness):
    harness.limits = task_limits(retry_seconds=30)
    model, session = Answering("m", BROKEN), await harness.session()
    async with aclosing(harness.loop(model).handle_message(session, "go")) as events:
        async for event in events:
            if isinstance(event, RetryAnnounced):
                break
    assert len(payloads(harness, session, "turn.discarded")) == 1
    assert payloads(harness, session, "turn.interrupted") == []


async def test_usage_has_the_tokens_of_what_was_discarded_and_counts_it_as_no_turn(harness):
    model, session = Answering("m", BROKEN, "ok"), await harness.session()
    await harness.run(session, "go", model)
    spent = spent_by(harness, session, "turn.discarded", "turn.completed")
    (completed,) = payloads(harness, session, "agent.completed")
    assert completed["input_tokens"] + completed["output_tokens"] == spent
    with harness.runtime.database.reading() as connection:
        (used,) = read_session_usage(connection, session).values()
        stats = read_stats(connection, days=1, now_us=now_us())
    assert used.total == stats.by_session[session].tokens.total == spent
    assert stats.by_session[session].turns == 1


# -- fallbacks ---------------------------------------------------------------------------------------


async def test_the_next_model_goes_on_for_the_rest_of_the_task_and_no_longer(harness):
    first, second = Answering("a", REFUSED, "a again"), Answering("b", CALL, "b's answer")
    harness.fallbacks, session = {"second": second}, await harness.session()
    events = await harness.run(session, "go", first)
    assert shown(events) == "b's answer"
    assert (len(first.requests), len(second.requests)) == (1, 2)
    (fallback,) = payloads(harness, session, "model.fallback")
    assert fallback == {
        "from_model": "a",
        "to_model": "b",
        "error_class": "auth",
        "error": "the key is refused",
    }
    assert [turn["model"] for turn in payloads(harness, session, "turn.completed")] == ["b", "b"]
    (announced,) = of(RetryAnnounced, events)
    assert "continuing with the model 'b'" in announced.sentence
    assert shown(await harness.run(session, "and now?", first)) == "a again"


async def test_one_that_is_down_is_asked_again_before_another_is(harness):
    harness.limits = task_limits(retry_seconds=0.001, max_retries=2)
    first, second = Answering("a", DOWN, ("Half", DOWN), DOWN), Answering("b", "ok")
    harness.fallbacks, session = {"second": second}, await harness.session()
    assert shown(await harness.run(session, "go", first)) == "ok"
    assert len(first.requests) == 3
    assert len(payloads(harness, session, "turn.discarded")) == 1
    assert payloads(harness, session, "retry.exhausted") == []


async def test_while_a_circuit_is_open_the_next_model_is_asked_at_once(harness):
    harness.limits = task_limits(retry_seconds=0.001, max_retries=9, circuit_failures=2)
    harness.breakers = CircuitBreakers(harness.limits)
    first, second = Answering("a", DOWN, DOWN), Answering("b", "one", "two")
    harness.fallbacks, session = {"second": second}, await harness.session()
    async with asyncio.timeout(20):
        assert shown(await harness.run(session, "go", first)) == "one"
        assert shown(await harness.run(session, "again", first)) == "two"
    assert len(first.requests) == 2


async def test_a_whole_chain_is_tried_and_its_last_fault_told(harness):
    last = ModelError(ModelFault.quota, "no credit is left")
    models = [Answering("a", REFUSED), Answering("b", REFUSED), Answering("c", last)]
    harness.fallbacks, session = {"b": models[1], "c": models[2]}, await harness.session()
    events = await harness.run(session, "go", models[0])
    assert [event.sentence for event in of(TaskEnded, events)] == ["no credit is left"]
    assert [each["to_model"] for each in payloads(harness, session, "model.fallback")] == ["b", "c"]


async def test_a_fault_of_the_request_is_not_taken_to_another_model(harness):
    first = Answering("a", ModelError(ModelFault.too_long, "too long"))
    harness.fallbacks, session = {"second": Answering("b", "never")}, await harness.session()
    events = await harness.run(session, "go", first)
    assert [event.sentence for event in of(TaskEnded, events)] == ["too long"]


async def test_no_model_without_a_price_is_asked_where_costs_are_limited(harness):
    harness.limits = task_limits(max_cost=Decimal(1))
    harness.prices = PriceTable({"a": Price(Decimal(1), Decimal(1))})
    second = Answering("b", "never")
    harness.fallbacks, session = {"second": second}, await harness.session()
    events = await harness.run(session, "go", Answering("a", REFUSED))
    assert [event.limit for event in of(TaskEnded, events)] == ["max_cost"]
    assert second.requests == []
