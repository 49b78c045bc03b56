"""Servers that hang, flood, lie or die before they are of any use."""

import asyncio

import pytest

from interlock.core.errors import UserError
from interlock.tools.mcp import connection
from tests.escape.hostile_servers import still_works, until_gone
from tests.harness.mcp import HOSTILE, QUICK, McpHarness


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("hangs-at-hello", "did not complete the handshake"),
        ("hangs-at-list", "did not answer within"),
        ("dies-at-hello", "exit code 3; its last output: cannot find my settings"),
        ("bad-listing", "does not conform"),
        ("storms", "sends output without end"),
    ],
)
async def test_a_server_that_cannot_even_begin_is_told_of_and_left_dead(
    mcp: McpHarness, monkeypatch, behaviour, reason
):
    monkeypatch.setattr(connection, "START_SECONDS", 1.5)
    monkeypatch.setattr(connection.McpConnection.tools, "__defaults__", (1.5,))
    await mcp.add_hostile(behaviour)
    with pytest.raises(UserError, match=reason):
        for _ in range(3):
            # A storm may be noticed a moment after the first answer.
            await mcp.inspect("bad")
            await asyncio.sleep(0.5)
    if behaviour != "storms":
        await still_works(mcp)
    await mcp.runtime.close()
    assert await until_gone(behaviour)


async def test_pages_without_end_and_thousands_of_tools_are_cut(mcp: McpHarness):
    await mcp.add_hostile("pages-without-end")
    assert len(await mcp.inspect("bad")) <= 20
    await mcp.add("many", *QUICK, str(HOSTILE), "many-tools")
    assert len(await mcp.inspect("many")) == 200


async def test_a_server_that_keeps_failing_is_left_alone_for_a_while(mcp: McpHarness):
    await mcp.add_hostile("dies-at-hello")
    for _ in range(2):
        with pytest.raises(UserError, match="last output"):
            await mcp.inspect("bad")
    with pytest.raises(UserError, match="the next attempt is in"):
        await mcp.inspect("bad")
    failed = await mcp.flushed("mcp.server_failed")
    assert len(failed) == 2
    assert "cannot find my settings" in failed[0]["reason"]


async def test_nothing_is_left_when_interlock_ends(mcp: McpHarness):
    # Servers of other tests that run at the same time have other words.
    await mcp.ready("well", "left-behind", name="bad")
    assert (await mcp.call("bad__echo", text="x")).ok
    await mcp.runtime.close()
    assert await until_gone("left-behind")
