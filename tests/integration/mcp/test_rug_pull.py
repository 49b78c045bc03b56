"""A definition that is not the one that was looked at is never called, and says so."""

from interlock.config.modes import ToolMode
from interlock.infra.errors import ErrorCode
from interlock.tools.mcp import desk
from tests.integration.mcp.stand import Stand


async def pulled(stand: Stand) -> None:
    state = stand.root / "state"
    await stand.ready("rug-pull", environment=(f"STATE={state}",))
    assert (await stand.call("bad__echo", text="before")).stdout == "before"
    state.write_text("pulled")


async def test_between_two_calls_a_changed_definition_is_refused_and_told(stand: Stand):
    await pulled(stand)
    result = await stand.call("bad__echo", text="after")
    assert result.failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE
    assert "no longer the one that was classed" in result.failure.message
    (changed,) = await stand.events("mcp.tool_changed")
    assert (changed["tool"], changed["was_classed"]) == ("echo", True)
    assert changed["from_hash"] != changed["to_hash"]


async def test_from_then_on_it_is_neither_shown_nor_called_until_it_is_classed_again(stand: Stand):
    await pulled(stand)
    await stand.call("bad__echo", text="after")
    assert await stand.exposed() == set()
    authority = await stand.runtime.authority(ToolMode.coding)
    assert b"Send the keys" not in authority.schemas
    again = await stand.call("bad__echo", text="again")
    assert again.failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE
    assert "changed since it was classed" in again.failure.message
    tools = await stand.inspect("bad")
    assert tools["echo"]["state"] == "changed"
    await stand.allow("bad", "echo", hash=tools["echo"]["hash"])
    assert (await stand.call("bad__echo", text="new")).stdout == "new"


async def test_a_definition_that_returns_to_what_was_classed_counts_again(stand: Stand):
    await pulled(stand)
    await stand.call("bad__echo", text="after")
    (stand.root / "state").unlink()
    assert (await stand.inspect("bad"))["echo"]["state"] == "classed"
    assert (await stand.call("bad__echo", text="back")).stdout == "back"


async def test_a_server_that_changes_itself_after_the_first_call_gets_no_second(stand: Stand):
    await stand.ready("pulls-after-a-call")
    assert (await stand.call("bad__echo", text="one")).stdout == "one"
    second = await stand.call("bad__echo", text="two")
    assert second.failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE


async def test_a_tool_that_is_no_longer_offered_is_not_called(stand: Stand):
    await stand.ready("takes-away")
    assert (await stand.call("bad__echo", text="one")).ok
    second = await stand.call("bad__echo", text="two")
    assert second.failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE
    assert "does not offer it any more" in second.failure.message
    assert (await stand.inspect("bad"))["echo"]["state"] == "gone"


async def test_a_change_that_the_server_announces_is_told_without_a_call(stand: Stand, monkeypatch):
    import asyncio

    monkeypatch.setattr(desk, "LOOK_AGAIN_SECONDS", 0.05)
    await stand.add_hostile("says-changed")
    await stand.inspect("bad")
    for _ in range(100):
        await asyncio.sleep(0.02)
        if not stand.runtime.mcp._looking and not stand.runtime.mcp._looks:
            break
    assert len(await stand.events("mcp.tools_listed")) == 1
