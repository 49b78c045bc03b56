"""Servers that hang, flood, lie and die when they are called. Each hurts its own call, and nothing else."""

import asyncio
import json
import time

import pytest

from interlock.core.errors import ErrorCode
from interlock.tools.mcp import connection
from tests.escape.hostile_servers import processes_with, still_works, until_gone
from tests.escape.loop_watch import watched_loop
from tests.harness.mcp import McpHarness


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("floods-one-line", "larger than"),
        ("floods-lines", "not the MCP protocol"),
        ("floods-messages", "sends output without end"),
        ("floods-requests", "sends output without end"),
        ("too-large", "larger than"),
        ("dies", "exit code 7; its last output: out of luck"),
        ("forks", "exit code 0"),
        ("bare", "does not conform"),
        ("no-shape", "does not conform"),
        ("error", "it answered with an error: no way"),
    ],
)
async def test_what_a_server_does_wrong_is_told_and_only_its_call_fails(mcp: McpHarness, behaviour, reason):
    await mcp.ready(behaviour)
    async with watched_loop() as watch:
        result = await mcp.call("bad__echo", text="x")
    assert result.failure.error_code is ErrorCode.EXECUTION_ERROR
    assert reason in result.failure.message
    assert watch.longest_seconds < 2
    await still_works(mcp)
    if behaviour not in {"bare", "no-shape", "error"}:
        assert await until_gone(behaviour)
    assert await until_gone("3599")


@pytest.mark.parametrize(
    ("behaviour", "shown"),
    [
        ("invalid-json", "survived"),
        ("wrong-id", "right"),
        ("answers-twice", "first"),
        ("greets", "x"),
        ("floods-errors", "done"),
    ],
)
async def test_what_does_no_harm_is_passed_over(mcp: McpHarness, behaviour, shown):
    await mcp.ready(behaviour)
    for _ in range(2):
        result = await mcp.call("bad__echo", text="x")
        assert result.ok
        assert result.stdout.splitlines()[0] == shown


async def test_a_result_nested_without_end_can_still_be_told(mcp: McpHarness):
    await mcp.ready("deep-json")
    result = await mcp.call("bad__echo", text="x")
    assert result.ok or result.failure.error_code is ErrorCode.EXECUTION_ERROR
    await still_works(mcp)


async def test_a_call_that_hangs_ends_by_its_time_and_its_server_with_it(mcp: McpHarness, monkeypatch):
    monkeypatch.setattr(connection, "PING_SECONDS", 0.5)
    await mcp.ready("hangs")
    began = time.perf_counter()
    assert processes_with("hangs")
    result = await mcp.call("bad__echo", seconds=1.0, text="x")
    assert time.perf_counter() - began < 20
    assert result.failure.error_code is ErrorCode.TIMEOUT
    assert "it is not known whether it took effect" in result.failure.message
    assert await until_gone("hangs")
    # Its end is told when it is known that it has ended.
    async with asyncio.timeout(20):
        while not (failed := await mcp.flushed("mcp.server_failed")):
            await asyncio.sleep(0.05)
    assert "stopped responding" in str(failed)
    await still_works(mcp)


async def test_a_server_that_hangs_one_call_and_answers_others_is_told_and_kept(mcp: McpHarness, tmp_path):
    told = mcp.root / "told"
    told.touch()
    await mcp.ready("hangs-but-answers", environment=(f"STATE={told}",), roots="write")
    result = await mcp.call("bad__echo", seconds=1.0, text="x")
    assert result.failure.error_code is ErrorCode.TIMEOUT
    methods = [json.loads(line).get("method") for line in told.read_text().splitlines()]
    assert "notifications/cancelled" in methods


async def test_who_cancels_does_not_wait_for_the_server(mcp: McpHarness):
    await mcp.ready("hangs")
    calling = asyncio.ensure_future(mcp.call("bad__echo", seconds=60.0, text="x"))
    for _ in range(200):
        await asyncio.sleep(0.02)
        if await mcp.flushed("tool_call.started", mcp.session_id):
            break
    await asyncio.sleep(0.3)
    began = time.perf_counter()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert time.perf_counter() - began < 10
    failed = await mcp.flushed("tool_call.failed", mcp.session_id)
    assert failed[-1]["error_code"] == "CANCELLED"


async def test_requests_of_a_server_are_declined(mcp: McpHarness):
    await mcp.ready("asks")
    result = await mcp.call("bad__echo", text="x")
    assert json.loads(result.stdout) == {"q1": True, "q2": True, "q3": True}


async def test_a_promise_that_is_not_kept_is_a_failure(mcp: McpHarness):
    await mcp.ready("lies")
    result = await mcp.call("bad__echo", text="x")
    assert "does not match its declared schema" in result.failure.message
