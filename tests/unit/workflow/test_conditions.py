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
        ("missing.a\n!= 'a\\n' and\t(-1.5 < 1)", True),
        ("review.outcome > 'appro\\' and 'b' > 'a'", True),
        ("not missing.outcome", True),
        ("(null == missing.outcome) == true", True),
        ("999999999999999 > build.visits", True),
    ],
)
def test_a_condition_says_what_it_says(text, expected):
    assert holds(text) is expected


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("review.outcome = 3", 16),
        ("a.b; import os", 4),
        ('review.outcome == "x', 19),
        ("(" * 30 + "true" + ")" * 30, 21),
        ("not " * 30 + "true", 85),
        ("1 < build.visits < 3", 20),
        ("true and a.b ()", 10),
        ("a.b\x00", 4),
        ("é.outcome == 'x'", 1),
    ],
)
def test_what_is_no_condition_is_told_with_its_place(text, column):
    with pytest.raises(InvalidCondition) as told:
        parse_condition(text)
    assert told.value.column == column


@pytest.mark.parametrize(
    "text",
    [
        *("review.outcome ==", "(true", "true)", "true false", "and", "not", "a.b == not true", "()"),
        *("open('/etc/passwd')", "a.b()", "a.b ()", "(lambda: true)()", "f'{a.b}'", "(a.b := 3) == 3"),
        *("a.b is null", "'a' in a.b", "a.b if true else false", "await a.b", "*a.b", "a.b, a.c", "a.b[0]"),
        *("-a.b == 3", "- 3 == a.b", "a.b + 3 == 4", "a.b ** 9 == 1", "~a.b", "a.b == c.d == true"),
        *("9" * 400, "1e400 == a.b", "0x10 == a.b", "a.b == 1_000", "a.b == ٣", "a.b == 'x\\'y'"),
        *('a.b == "x" "y"', "a.b == b'x'", "ａ.outcome == 'x'", "a.b # true", "true\n) or (true", "a.b;"),
        *("a. b == 3", "a..b == 3", ".a == 3", "{a.b}", "a.b == ...", "a.b <> 3", "a.b === 3", "`a`"),
    ],
)
def test_what_python_would_run_or_read_otherwise_is_refused(text):
    with pytest.raises(InvalidCondition):
        parse_condition(text)


@pytest.mark.parametrize(
    "word", ["import", "is", "in", "lambda", "None", "True", "yield", "__import__", "_0"]
)
def test_words_of_python_are_names_like_any_other(word):
    condition = parse_condition(f"{word}.outcome == 'x' and true")
    assert condition.names == {(word, "outcome")}
    assert condition.compared == {((word, "outcome"), "x")}
    assert condition.holds({(word, "outcome"): "x"}.get)
    assert not condition.holds({}.get)


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
