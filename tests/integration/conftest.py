"""A bench for each test that calls tools."""

import pytest

from tests.harness.single_tool import SingleToolHarness
from tests.harness.store import StoreHarness
from tests.harness.tool_calls import ToolHarness
from tests.harness.tools import DeclaredTool


@pytest.fixture
async def make_harness(store: StoreHarness):
    session = await store.sessions.create(opened_by="test")

    def build(tool=None, **limits) -> SingleToolHarness:
        return SingleToolHarness(store, tool or DeclaredTool(), session.id, **limits)

    return build


@pytest.fixture
async def harness(sqlite_store: StoreHarness, tmp_path):
    """Every built-in tool, on files of its own. The tools are the same on either database."""
    session = await sqlite_store.sessions.create(opened_by="test")
    return ToolHarness(sqlite_store, session.id, tmp_path)
