"""Cursors: only what was given out, only for the call it was given to."""

import base64

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.core.errors import ErrorCode, ToolError
from interlock.tools.files.cursor import (
    cursor_subject,
    make_cursor,
    number_in,
    optional_number_in,
    read_cursor,
    text_in,
)
from tests.harness.case_tables import each_row


def test_a_cursor_comes_back_as_it_was():
    cursor = make_cursor("s", "v", {"offset": 5, "after": "x"})
    version, position = read_cursor(cursor, "s")
    assert (version, number_in(position, "offset"), text_in(position, "after")) == ("v", 5, "x")
    assert cursor.isascii()
    assert cursor.replace("-", "").replace("_", "").isalnum()


def test_a_cursor_of_another_call_is_refused():
    with pytest.raises(ToolError, match="other arguments"):
        read_cursor(make_cursor("s", "v", {}), "t")


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(value)).decode().rstrip("=")


@each_row(
    "cursor",
    [
        *("5", "x", "!", "é", "====", "a" * 4096, "null", " "),
        *(_encoded(value) for value in (5, None, "abc", [], {}, {"a": 1, "b": 2, "c": 3}, [1, 2, 3])),
        *(_encoded(value) for value in (["s", "v", []], ["s", 1, {}], [None, "v", {}], [[], "v", {}])),
    ],
)
def test_anything_else_is_refused_with_a_sentence(cursor):
    with pytest.raises(ToolError) as refused:
        read_cursor(cursor, "s")
    assert refused.value.error_code is ErrorCode.INVALID_ARGS
    assert refused.value.message.startswith("cursor: ")


@given(st.text(min_size=1, max_size=60))
def test_no_text_does_worse_than_being_refused(cursor):
    with pytest.raises(ToolError):
        read_cursor(cursor, "s")


@pytest.mark.parametrize("value", [-1, True, 1.5, "5", None, 2**60, [], 2**64 - 1])
def test_a_number_in_a_cursor_is_a_number_that_a_file_can_have(value):
    with pytest.raises(ToolError):
        number_in({"n": value}, "n")
    if value is not None:
        with pytest.raises(ToolError):
            optional_number_in({"n": value}, "n")


def test_subjects_differ_when_arguments_do_and_take_any_name():
    assert cursor_subject("a", "b") != cursor_subject("ab", "")
    assert cursor_subject("a", None) != cursor_subject("a", "") != cursor_subject("a")
    assert cursor_subject("name-\udcff") != cursor_subject("name-\udcfe")
