"""An agent loop over a real runtime for each test."""

from collections.abc import AsyncIterator

import pytest

from interlock.config.modes import ToolMode
from tests.harness.agent_loop import SECRET, LoopHarness
from tests.harness.runtime import open_agent_runtime_here, set_environment


@pytest.fixture
async def harness(tmp_path, monkeypatch) -> AsyncIterator[LoopHarness]:
    root = set_environment(tmp_path, monkeypatch, {"OPENAI_API_KEY": SECRET})
    async with open_agent_runtime_here(opened=list(ToolMode)) as agent_runtime:
        yield LoopHarness(agent_runtime, root)
