"""A shell for each test that wants one."""

import pytest

from tests.harness.cli import CliRunner


@pytest.fixture
def interlock(tmp_path) -> CliRunner:
    return CliRunner(tmp_path)
