"""tests/EVIDENCE.md has a row for every requirement, and what the rows name is there."""

import re
from pathlib import Path

import pytest

from tests.architecture.evidence import faults, mentioned_ids, read_ids

ROOT = Path(__file__).parents[2]
IDS = read_ids(ROOT / "tests" / "data" / "requirement_ids.txt")
PAGE = ROOT / "tests" / "EVIDENCE.md"

# What the test plan for tool modes asks for by name.
NAMED_IN_THE_PLAN = ROOT / "tests" / "data" / "planned_tests.txt"


def test_every_requirement_has_its_evidence():
    found = faults(PAGE.read_text(), list(IDS), ROOT)
    assert not found, "tests/EVIDENCE.md:\n" + "\n".join(found)


def test_every_test_that_the_plan_names_is_there():
    written = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    names = set(re.findall(r"^(?:async )?def (test_\w+)\(", written, re.MULTILINE))
    planned = NAMED_IN_THE_PLAN.read_text().split()
    assert planned
    assert [name for name in planned if name not in names] == []


# -- the check itself, on made-up pages ------------------------------------------------------------------

TESTS = """
import pytest

def test_plain(): assert True

@pytest.mark.parametrize("a", [1])
async def test_with_cases(a): assert a

class TestGroup:
    def test_inside(self): assert True

    @pytest.mark.skip(reason="later")
    def test_left_out(self): assert True

@pytest.mark.skip
def test_skipped(): assert True

@pytest.mark.skipif(True, reason="always")
def test_skipped_always(): assert True

@pytest.mark.skipif(not hasattr(pytest, "x"), reason="sometimes")
def test_skipped_sometimes(): assert True

@pytest.mark.xfail
def test_expected_to_fail(): assert False

def test_gives_up():
    pytest.skip("later")

def no_test(): ...
"""


@pytest.fixture
def tree(tmp_path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(TESTS)
    (tmp_path / "tests" / "test_off.py").write_text(
        "import pytest\npytestmark = [pytest.mark.skip]\ndef test_b(): ...\n"
    )
    (tmp_path / "docs" / "decisions").mkdir(parents=True)
    (tmp_path / "docs" / "decisions" / "0001-a.md").write_text("Requirements: S0-1, S1-2 to S1-4, S1-9.\n")
    return tmp_path


def checked(tree: Path, cell: str, requirement: str = "S0-7") -> list[str]:
    """What is wrong with a page of one row."""
    head = f"## {requirement[:2]}\n\n| id | evidence |\n|---|---|\n"
    return faults(f"{head}| {requirement} | {cell} |\n", [requirement], tree)


@pytest.mark.parametrize(
    "cell",
    [
        "`tests/test_a.py::test_plain`",
        "`tests/test_a.py::test_with_cases`<br>`tests/test_a.py::TestGroup::test_inside`",
        "`tests/test_a.py::test_plain`, [0001](../docs/decisions/0001-a.md)",
        "`tests/test_a.py::test_skipped_sometimes`",
    ],
)
def test_sound_evidence_is_accepted(tree, cell):
    assert checked(tree, cell) == []


@pytest.mark.parametrize(
    ("cell", "fault"),
    [
        ("", "names neither a test nor a decision"),
        ("later", "names neither a test nor a decision"),
        ("`tests/test_a.py::test_plain` more or less", "'more or less' is neither a test"),
        ("`tests/test_a.py::test_gone`", "tests/test_a.py has no test_gone"),
        ("`tests/test_a.py::test_inside`", "tests/test_a.py has no test_inside"),
        ("`tests/test_a.py::TestGroup::test_plain`", "has no TestGroup::test_plain"),
        ("`tests/test_gone.py::test_plain`", "there is no file tests/test_gone.py"),
        ("`tests/test_a.py`", "does not name a test"),
        ("`tests/test_a.py::TestGroup`", "does not name a test"),
        ("`tests/test_a.py::no_test`", "does not name a test"),
        ("`src/a.py::test_plain`", "is not the path and name of a test"),
        ("`tests/test_a.py::test_skipped`", "is never run to its end"),
        ("`tests/test_a.py::test_skipped_always`", "is never run to its end"),
        ("`tests/test_a.py::TestGroup::test_left_out`", "is never run to its end"),
        ("`tests/test_a.py::test_expected_to_fail`", "is never run to its end"),
        ("`tests/test_a.py::test_gives_up`", "is never run to its end"),
        ("`tests/test_off.py::test_b`", "is never run to its end"),
        ("[0002](../docs/decisions/0002-b.md)", "there is no decision 0002-b.md"),
        ("[0001](../docs/decisions/0001-a.md)", "rests on a decision alone, which does not name it"),
        ("<br>".join(["`tests/test_a.py::test_plain`"] * 4), "names 4 tests"),
    ],
)
def test_evidence_that_shows_nothing_is_told(tree, cell, fault):
    [told] = checked(tree, cell)
    assert told.startswith("line 5, S0-7: ")
    assert fault in told


@pytest.mark.parametrize("requirement", ["S0-1", "S1-9"])
def test_a_decision_that_names_the_requirement_is_enough(tree, requirement):
    assert checked(tree, "[0001](../docs/decisions/0001-a.md)", requirement) == []


def test_a_decision_names_what_is_between_two_ids():
    ids = ["S1-1", "S1-2", "S1-3.1", "S1-4", "S1-5"]
    assert mentioned_ids("Requirements: S1-2 to S1-4, and S1-5.", ids) == set(ids[1:])


def test_a_missing_a_repeated_an_unknown_and_a_misplaced_row_are_told(tree):
    row = "| {} | `tests/test_a.py::test_plain` |\n"
    page = "## S0\n" + row.format("S0-1") * 2 + row.format("S0-99") + row.format("S1-3")
    assert faults(page, ["S0-1", "S0-2", "S1-3"], tree) == [
        "S0-1 has 2 rows; it needs exactly one",
        "S0-2 has no row; it needs exactly one",
        "line 4, S0-99: there is no such requirement",
        "line 5, S1-3: it stands under S0",
    ]
