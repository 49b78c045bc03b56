"""Cases of colleagues, most of whom had not read the rules; what they showed to be missing is there now."""

import pytest

from interlock.redaction.redactor import Redactor
from tests.unit.redaction.case_file import Case, cases, fed

# How many lines with secrets, harmless ones, and secrets that are known not to be found.
COUNTS = {
    "held_out.jsonl": (250, 142, 3),
    "held_out_2.jsonl": (291, 214, 0),
    "held_out_3.jsonl": (69, 50, 3),
    "held_out_4.jsonl": (644, 758, 5),
    "held_out_5.jsonl": (102, 90, 0),
}
EACH = [case for file in COUNTS for case in cases(file)]
each_file = pytest.mark.parametrize("file", COUNTS)


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor()


def secret(file: str) -> list[Case]:
    return [case for case in cases(file) if case.is_secret and not case.is_limit]


def benign(file: str) -> list[Case]:
    return [case for case in cases(file) if not case.is_secret and not case.is_soft]


@each_file
def test_none_was_left_out(file):
    limits = [case for case in cases(file) if case.is_limit]
    assert (len(secret(file)), len(benign(file)), len(limits)) == COUNTS[file]


def test_no_two_have_the_same_name():
    everything = [*EACH, *cases()]
    assert len({case.id for case in everything}) == len(everything)


@each_file
def test_every_secret_is_taken_out(redactor, file):
    assert [case.text for case in secret(file) if not case.passes(redactor.text(case.text))] == []


@each_file
def test_no_ordinary_line_is_changed(redactor, file):
    assert [case.text for case in benign(file) if not case.passes(redactor.text(case.text))] == []


@pytest.mark.parametrize("size", [47, pytest.param(1, marks=pytest.mark.full)])
def test_a_few_characters_at_a_time_give_the_same(redactor, size):
    for case in EACH:
        pieces = [case.text[at : at + size] for at in range(0, len(case.text), size)]
        assert fed(redactor, *pieces) == redactor.text(case.text), case.id


@pytest.mark.full
def test_a_cut_at_any_offset_gives_the_same(redactor):
    for case in EACH:
        whole = redactor.text(case.text)
        for cut in range(1, len(case.text)):
            assert fed(redactor, case.text[:cut], case.text[cut:]) == whole, (case.id, cut)


def test_a_second_pass_changes_nothing(redactor):
    for case in EACH:
        once = redactor.text(case.text)
        assert redactor.text(once) == once, case.id
