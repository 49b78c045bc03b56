"""Long answers cut into messages: nothing lost, nothing too long, no code block left open."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.channels.telegram.markdown import render_markdown
from interlock.channels.telegram.message_splitter import MAX_UNITS, fence_after, split_message, utf16_length

PLAIN = [
    "word",
    "a",
    "longerword" * 3,
    "\n",
    "\n\n",
    " ",
    ". ",
    "😀",
    "é",
    "e\u0301",
    "👩\u200d🚀",
    "。",
    "x" * 70,
]
MARKED = ["```", "```py", "\n```\n", "\n```python\n", "~~~~", "\n~~~\n", "`", "**", "\r\n", "    "]
WORDS = st.sampled_from([*PLAIN, *MARKED])
TEXTS = st.lists(WORDS | st.text(max_size=6), max_size=120).map("".join)


@given(TEXTS, st.integers(min_value=24, max_value=200))
def test_the_parts_are_the_text_and_each_fits(text, limit):
    parts = split_message(text, limit)
    assert "".join(part.source for part in parts) == text
    for part in parts:
        assert 0 < utf16_length(part.text) <= limit
        assert part.source


@example("word\n```\nwordwordwordwordwordword\n```\n```00000", 33)
@given(TEXTS, st.integers(min_value=24, max_value=200))
def test_no_code_block_is_left_open_by_a_cut(text, limit):
    at_line_start = True
    for part in split_message(text, limit):
        # What looks like a mark in the middle of a line is none.
        begins = bool(part.before) or at_line_start
        left = fence_after(part.text, None, at_line_start=begins, limit=limit)
        assert left is None or not at_line_start
        at_line_start = part.source.endswith("\n")


@given(TEXTS, TEXTS)
def test_the_beginning_of_a_growing_text_is_cut_the_same_way(text, more):
    limit = 64
    before, after = split_message(text, limit), split_message(text + more, limit)
    assert [part.source for part in after[: max(0, len(before) - 2)]] == [
        part.source for part in before[: max(0, len(before) - 2)]
    ]


def test_it_is_cut_at_a_paragraph_before_a_line_before_a_sentence_before_a_word():
    assert [part.source for part in split_message("one two\n\nthree four\nfive", 18)] == [
        "one two\n\n",
        "three four\nfive",
    ]
    assert split_message("one two\nthree four five", 18)[0].source == "one two\n"
    assert split_message("It is. Then more words", 14)[0].source == "It is. "
    assert split_message("just some words", 12)[0].source == "just some "


def test_a_pair_of_units_counts_as_two_and_stays_together():
    parts = split_message("😀" * 3000)
    assert [utf16_length(part.text) for part in parts] == [4094, 1906]
    assert "".join(part.source for part in parts) == "😀" * 3000


def test_a_cut_code_block_is_closed_and_opened_again():
    code = "\n".join(f"line {number}" for number in range(40))
    parts = split_message(f"Look:\n\n```python\n{code}\n```\nDone.", 150)
    assert len(parts) > 2
    assert parts[1].before == "```python\n"
    for part in parts:
        shown = render_markdown(part.text)
        assert "```" not in shown.text
        assert fence_after(part.text, None, at_line_start=True, limit=150) is None
    told = [line for part in parts for line in render_markdown(part.text).text.split("\n")]
    assert [line for line in told if line.startswith("line")] == code.split("\n")


def test_a_code_block_that_fits_into_the_next_message_is_not_cut():
    text = "word " * 12 + "\n\n```\nfour\n\nlines\n```\n\n" + "tail " * 12
    parts = split_message(text, 100)
    assert [part.before + part.after for part in parts] == [""] * len(parts)


def test_a_text_that_fits_stays_as_it_is():
    assert [part.text for part in split_message("a\n\nb")] == ["a\n\nb"]
    assert split_message("") == []


def test_an_open_block_at_the_end_of_the_text_is_closed():
    (part,) = split_message("```py\nprint(1)")
    assert part.text == "```py\nprint(1)\n```"


RUNS = {"ticks": "`" * 50_000, "waves": "~" * 50_000, "words": f"words {'`' * 5000}" + " words\n" * 5000}


@pytest.mark.parametrize("name", RUNS)
def test_a_long_run_of_marks_does_not_make_a_message_of_each_character(name):
    run = RUNS[name]
    parts = split_message(run)
    assert "".join(part.source for part in parts) == run
    assert len(parts) < 3 + 2 * len(run) // MAX_UNITS
