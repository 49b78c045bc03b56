"""The settings of limits: sane by default, and a wrong one is a sentence that names its variable."""

from decimal import Decimal

import pytest

from interlock.config.settings import load_settings
from interlock.config.settings_report import describe_settings, unknown_variables
from interlock.core.errors import ConfigurationError


def refused(monkeypatch: pytest.MonkeyPatch, **variables: str) -> str:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as raised:
        load_settings()
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_the_defaults_leave_room_for_real_tasks():
    control = load_settings().control
    assert (control.max_turns, control.max_wall_seconds, control.max_tokens) == (50, 1800, 2_000_000)
    assert (control.max_retries, control.retry_seconds, control.max_retry_seconds) == (5, 1, 30)
    assert (control.circuit_failures, control.circuit_seconds) == (5, 30)
    assert (control.max_repeats, control.max_denials) == (3, 3)
    assert (control.max_recent_denials, control.recent_calls) == (10, 50)
    assert control.prices == {}
    assert control.max_session_tokens is control.max_day_tokens is None
    assert control.max_cost is control.max_session_cost is control.max_day_cost is None


def test_prices_are_exact(monkeypatch):
    monkeypatch.setenv("CONTROL_PRICES", '{"a": [2.50, 10], "b/c:d": [0, 0.1]}')
    monkeypatch.setenv("CONTROL_MAX_DAY_COST", "0.3")
    control = load_settings().control
    assert control.prices == {"a": (Decimal("2.5"), Decimal(10)), "b/c:d": (Decimal(0), Decimal("0.1"))}
    assert control.max_day_cost == Decimal("0.3")
    (row,) = [row for row in describe_settings(load_settings()) if row.name == "CONTROL_PRICES"]
    assert row.value == '{"a": ["2.50", "10"], "b/c:d": ["0", "0.1"]}'


@pytest.mark.parametrize(
    "prices",
    [
        "1",
        "[]",
        "{",
        "gpt=1",
        '{"m": 1}',
        '{"m": [1]}',
        '{"m": [1, 2, 3]}',
        '{"m": ["1", "2"]}',
        '{"m": [true, 1]}',
        '{"m": [1, null]}',
        '{"m": [-1, 1]}',
        '{"m": [0, 1e7]}',
        '{"m": [NaN, 1]}',
        '{"m": [1, Infinity]}',
    ],
)
def test_prices_that_are_none_stop_the_start(monkeypatch, prices):
    sentence = refused(monkeypatch, CONTROL_PRICES=prices)
    assert sentence.startswith("CONTROL_PRICES: ")
    assert ("'m' needs two prices" in sentence) == prices.startswith('{"m"')


@pytest.mark.parametrize("name", ["CONTROL_MAX_COST", "CONTROL_MAX_SESSION_COST", "CONTROL_MAX_DAY_COST"])
def test_a_limit_on_costs_without_prices_would_never_hold(monkeypatch, name):
    sentence = refused(monkeypatch, **{name: "5"})
    assert name in sentence
    assert "CONTROL_PRICES" in sentence


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("CONTROL_MAX_TURNS", "0", "greater than 0"),
        ("CONTROL_MAX_WALL_SECONDS", "inf", "at most"),
        ("CONTROL_MAX_WALL_SECONDS", "nan", "at most"),
        ("CONTROL_MAX_TOKENS", "many", "whole number"),
        ("CONTROL_MAX_COST", "NaN", "finite"),
        ("CONTROL_MAX_COST", "0", "greater than 0"),
        ("CONTROL_MAX_RETRIES", "-1", "at least 0"),
        ("CONTROL_RETRY_SECONDS", "31", "CONTROL_MAX_RETRY_SECONDS"),
        ("CONTROL_CIRCUIT_FAILURES", "0", "greater than 0"),
        ("CONTROL_MAX_REPEATS", "1", "at least 2"),
        ("CONTROL_MAX_RECENT_DENIALS", "51", "CONTROL_RECENT_CALLS"),
    ],
)
def test_a_wrong_limit_stops_the_start_and_names_its_variable(monkeypatch, name, value, text):
    sentence = refused(monkeypatch, **{name: value})
    assert name in sentence
    assert text in sentence


def test_a_mistyped_limit_is_pointed_out():
    assert unknown_variables({"CONTROL_MAX_TURN": "5"}) == {"CONTROL_MAX_TURN": "CONTROL_MAX_TURNS"}
