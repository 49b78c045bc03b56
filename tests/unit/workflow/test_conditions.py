"""Conditions on edges: what they mean, and that no text whatever does anything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.workflow.conditions import MAX_CHARS, InvalidCondition, parse_condition
from tests.harness.case_tables import each_row

KNOWN = {
    ("review", "outcome"): "approve",
    ("build", "visits"): 2,
    ("artifacts", "score"): "7",
    ("run", "steps"): 4,
}


def holds(text: str) -> bool:
    return parse_condition(text).holds(KNOWN.get)


@each_row(
    ("text", "expected"),
    [
        ('review.outcome == "approve"', True),
        ("review.outcome != 'approve'", False),
        ("build.visits < 3 and run.steps >= 4", True),
        ("build.visits > 2 or run.steps == 4.0", True),
        ('not review.outcome == "approve"', False),
        ("not (build.visits == 1 or build.visits == 2)", False),
        ("missing.outcome == null", True),
        ("missing.outcome < 3", False),
        ('artifacts.score == "7"', True),
        # A text is no number, and true is not one.
        ("artifacts.score == 7", False),
        ("build.visits == true", False),
        ("true", True),
        ("review.outcome", False),
        ("true or false and false", True),
    ],
)
def test_a_condition_says_what_it_says(text, expected):
    assert holds(text) is expected


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("review.outcome ==", 18),
        ("review.outcome = 3", 16),
        ("(true", 6),
        ("true false", 6),
        ("a.b; import os", 4),
        ("and", 1),
        ('review.outcome == "x', 19),
        ("(" * 30 + "true" + ")" * 30, 22),
        ("not " * 30 + "true", 85),
    ],
)
def test_what_is_no_condition_is_told_with_its_place(text, column):
    with pytest.raises(InvalidCondition) as told:
        parse_condition(text)
    assert told.value.column == column


def test_a_condition_is_bounded():
    with pytest.raises(InvalidCondition, match="500 characters"):
        parse_condition("a.b == 1 or " * 60 + "true")


WORDS = st.sampled_from(
    ["and", "or", "not", "(", ")", "==", "<", "a.b", "run.steps", '"x"', "3", "-1.5", "true", "null", " "]
)


@given(st.one_of(st.text(max_size=MAX_CHARS + 5), st.lists(WORDS, max_size=60).map(" ".join)))
def test_whatever_is_written_it_is_a_condition_with_a_truth_or_a_fault_with_a_place(text):
    faults = []
    try:
        condition = parse_condition(text)
    except InvalidCondition as malformed:
        faults.append(malformed.column)
    else:
        for value in (None, True, "a", 3, 1.5):
            assert condition.holds(lambda _path, value=value: value) in {True, False}
    assert all(1 <= column <= len(text) + 1 for column in faults)
