"""No progress: the same call with the same result, again and again, and nothing new between."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agent.limit_tracker import (
    PastCall,
    RepetitionDetector,
    arguments_fingerprint,
    call_fingerprint,
)
from interlock.agent.limits import LimitStop, ModelHint
from interlock.config.limits import TaskLimitSettings
from interlock.core.errors import ErrorCode
from interlock.log.task_events import ProgressStalled
from interlock.tools.result import ToolResult
from tests.harness.task_limits import task_limits
from tests.unit.agent.controlled import DENIED, content_of, control, ended, failed

SAME = ToolResult(stdout="the same\n", meta={"path": "a.txt"})
ARGUMENTS = arguments_fingerprint({"path": "a.txt"})

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def repeat(times: int, limits: TaskLimitSettings | None = None) -> list:
    task = control(limits or task_limits())
    answers = []
    for _ in range(times):
        task.before_turn()
        answers.append(ended(task, "read_file", ARGUMENTS, SAME))
    return answers


def test_the_third_equal_call_ends_the_task_after_a_warning():
    first, second, third = repeat(3)
    assert first is None
    assert isinstance(second, ModelHint)
    assert "read_file returned the same result 2 times" in second.text
    assert "and end the task" in second.text
    assert third == LimitStop(
        "max_repeats",
        3,
        3,
        (
            "The task made no progress: the same call of read_file returned the same result 3 times. "
            "Tell it what to do differently, or raise CONTROL_MAX_REPEATS."
        ),
        "read_file",
    )
    assert third.event == ProgressStalled(tool_name="read_file", times=3)


def test_with_a_limit_of_two_there_is_no_warning():
    assert [type(answer) for answer in repeat(2, task_limits(max_repeats=2))] == [type(None), LimitStop]


def test_with_a_higher_limit_only_the_last_but_one_warns():
    kinds = [type(answer) for answer in repeat(5, task_limits(max_repeats=5))]
    assert kinds == [type(None)] * 3 + [ModelHint, LimitStop]


def test_once_stalled_the_task_stays_ended():
    task = control()
    for _ in range(3):
        task.before_turn()
        stop = ended(task, "read_file", ARGUMENTS, SAME)
    assert task.before_turn() is stop
    assert ended(task, "current_time", ARGUMENTS, ToolResult(stdout="new")) is stop
    assert task.turns == 3


def test_equal_calls_of_one_turn_count_once():
    task = control()
    task.before_turn()
    assert [ended(task, "read_file", ARGUMENTS, SAME) for _ in range(10)] == [None] * 10
    task.before_turn()
    assert isinstance(ended(task, "read_file", ARGUMENTS, SAME), ModelHint)


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("list_files", ARGUMENTS, SAME),
        ("read_file", arguments_fingerprint({"path": "b.txt"}), SAME),
        ("read_file", ARGUMENTS, ToolResult(stdout="another\n", meta={"path": "a.txt"})),
        ("read_file", ARGUMENTS, ToolResult(stderr="the same\n", meta={"path": "a.txt"})),
        ("read_file", ARGUMENTS, ToolResult(exit_code=1, stdout="the same\n", meta={"path": "a.txt"})),
        ("read_file", ARGUMENTS, failed(ErrorCode.EXECUTION_ERROR, "read_file", "the same\n")),
    ],
)
def test_another_tool_argument_or_result_is_another_call(name, arguments, result):
    made = call_fingerprint("read_file", ARGUMENTS, content_of(SAME))
    assert call_fingerprint(name, arguments, content_of(result)) != made


def test_whatever_is_new_begins_the_count_anew():
    """A test that passes after every edit is no circle."""
    progress = RepetitionDetector()
    for turn in range(0, 40, 2):
        assert progress.step(turn, "run the tests: they pass") == 1
        assert progress.step(turn + 1, f"edit {turn}") == 1


def test_going_round_in_a_circle_of_many_calls_is_found():
    progress = RepetitionDetector()
    times = [progress.step(turn, "abcd"[turn % 4]) for turn in range(16)]
    # The last new one is 'd', in turn 3: from there on nothing is new.
    assert times == [1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4]


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from("abcde")), max_size=60))
def test_any_sequence_of_calls_is_counted_since_the_last_new_one(steps):
    progress, seen, stretch, turn = RepetitionDetector(), set(), [], 0
    for advance, call in steps:
        turn += advance
        counted = (turn, call) not in {(when, what) for when, what in seen}
        if call not in {what for _, what in seen}:
            stretch = []
        if counted:
            stretch.append(call)
        seen.add((turn, call))
        assert progress.step(turn, call) == (stretch.count(call) if counted else 0)


@given(json_values)
def test_arguments_are_the_same_decoded_or_as_text_however_they_are_written(value):
    arguments = {"b": value, "a": 1}
    written = orjson.dumps({"a": 1, "b": value}, option=orjson.OPT_INDENT_2).decode()
    assert arguments_fingerprint(written) == arguments_fingerprint(arguments)


@given(st.text(), st.text())
def test_arguments_that_are_no_json_are_told_apart_by_their_text(one, other):
    assert (arguments_fingerprint(f"{{{one}") == arguments_fingerprint(f"{{{other}")) == (one == other)


@pytest.mark.parametrize(
    "arguments",
    ["", " ", "{", "\ud800", '"\ud800"', "[" * 300 + "]" * 300, "[" * 5000, "9" * 400, "NaN", '{"a":1}x'],
)
def test_no_arguments_break_it(arguments):
    assert arguments_fingerprint(arguments) == arguments_fingerprint(arguments)


def test_no_arguments_are_an_empty_object():
    assert arguments_fingerprint("") == arguments_fingerprint({})


@pytest.mark.parametrize(
    "result", [SAME, DENIED, failed(ErrorCode.TIMEOUT), ToolResult(meta={"a": (1, 2)})]
)
def test_a_call_is_known_again_from_the_transcript(result):
    """Three times the same, with a restart after each."""
    written, stored = ' {"path" : "a.txt"} ', orjson.dumps(orjson.loads(content_of(result))).decode()
    past = PastCall.from_transcript(7, "read_file", written, stored)
    noted = orjson.dumps({**orjson.loads(stored), "note": "once more"}).decode()
    assert PastCall.from_transcript(7, "read_file", written, noted) == past
    assert past.fingerprint == call_fingerprint("read_file", ARGUMENTS, content_of(result))
    assert (past.denial is not None) == (result is DENIED)
