"""Turns, time, and what every limit has in common: an event, and a sentence with the setting's name."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agent.budget import UsageCost, UsageTotals
from interlock.agent.limit_tracker import PastCall, PriorUsage, arguments_fingerprint
from interlock.agent.limits import LimitStop, format_duration
from interlock.config.limits import TaskLimitSettings
from interlock.config.settings_report import setting_names
from interlock.core.errors import ErrorCode
from interlock.core.token_usage import TokenUsage
from interlock.log.kinds import KINDS
from interlock.tools.result import ToolResult
from tests.harness.task_limits import task_limits
from tests.unit.agent.controlled import DENIED, PRICES, Clock, content_of, control, ended, failed


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_fifty_turns_and_not_one_more():
    task = control()
    assert [task.before_turn() for _ in range(50)] == [None] * 50
    stop = task.before_turn()
    assert (stop.limit, stop.allowed, stop.reached) == ("max_turns", 50, 50)
    assert stop.sentence == (
        "The task took 50 turns without finishing; the limit is 50. Its earlier effects remain. "
        "Send a message to continue in a new task, or raise CONTROL_MAX_TURNS."
    )
    assert task.before_turn() == stop
    assert task.turns == 50


def test_turns_before_a_restart_count():
    task = control(used=PriorUsage(turns=49))
    assert task.before_turn() is None
    assert task.before_turn().reached == 50


def test_time_runs_from_the_beginning_and_ends_the_task(clock):
    task = control(clock=clock)
    clock.now += 1799.9
    assert task.before_turn() is None
    assert task.seconds_left == pytest.approx(0.1)
    clock.now += 0.1
    stop = task.before_turn()
    assert (stop.limit, stop.allowed) == ("max_wall_seconds", 1800)
    assert stop.sentence.startswith("The task ran for 30 minutes; the limit is 30 minutes. ")
    assert "CONTROL_MAX_WALL_SECONDS" in stop.sentence
    assert task.seconds_left == 0
    clock.now += 1000
    assert task.seconds_left == 0


def test_time_before_a_restart_counts(clock):
    task = control(clock=clock, used=PriorUsage(seconds=1700))
    clock.now += 99
    assert task.out_of_time() is None
    clock.now += 1
    assert task.out_of_time().reached == 1800


def test_a_wait_that_does_not_fit_is_not_begun(clock):
    task = control(clock=clock)
    clock.now += 1790
    assert task.out_of_time(after_seconds=9) is None
    stop = task.out_of_time(after_seconds=30)
    assert stop.reached == 1790
    assert stop.sentence.startswith(
        "The task would have to wait 30 seconds for its model, but only 10 seconds of its time "
        "limit (30 minutes) are left."
    )


def test_a_refusal_is_told_before_a_repetition():
    task = control()
    for _ in range(3):
        task.before_turn()
        ended(task, "write_file", "same", DENIED)
    assert task.refusal_limit.limit == "max_denials"


def test_a_name_that_a_model_made_up_cannot_forge_lines():
    task = control()
    for _ in range(3):
        task.before_turn()
        stop = ended(task, "x\n\x1b[2J" + "y" * 500, "same", failed(ErrorCode.TOOL_NOT_FOUND))
    assert "call of x\\x0a\\x1b[2Jyyy" in stop.sentence
    assert len(stop.sentence) < 400
    assert stop.event.tool_name.isprintable()


def every_stop() -> list[LimitStop]:
    clock = Clock()
    late = control(clock=clock)
    clock.now += 4000
    spent = UsageCost(10, Decimal(9))

    def over(limit: str, allowed: object) -> LimitStop | None:
        limits = task_limits(**{limit: allowed})
        return control(limits, prices=PRICES, used=PriorUsage(spent=spent)).before_turn(
            UsageTotals(spent, spent)
        )

    def after(*calls: PastCall) -> LimitStop | None:
        task = control(used=PriorUsage(calls=calls))
        return task.refusal_limit or task.before_turn()

    return [
        over("max_turns", 0),
        late.before_turn(),
        *(over(f"max_{whose}tokens", 10) for whose in ("", "session_", "day_")),
        *(over(f"max_{whose}cost", Decimal(9)) for whose in ("", "session_", "day_")),
        after(*(PastCall(turn, "bash", "same") for turn in range(3))),
        after(*(PastCall(turn, "bash", str(turn), "no") for turn in range(3))),
        after(*(PastCall(0, "bash", str(number), "no") for number in range(10))),
    ]


def test_every_limit_is_an_event_and_a_sentence_that_names_its_setting():
    stops = every_stop()
    assert {stop.limit for stop in stops} == {
        name for name in TaskLimitSettings.model_fields if name.startswith("max_")
    } - {"max_retries", "max_retry_seconds", "max_retry_after_seconds"}
    for stop in stops:
        assert f"CONTROL_{stop.limit.upper()}" in setting_names()
        assert f"CONTROL_{stop.limit.upper()}" in stop.sentence
        assert stop.sentence.endswith(".")
        assert "\n" not in stop.sentence
        assert "{" not in stop.sentence
        event = stop.event
        assert type(event) is KINDS[event.kind]
        assert stop.reached >= stop.allowed


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 seconds"),
        (0.25, "0.2 seconds"),
        (119, "119 seconds"),
        (120, "2 minutes"),
        (1800, "30 minutes"),
        (5400, "90 minutes"),
        (9000, "2.5 hours"),
    ],
)
def test_times_are_told_as_people_say_them(seconds, text):
    assert format_duration(seconds) == text


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from("ab"), st.sampled_from(["fine", "denied", "failed"])), max_size=4
        ),
        max_size=12,
    ),
    st.integers(0, 11),
)
def test_a_restart_at_any_moment_changes_no_decision(turns, restart):
    """The same task, once in one piece, and once told again from its transcript before some turn."""
    results = {"fine": ToolResult(stdout="x"), "denied": DENIED, "failed": failed(ErrorCode.TIMEOUT)}
    whole = control()
    pieces = control()
    past: list[PastCall] = []
    for number, calls in enumerate(turns):
        if number == restart:
            used = PriorUsage(
                turns=pieces.turns, seconds=pieces.seconds, spent=pieces.spent, calls=tuple(past)
            )
            pieces = control(used=used)
        assert pieces.before_turn() == whole.before_turn()
        for task in (whole, pieces):
            task.reply_received(TokenUsage(5, 5))
        for argument, outcome in calls:
            made = arguments_fingerprint({"path": argument})
            result = results[outcome]
            past.append(
                PastCall.from_transcript(
                    pieces.turns, "read_file", f'{{"path": "{argument}"}}', content_of(result)
                )
            )
            assert ended(pieces, "read_file", made, result) == ended(whole, "read_file", made, result)
    assert pieces.spent == whole.spent
    assert pieces.turns == whole.turns
