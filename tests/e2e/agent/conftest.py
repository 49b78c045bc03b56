"""A place for each test, with the store and the sandbox tried out once for all of them."""

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.cli_processes import ProcessHarness
from tests.harness.model_server import ModelServer


@pytest.fixture(scope="session")
def new_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder as the first start leaves it, to be copied: that start is the longest."""
    harness = ProcessHarness(tmp_path_factory.mktemp("first"), {"MODEL": 'scripted:["ok"]'})
    harness.root.mkdir()
    subprocess.run(
        [sys.executable, "-m", "interlock", "exec", "hello", "--root", str(harness.root)],
        env=harness.environment,
        cwd=harness.home,
        capture_output=True,
        check=True,
    )
    (harness.state / "interlock.db").unlink()
    (harness.state / "interlock.db.reserve").unlink()
    return harness.state


def furnish(home: Path, new_state: Path, store: Path) -> ProcessHarness:
    made = ProcessHarness(home)
    made.root.mkdir()
    shutil.copytree(new_state, made.state)
    shutil.copy(store, made.state / "interlock.db")
    # Retries are waited for, in real time.
    made.variables["CONTROL_RETRY_SECONDS"] = "0.05"
    return made


@pytest.fixture
def harness(tmp_path: Path, new_state: Path, sqlite_template: Path) -> ProcessHarness:
    return furnish(tmp_path, new_state, sqlite_template)


@pytest.fixture
async def server(harness: ProcessHarness) -> AsyncIterator[ModelServer]:
    """The model's server. Whatever it is asked must be valid."""
    async with ModelServer() as opened:
        harness.asks(opened)
        yield opened
    assert opened.faults == []
