"""A place for each test, with the store and the sandbox tried out once for all of them."""

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.doubles.openai_server import OpenAIServer
from tests.e2e.agent.place import Place


@pytest.fixture(scope="session")
def new_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder as the first start leaves it, to be copied: that start is the longest."""
    place = Place(tmp_path_factory.mktemp("first"), {"MODEL": 'scripted:["ok"]'})
    place.root.mkdir()
    subprocess.run(
        [sys.executable, "-m", "interlock", "exec", "hello", "--root", str(place.root)],
        env=place.environment,
        cwd=place.home,
        capture_output=True,
        check=True,
    )
    (place.state / "interlock.db").unlink()
    (place.state / "interlock.db.reserve").unlink()
    return place.state


def furnish(home: Path, new_state: Path, store: Path) -> Place:
    made = Place(home)
    made.root.mkdir()
    shutil.copytree(new_state, made.state)
    shutil.copy(store, made.state / "interlock.db")
    # Retries are waited for, in real time.
    made.variables["CONTROL_RETRY_SECONDS"] = "0.05"
    return made


@pytest.fixture
def place(tmp_path: Path, new_state: Path, sqlite_template: Path) -> Place:
    return furnish(tmp_path, new_state, sqlite_template)


@pytest.fixture
async def server(place: Place) -> AsyncIterator[OpenAIServer]:
    """The model's server. Whatever it is asked must be valid."""
    async with OpenAIServer() as opened:
        place.asks(opened)
        yield opened
    assert opened.faults == []
