"""Cutting output: by lines and by bytes, never inside a character (S3-6.3.2, S3-6.3.3)."""

from hypothesis import given
from hypothesis import strategies as st

from interlock.redaction.redactor import MARK
from interlock.tools.paging import bound_text


def test_short_text_is_left_alone():
    bounded = bound_text("a\nb", max_lines=2, max_bytes=3)
    assert (bounded.text, bounded.truncated_lines, bounded.truncated_bytes) == ("a\nb", False, False)


def test_lines_and_bytes_are_told_apart():
    by_lines = bound_text("a\nb\nc\n", max_lines=2, max_bytes=100)
    assert (by_lines.text, by_lines.truncated_lines, by_lines.truncated_bytes) == ("a\nb\n", True, False)
    by_bytes = bound_text("abcdef", max_lines=2, max_bytes=4)
    assert (by_bytes.text, by_bytes.truncated_lines, by_bytes.truncated_bytes) == ("abcd", False, True)


def test_a_character_is_never_cut():
    assert bound_text("日本語", max_lines=1, max_bytes=4).text == "日"


def test_a_redaction_is_never_cut():
    mark = MARK
    for size in range(2, 2 + len(mark)):
        assert bound_text(f"a {mark}", max_lines=9, max_bytes=size).text == "a "
    assert bound_text(f"a {mark} b", max_lines=9, max_bytes=2 + len(mark)).text == f"a {mark}"


@given(st.text(max_size=200), st.integers(1, 10), st.integers(0, 100))
def test_the_result_is_a_prefix_within_both_limits(text, max_lines, max_bytes):
    bounded = bound_text(text, max_lines=max_lines, max_bytes=max_bytes)
    assert text.startswith(bounded.text)
    assert len(bounded.text.encode("utf-8", "replace")) <= max_bytes
    assert bounded.text.count("\n") <= max_lines
    cut = bounded.truncated_lines or bounded.truncated_bytes
    assert cut == (bounded.text != text)
