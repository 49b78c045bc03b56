"""Lines of output: within both limits, without secrets, and telling when something was left out."""

from hypothesis import given
from hypothesis import strategies as st

from interlock.redaction.redactor import MARK, Redactor
from interlock.tools.paging import LinePage
from interlock.tools.tool import ToolLimits

SECRET = "sk-known-secret"


def page(max_lines: int, max_bytes: int, limit: int | None = None) -> LinePage:
    limits = ToolLimits(1, 1, max_lines, max_bytes, 1.0, 1.0)
    return LinePage(limits, Redactor([SECRET]), max_lines=limit)


@given(
    st.lists(st.text("aé日😀", max_size=30) | st.just(SECRET), max_size=20),
    st.integers(1, 10),
    st.integers(1, 200),
)
def test_a_page_is_a_beginning_of_the_lines_within_both_limits(lines, max_lines, max_bytes):
    filled = page(max_lines, max_bytes)
    taken = 0
    for line in lines:
        if not filled.add(line):
            break
        taken += 1
    assert len(filled) == taken <= max_lines
    assert len(filled.text.encode()) <= max_bytes
    assert filled.is_full == (taken < len(lines))
    assert filled.is_full <= (filled.truncated_lines or filled.truncated_bytes)
    assert SECRET not in filled.text
    assert Redactor([SECRET]).text(filled.text) == filled.text
    assert filled.text.count("***") == 2 * filled.text.count(MARK)
    if not filled.truncated_bytes:
        assert filled.text.splitlines() == [line.replace(SECRET, MARK) for line in lines[:taken]]


def test_a_first_line_that_is_too_long_is_cut_and_the_page_is_not_full_for_it():
    filled = page(10, 20)
    assert filled.add("x" * 100)
    assert filled.text == "x" * 19 + "\n"
    assert filled.truncated_bytes
    assert not filled.is_full
    assert not filled.add("y")
    assert filled.is_full


def test_the_callers_limit_only_narrows():
    filled = page(2, 100, limit=50)
    assert [filled.add(line) for line in "abc"] == [True, True, False]
    assert filled.truncated_lines
