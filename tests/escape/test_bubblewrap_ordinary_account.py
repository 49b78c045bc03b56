"""bubblewrap and the probe once more by a server that is not root, where user namespaces are allowed."""

import pytest

from tests.escape.ordinary_account import of_root_alone, passed_as_nobody
from tests.escape.wrapped import obstacle

PARTS = ("test_bubblewrap_life.py", "test_bubblewrap_trees.py", "test_bubblewrap_walls.py", "test_probe.py")


@pytest.mark.full
@of_root_alone
@pytest.mark.parametrize("part", PARTS)
def test_an_ordinary_account_is_as_confined_as_root(part):
    if obstacle():
        pytest.skip(obstacle())
    assert " passed" in passed_as_nobody(part)
