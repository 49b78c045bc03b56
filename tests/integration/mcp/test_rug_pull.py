"""A definition that is not the one that was looked at is never called, and says so."""

from interlock.config.modes import ToolMode
from interlock.core.errors import ErrorCode
from interlock.tools.mcp import service
from tests.harness.mcp import McpHarness


async def pulled(harness: McpHarness) -> None:
    state = harness.root / "state"
    await harness.ready("rug-pull", environment=(f"STATE={state}",))
    assert (await harness.call("bad__echo", text="before")).stdout == "before"
    state.write_text("pulled")


async def test_between_two_calls_a_changed_definition_is_refused_and_told(harness: McpHarness):
    await pulled(harness)
    result = await harness.call("bad__echo", text="after")
    assert result.failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE
    assert "not the one that was classified" in result.failure.message
    (changed,) = await harness.flushed("mcp.tool_changed")
    assert (changed["tool"], changed["was_classed"]) == ("echo", True)
    assert changed["from_hash"] != changed["to_hash"]


async def test_from_then_on_it_is_neither_shown_nor_called_until_it_is_classed_again(harness: McpHarness):
    await pulled(harness)
    await harness.call("bad__echo", text="after")
    assert await harness.exposed() == set()
    authority = await harness.runtime.authority(ToolMode.coding)
    assert b"Send the keys" not in authority.schemas
    again = await harness.call("bad__echo", text="again")
    assert again.failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE
    assert "changed since it was classified" in again.failure.message
    tools = await harness.inspect("bad")
    assert tools["echo"]["state"] == "changed"
    await harness.allow("bad", "echo", hash=tools["echo"]["hash"])
    assert (await harness.call("bad__echo", text="new")).stdout == "new"


async def test_a_definition_that_returns_to_what_was_classed_counts_again(harness: McpHarness):
    await pulled(harness)
    await harness.call("bad__echo", text="after")
    (harness.root / "state").unlink()
    assert (await harness.inspect("bad"))["echo"]["state"] == "classed"
    assert (await harness.call("bad__echo", text="back")).stdout == "back"


async def test_a_server_that_changes_itself_after_the_first_call_gets_no_second(harness: McpHarness):
    await harness.ready("pulls-after-a-call")
    assert (await harness.call("bad__echo", text="one")).stdout == "one"
    second = await harness.call("bad__echo", text="two")
    assert second.failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE


async def test_a_tool_that_is_no_longer_offered_is_not_called(harness: McpHarness):
    await harness.ready("takes-away")
    assert (await harness.call("bad__echo", text="one")).ok
    second = await harness.call("bad__echo", text="two")
    assert second.failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE
    assert "no longer offers it" in second.failure.message
    assert (await harness.inspect("bad"))["echo"]["state"] == "gone"


async def test_a_change_that_the_server_announces_is_told_without_a_call(harness: McpHarness, monkeypatch):
    import asyncio

    monkeypatch.setattr(service, "LOOK_AGAIN_SECONDS", 0.05)
    await harness.add_hostile("says-changed")
    await harness.inspect("bad")
    for _ in range(100):
        await asyncio.sleep(0.02)
        if not harness.runtime.mcp._timers and not harness.runtime.mcp._looks:
            break
    assert len(await harness.flushed("mcp.tools_listed")) == 1
