"""The mutations still fit the code and the evidence; and trying one tells apart what it should."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.evidence import fault_of, read_rows
from tests.mutations.__main__ import tried
from tests.mutations.catalogue import ROOT, Mutation, read_mutations
from tests.mutations.trial import Bench

MUTATIONS = read_mutations()


def test_every_mutation_still_fits_its_file():
    """`make mutations` takes minutes; that a mutation no longer applies is told here, at once."""
    faults = []
    for mutation in MUTATIONS:
        path = ROOT / "src" / "interlock" / mutation.file
        try:
            mutated = mutation.applied_to(path.read_text())
            if path.suffix == ".py":
                ast.parse(mutated)
        except (ValueError, OSError, SyntaxError) as error:
            faults.append(f"{mutation.id}: {error}")
        if mutation.old == mutation.new:
            faults.append(f"{mutation.id}: nothing is broken in {mutation.file}")
    assert not faults, "\n".join(faults)


def test_every_mutation_breaks_the_evidence_of_its_row():
    """Or it is for a decision, and names the test that holds it."""
    evidence = {row.id: row.tests for row in read_rows((ROOT / "tests" / "EVIDENCE.md").read_text())}
    decisions = {path.name[:4] for path in (ROOT / "docs" / "decisions").glob("0*.md")}
    faults = []
    for mutation in MUTATIONS:
        test = mutation.test_without_parameters
        if mutation.id not in decisions and test not in evidence.get(mutation.id, []):
            faults.append(f"{mutation.id}: {test} is not in its row of tests/EVIDENCE.md")
        if fault := fault_of(test, ROOT):
            faults.append(f"{mutation.id}: {fault}")
    assert not faults, "\n".join(faults)


# -- the trial itself, on a made-up tree -----------------------------------------------------------------

MODULE = "def double(number):\n    return number * 2\n"
TESTS = """
import subprocess, sys
from interlock.doubling import double

def test_exact(): assert double(3) == 6

def test_loose(): assert double(3) > 0

def test_false_already(): assert double(3) == 7

def test_in_a_child():
    code = "from interlock.doubling import double; print(double(3))"
    done = subprocess.run([sys.executable, "-c", code], env={}, capture_output=True, text=True)
    assert done.stdout == "6\\n", done.stderr
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Iterator[Bench]:
    tree = tmp_path_factory.mktemp("made_up")
    (tree / "src" / "interlock").mkdir(parents=True)
    (tree / "src" / "interlock" / "__init__.py").write_text("")
    (tree / "src" / "interlock" / "doubling.py").write_text(MODULE)
    (tree / "tests").mkdir()
    (tree / "tests" / "test_doubling.py").write_text(TESTS)
    (tree / "pyproject.toml").write_text("")
    with pytest.MonkeyPatch.context() as surroundings:
        # They need no plugins, and pytest starts in a third of the time without.
        surroundings.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        yield Bench(tree, tmp_path_factory.mktemp("bench"))


def broken(new: str, test: str) -> Mutation:
    return Mutation("S0-1", "it", "doubling.py", "number * 2", new, f"tests/test_doubling.py::{test}")


@pytest.mark.parametrize(
    ("mutation", "complaint"),
    [
        (broken("number * 3", "test_exact"), None),
        (broken("number * 3", "test_in_a_child"), None),
        (broken("number * 3", "test_loose"), "the test did not notice"),
        (broken("numbr * 3", "test_exact"), "the test did not fail by what it checks: NameError"),
        (broken("number *", "test_exact"), "the test broke before it could look at anything"),
    ],
)
def test_a_mutation_counts_as_noticed_only_if_its_test_looked(bench, mutation, complaint):
    found, _ = tried(bench, mutation, passes=True)
    assert (found is None) if complaint is None else found.startswith(complaint)
    assert (bench.copy / "src" / "interlock" / "doubling.py").read_text() == MODULE


def test_a_test_that_does_not_pass_anyway_shows_nothing(bench):
    found, _ = tried(bench, broken("number * 3", "test_false_already"), passes=False)
    assert found == "the test does not pass on the code as it is"


def test_a_mutation_whose_text_is_not_there_once_is_refused():
    for text, count in (("a", 0), ("number * 2\nnumber * 2\n", 2)):
        with pytest.raises(ValueError, match=f"is {count} times in doubling.py"):
            broken("x", "test_exact").applied_to(text)
