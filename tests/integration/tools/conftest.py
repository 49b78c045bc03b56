"""What tests of the file tools look at besides results."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import orjson
import pytest

from tests.harness.tool_calls import ToolHarness


@pytest.fixture
def open_descriptors() -> Callable[[], set[tuple[str, str]]]:
    """Every descriptor of this process and what it leads to, without the one that lists them."""

    def look() -> set[tuple[str, str]]:
        found = set()
        for number in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):
                target = str(number.readlink())
                # SQLite opens its files when it needs them.
                if "/state/" not in target:
                    found.add((number.name, target))
        return found

    return look


@pytest.fixture
def as_ordinary_account(harness: ToolHarness) -> Callable[..., dict]:
    """A call of a reading tool by an account that has to have permission."""

    def call(tool: str, **arguments) -> dict:
        module = "tests.integration.tools.ordinary_account"
        encoded = orjson.dumps(arguments).decode()
        child = subprocess.run(
            [sys.executable, "-m", module, str(harness.root), tool, encoded],
            capture_output=True,
            check=True,
            timeout=30,
        )
        return orjson.loads(child.stdout)

    return call
