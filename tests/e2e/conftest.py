"""A shell for each test that wants one."""

import pytest

from tests.e2e.shell import Shell


@pytest.fixture
def interlock(tmp_path) -> Shell:
    return Shell(tmp_path)
