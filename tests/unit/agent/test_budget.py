"""Budgets: tokens and money, of the task, the session and the day, to the last token and the last cent."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agent.budget import NO_COST, Price, PriceTable, UsageCost, UsageTotals, need_usage_totals
from interlock.agent.limit_tracker import PriorUsage
from interlock.core.token_usage import TokenUsage
from tests.harness.task_limits import task_limits
from tests.unit.agent.controlled import PRICES, control


def test_a_price_is_exact():
    price = Price(Decimal("0.1"), Decimal("0.2"))
    assert price.cost(TokenUsage(3, 0)) == Decimal("0.0000003")
    assert price.cost(TokenUsage(1_000_000, 1_000_000)) == Decimal("0.3")


def test_what_was_spent_is_known_by_model_or_not_at_all():
    assert PRICES.spent({}) == NO_COST
    known = {"m": TokenUsage(1_000_000, 100_000), "local": TokenUsage(5, 5)}
    assert PRICES.spent(known) == UsageCost(1_100_010, Decimal("3.5"))
    assert PRICES.spent(known | {"other": TokenUsage(1, 1)}) == UsageCost(1_100_012, None)


def test_built_in_models_are_free_unless_priced():
    table = PriceTable.of({"demo": (Decimal(1), Decimal(1))}, free=("demo", "scripted"))
    assert table.spent({"scripted": TokenUsage(10, 10)}).cost == 0
    assert table.spent({"demo": TokenUsage(1_000_000, 0)}).cost == 1


def test_the_turn_that_crosses_the_limit_is_the_last():
    task = control(task_limits(max_tokens=100))
    assert task.before_turn() is None
    task.reply_received(TokenUsage(60, 39))
    assert task.before_turn() is None
    task.reply_received(TokenUsage(0, 1))
    stop = task.before_turn()
    assert stop is not None
    assert (stop.limit, stop.allowed, stop.reached) == ("max_tokens", 100, 100)
    assert stop.sentence == (
        "The task used 100 tokens; the limit is 100. Its earlier effects remain. Send a message "
        "to continue in a new task, or raise CONTROL_MAX_TOKENS."
    )


def test_tokens_used_before_a_restart_count():
    used = PriorUsage(turns=3, spent=UsageCost(99))
    task = control(task_limits(max_tokens=100), used=used)
    assert task.before_turn() is None
    task.reply_received(TokenUsage(1, 0))
    assert task.before_turn().reached == 100


def test_money_of_the_task():
    task = control(task_limits(max_cost=Decimal("0.05")), prices=PRICES)
    assert task.before_turn() is None
    task.reply_received(TokenUsage(1996, 4500))
    assert task.spent == UsageCost(6496, Decimal("0.04999"))
    assert task.before_turn() is None
    task.reply_received(TokenUsage(4, 0))
    stop = task.before_turn()
    assert stop.sentence.startswith("The task cost 0.05; the limit is 0.05. ")
    assert "CONTROL_MAX_COST" in stop.sentence
    assert (stop.event.allowed, stop.event.reached) == (0.05, 0.05)


@pytest.mark.parametrize(
    ("limit", "whose", "advice"),
    [
        ("max_session_tokens", "session", "Start a new session"),
        ("max_day_tokens", "day", "midnight UTC"),
        ("max_session_cost", "session", "Start a new session"),
        ("max_day_cost", "day", "midnight UTC"),
    ],
)
def test_budgets_beyond_the_task_are_kept_by_what_the_log_tells(limit, whose, advice):
    money = limit.endswith("cost")
    limits = task_limits(**{limit: Decimal(5) if money else 1000})
    spent = (lambda amount: UsageCost(0, Decimal(amount) / 200)) if money else UsageCost
    task = control(limits, prices=PRICES)
    assert need_usage_totals(limits)
    assert task.before_turn(UsageTotals(**{whose: spent(999)})) is None
    stop = task.before_turn(UsageTotals(**{whose: spent(1000)}))
    assert stop.limit == limit
    assert f"CONTROL_{limit.upper()}" in stop.sentence
    assert advice in stop.sentence


def test_between_two_readings_of_the_log_the_tasks_own_turns_are_added():
    task = control(task_limits(max_session_tokens=1000))
    assert task.before_turn(UsageTotals(session=UsageCost(900))) is None
    task.reply_received(TokenUsage(60, 0))
    assert task.before_turn() is None
    task.reply_received(TokenUsage(40, 0))
    assert task.before_turn().reached == 1000
    assert task.before_turn(UsageTotals(session=UsageCost(999))) is None, "the log knows better"


def test_a_budget_of_the_session_is_not_forgotten_by_who_forgets_to_ask_the_log():
    task = control(task_limits(max_session_tokens=1000))
    with pytest.raises(ValueError, match="what was spent before"):
        task.before_turn()


def test_without_such_limits_nobody_asks_the_log():
    assert not need_usage_totals(task_limits(max_cost=Decimal(1)))
    assert control().before_turn() is None


@pytest.mark.parametrize("limit", ["max_cost", "max_session_cost", "max_day_cost"])
def test_a_model_without_a_price_is_not_asked_where_money_is_limited(limit):
    stop = control(task_limits(**{limit: Decimal(5)}), model="new").before_turn(UsageTotals())
    assert stop.limit == limit
    assert stop.sentence == (
        f"CONTROL_{limit.upper()} limits costs, but the model 'new' has no price in "
        "CONTROL_PRICES. Add it there (a free model as [0, 0])."
    )


@pytest.mark.parametrize(
    ("limit", "more", "whose"),
    [
        ("max_cost", {"used": PriorUsage(spent=UsageCost(1, None))}, "a model of this task"),
        ("max_session_cost", {}, "a model of this session"),
        ("max_day_cost", {}, "a model used today"),
    ],
)
def test_what_cannot_be_counted_is_not_taken_for_nothing(limit, more, whose):
    task = control(task_limits(**{limit: Decimal(5)}), prices=PRICES, **more)
    stop = task.before_turn(UsageTotals(session=UsageCost(1, None), day=UsageCost(1, None)))
    assert f"{whose} has no price" in stop.sentence


def test_a_model_without_a_price_works_where_only_tokens_are_limited():
    task = control(model="new")
    task.reply_received(TokenUsage(10, 10))
    assert task.before_turn() is None
    assert task.spent == UsageCost(20, None)


usages = st.lists(st.builds(TokenUsage, st.integers(0, 10_000), st.integers(0, 10_000)), max_size=30)


@given(usages, st.integers(1, 100_000), st.integers(0, 50_000))
def test_any_task_stops_at_the_first_turn_after_its_tokens_are_used(replies, allowed, before):
    task = control(
        task_limits(max_tokens=allowed, max_turns=1000, max_session_tokens=allowed + before),
    )
    total = 0
    for turn, usage in enumerate(replies):
        history = UsageTotals(session=UsageCost(before + total)) if turn % 3 == 0 else None
        stop = task.before_turn(history)
        assert (stop is not None) == (total >= allowed)
        if stop is not None:
            assert (stop.limit, stop.reached) == ("max_tokens", total)
            return
        task.reply_received(usage)
        total += usage.input_tokens + usage.output_tokens
    assert task.spent.tokens == total


@given(usages, st.permutations(range(3)))
def test_the_sum_is_the_same_in_any_order_and_any_pieces(replies, order):
    whole = PRICES.spent(
        {"m": TokenUsage(sum(u.input_tokens for u in replies), sum(u.output_tokens for u in replies))}
    )
    pieces = [replies[part::3] for part in order]
    total = NO_COST
    for piece in pieces:
        for usage in piece:
            total += PRICES.spent({"m": usage})
    assert total == whole
