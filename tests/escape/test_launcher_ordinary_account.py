"""The same attacks once more by a server that is not root: nothing here may need a privilege."""

import pytest

from tests.escape.ordinary_account import of_root_alone, passed_as_nobody
from tests.harness.case_tables import daily


@of_root_alone
@pytest.mark.parametrize("part", daily(["openings", "deaths", "life", "metadata", "trees", "walls"], 6))
def test_an_ordinary_account_is_as_confined_as_root(part):
    assert " passed" in passed_as_nobody(f"test_launcher_{part}.py")
