"""Cases that a colleague wrote who had not read the rules; what they showed to be missing is there now."""

import pytest

from interlock.redaction.redactor import Redactor
from tests.unit.redaction.case_file import cases, fed

HELD_OUT = cases("held_out.jsonl")
SECRET = [case for case in HELD_OUT if case.is_secret and not case.is_limit]
BENIGN = [case for case in HELD_OUT if not case.is_secret and not case.is_soft]


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor()


def test_none_was_left_out():
    assert (len(SECRET), len(BENIGN)) == (249, 142)
    assert len([case for case in HELD_OUT if case.is_limit]) == 4
    assert not {case.id for case in HELD_OUT} & {case.id for case in cases()}


def test_every_secret_is_taken_out(redactor):
    assert [case.text for case in SECRET if not case.passes(redactor.text(case.text))] == []


def test_no_ordinary_line_is_changed(redactor):
    assert [case.text for case in BENIGN if not case.passes(redactor.text(case.text))] == []


@pytest.mark.parametrize("size", [23, pytest.param(1, marks=pytest.mark.full)])
def test_a_few_characters_at_a_time_give_the_same(redactor, size):
    for case in HELD_OUT:
        pieces = [case.text[at : at + size] for at in range(0, len(case.text), size)]
        assert fed(redactor, *pieces) == redactor.text(case.text), case.id


@pytest.mark.full
def test_a_cut_at_any_offset_gives_the_same(redactor):
    for case in HELD_OUT:
        whole = redactor.text(case.text)
        for cut in range(1, len(case.text)):
            assert fed(redactor, case.text[:cut], case.text[cut:]) == whole, (case.id, cut)


def test_a_second_pass_changes_nothing(redactor):
    for case in HELD_OUT:
        once = redactor.text(case.text)
        assert redactor.text(once) == once, case.id
