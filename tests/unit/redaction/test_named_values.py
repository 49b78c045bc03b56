"""A table of values behind names, and of what only looks like one: see `named.txt`."""

import re

import pytest

from interlock.redaction.redactor import MARK, Redactor
from tests.unit.redaction.case_file import FOLDER, fed

MARKED = re.compile("«[^»]*»")


def table() -> list[tuple[str, str]]:
    """Each text with what is shown of it."""
    lines = (FOLDER / "named.txt").read_text("utf-8").split("\n")
    rows = [line.replace("⏎", "\n") for line in lines if line and not line.startswith("%%")]
    return [(re.sub("[«»]", "", row), MARKED.sub(MARK, row)) for row in rows]


TABLE = table()


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor()


def test_the_table_is_broad_and_has_no_row_twice():
    assert sum(shown != text for text, shown in TABLE) >= 300
    assert sum(shown == text for text, shown in TABLE) >= 600
    assert len({text for text, _ in TABLE}) == len(TABLE)


def test_exactly_the_values_are_masked(redactor):
    assert [(text, found) for text, shown in TABLE if (found := redactor.text(text)) != shown] == []


def test_one_character_at_a_time_gives_the_same(redactor):
    assert [(text, found) for text, shown in TABLE if (found := fed(redactor, *text)) != shown] == []


@pytest.mark.full
def test_a_cut_at_any_offset_gives_the_same(redactor):
    for text, shown in TABLE:
        for cut in range(1, len(text)):
            assert fed(redactor, text[:cut], text[cut:]) == shown, (text, cut)


def test_all_rows_in_one_text_give_the_same(redactor):
    """Apart, since a section of a file of settings has its say about the lines below it."""
    apart = "\n" + "-" * 300 + "\n"
    whole, shown = (apart.join(side) for side in zip(*TABLE, strict=True))
    assert redactor.text(whole) == shown


def test_a_second_pass_changes_nothing(redactor):
    assert [shown for _, shown in TABLE if redactor.text(shown) != shown] == []
