"""A bench for each test that calls tools."""

import pytest

from tests.conftest import Store
from tests.doubles import DeclaredTool
from tests.integration.bench import Bench
from tests.integration.workbench import Workbench


@pytest.fixture
async def bench(store: Store):
    session = await store.sessions.create(opened_by="test")

    def build(tool=None, **limits) -> Bench:
        return Bench(store, tool or DeclaredTool(), session.id, **limits)

    return build


@pytest.fixture
async def workbench(sqlite_store: Store, tmp_path):
    """Every built-in tool, on files of its own. The tools are the same on either database."""
    session = await sqlite_store.sessions.create(opened_by="test")
    return Workbench(sqlite_store, session.id, tmp_path)
