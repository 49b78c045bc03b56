"""Recall and false alarms over the labelled lines: whole, by single characters, and cut at every offset."""

import pytest

from interlock.redaction.redactor import Redactor
from tests.unit.redaction.case_file import Case, cases, fed

SECRET = [case for case in cases() if case.is_secret]
BENIGN = [case for case in cases() if not case.is_secret and not case.is_soft]


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor()


def share_that_passes(redactor: Redactor, chosen: list[Case]) -> float:
    return sum(case.passes(redactor.text(case.text)) for case in chosen) / len(chosen)


def test_there_are_enough_cases_and_no_two_have_the_same_name():
    assert len(SECRET) >= 93 + 350
    assert len(BENIGN) >= 68 + 280
    assert len({case.id for case in cases()}) == len(cases())


@pytest.mark.parametrize("origin", ["sec-", "own-", "new-"])
def test_at_least_97_of_100_secrets_are_taken_out(redactor, origin):
    assert share_that_passes(redactor, [case for case in SECRET if case.id.startswith(origin)]) >= 0.97


@pytest.mark.parametrize("origin", ["sec-", "own-", "new-"])
def test_at_most_one_of_100_ordinary_lines_is_changed(redactor, origin):
    assert share_that_passes(redactor, [case for case in BENIGN if case.id.startswith(origin)]) >= 0.99


def test_no_line_of_a_private_key_stays(redactor):
    blocks = [case for case in SECRET if "-----BEGIN" in case.text]
    assert len(blocks) >= 9
    assert [case.id for case in blocks if not case.passes(redactor.text(case.text))] == []


def test_what_stands_around_a_secret_stays(redactor):
    for case in SECRET:
        shown = redactor.text(case.text)
        first = min(case.text.index(hidden) for hidden in case.hidden)
        # A name or a scheme before the value is context, and some rules take a whole URL.
        if "https://" not in case.text:
            assert shown[: min(first, 4)] == case.text[: min(first, 4)], case.id


# By far the longest of these tests: the newest cases take their turn in the long run.
PARTS = pytest.mark.parametrize("is_new", [False, pytest.param(True, marks=pytest.mark.full)])


@pytest.mark.full
@PARTS
def test_one_character_at_a_time_gives_the_same(redactor, is_new):
    chosen = [case for case in cases() if case.id.startswith("new-") is is_new]
    assert [case.id for case in chosen if fed(redactor, *case.text) != redactor.text(case.text)] == []


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.full)])
def test_a_cut_at_any_offset_gives_the_same(redactor, step):
    for number, case in enumerate(cases()):
        whole = redactor.text(case.text)
        for cut in range(1 + number % step, len(case.text), step):
            assert fed(redactor, case.text[:cut], case.text[cut:]) == whole, (case.id, cut)


def test_a_second_pass_changes_nothing(redactor):
    for case in cases():
        once = redactor.text(case.text)
        assert redactor.text(once) == once, case.id
