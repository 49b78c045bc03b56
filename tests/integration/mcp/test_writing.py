"""A server that may write leaves protected names as they were, whoever calls beside it or stops."""

import asyncio
from pathlib import Path

import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import ErrorCode
from interlock.gates.gate import ToolCall
from interlock.sandbox import protected_snapshot
from interlock.tools.mcp.connection import McpConnection
from interlock.tools.result import ToolResult
from interlock.tools.tool import ToolContext
from tests.harness.mcp import McpHarness


@pytest.fixture
async def hooks(harness: McpHarness) -> Path:
    folder = harness.root / ".git" / "hooks"
    folder.mkdir(parents=True)
    (folder / "pre-commit").write_text("#!/bin/sh\n")
    await harness.ready("writes", roots="write")
    return folder


@pytest.fixture
def slow_end(monkeypatch):
    """The window in which somebody else calls, or the one who waits is cancelled."""
    close, begun = McpConnection.close, asyncio.Event()

    async def slowly(self):
        begun.set()
        await asyncio.sleep(0.6)
        await close(self)

    monkeypatch.setattr(McpConnection, "close", slowly)
    return begun


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def call_in(harness: McpHarness, session_id: str, path: Path) -> ToolResult:
    authority = await harness.runtime.authority(ToolMode.coding)
    call = ToolCall(f"call-{path.name}", "bad__echo", {"text": str(path)}, timeout_seconds=20)
    return await harness.runtime.runner.call(call, authority, ToolContext(session_id))


async def test_a_call_that_comes_while_another_ends_leaves_nothing_planted(
    harness: McpHarness, hooks: Path, slow_end
):
    other = await harness.runtime.sessions.create(opened_by="test", mode=ToolMode.coding)
    first = asyncio.ensure_future(call_in(harness, harness.session_id, harness.root / "ok"))
    await slow_end.wait()
    second = await call_in(harness, other.id, hooks / "post-merge")
    assert (await first).ok
    assert names(hooks) == ["pre-commit"]
    assert "the change was undone" in second.stderr
    assert protected_snapshot._MEMORY._held == {}
    (hooks / "pre-commit").write_text("the person's own\n")
    assert (await call_in(harness, harness.session_id, harness.root / "more")).ok
    assert (hooks / "pre-commit").read_text() == "the person's own\n"


@pytest.mark.parametrize("times", [1, 3])
async def test_a_call_that_is_cancelled_while_its_server_ends_leaves_nothing_planted(
    harness: McpHarness, hooks: Path, slow_end, times
):
    calling = asyncio.ensure_future(harness.call("bad__echo", text=str(hooks / "post-merge")))
    await slow_end.wait()
    for _ in range(times):
        calling.cancel()
        await asyncio.sleep(0.05)
    await asyncio.gather(calling, return_exceptions=True)
    await asyncio.sleep(1.5)
    assert names(hooks) == ["pre-commit"]
    assert protected_snapshot._MEMORY._held == {}
    assert [event["server"] for event in await harness.flushed("mcp.restored")] == ["bad"]


async def test_the_end_of_the_runtime_waits_for_what_is_put_back(
    harness: McpHarness, hooks: Path, slow_end
):
    calling = asyncio.ensure_future(harness.call("bad__echo", text=str(hooks / "post-merge")))
    await slow_end.wait()
    calling.cancel()
    closing = asyncio.ensure_future(harness.runtime.mcp.close())
    await asyncio.sleep(0.05)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    assert names(hooks) == ["pre-commit"]
    await asyncio.gather(calling, return_exceptions=True)


async def test_a_call_that_runs_out_of_time_tells_what_was_put_back(harness: McpHarness):
    folder = harness.root / ".git" / "hooks"
    folder.mkdir(parents=True)
    await harness.ready("writes-and-hangs", roots="write")
    result = await harness.call("bad__echo", seconds=2.0, text=str(folder / "post-merge"))
    assert result.failure.error_code is ErrorCode.TIMEOUT
    assert names(folder) == []
    assert "the change was undone" in result.failure.message
    assert (await harness.flushed("mcp.restored"))[0]["paths"]
