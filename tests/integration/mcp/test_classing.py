"""A foreign tool has no mode until somebody classed it, and then exactly those that fit its server."""

import asyncio
from dataclasses import replace

import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import BadUsage, ErrorCode, UserError
from interlock.gates.gate import ToolCall
from interlock.gates.mcp_administration import ClassifyRequest
from interlock.policy.policy_fields import FsPolicy, McpPolicy, ShellPolicy, ToolPolicy
from interlock.tools.mcp import pool, service
from interlock.tools.tool import ToolContext
from tests.harness.mcp import HOSTILE, QUICK, WHO, McpHarness, open_mcp_harness


async def test_before_anything_is_known_there_is_no_such_tool(harness: McpHarness):
    await harness.add_hostile("well")
    result = await harness.call("bad__echo", text="x")
    assert result.failure.error_code is ErrorCode.TOOL_NOT_FOUND


async def test_a_tool_is_denied_before_it_is_classed(harness: McpHarness):
    await harness.add_hostile("well")
    await harness.inspect("bad")
    await harness.switch_on("bad")
    assert await harness.exposed() == set()
    result = await harness.call("bad__echo", text="x")
    assert result.failure.error_code is ErrorCode.MODE_DENIED
    assert "interlock mcp allow bad echo" in result.failure.next_action
    denied = await harness.flushed("tool_call.denied", harness.session_id)
    assert [event["tool_name"] for event in denied] == ["bad__echo"]
    assert await harness.flushed("tool_call.started", harness.session_id) == []


async def test_a_classed_tool_runs_in_its_modes_and_in_no_other(harness: McpHarness):
    await harness.add_hostile("well")
    await harness.inspect("bad")
    await harness.allow("bad", "echo", modes="chat,coding")
    await harness.switch_on("bad")
    for mode in ToolMode:
        is_open = mode in {ToolMode.chat, ToolMode.coding}
        assert (await harness.exposed(mode) == {"bad__echo"}) is is_open
        result = await harness.call("bad__echo", mode, text="hello")
        assert result.ok is is_open
        if is_open:
            assert result.stdout == "hello"
            assert result.meta["mcp_server"] == "bad"
        else:
            assert result.failure.error_code is ErrorCode.MODE_DENIED


async def test_mcp_is_off_until_it_is_switched_on_and_lists_the_server(harness: McpHarness):
    await harness.add_hostile("well")
    await harness.inspect("bad")
    await harness.allow("bad", "echo")
    settings = harness.runtime.stored_settings
    for patch in ({}, {"enabled": True}, {"enabled": True, "allowed_servers": ["other"]}):
        await settings.update({"tools": {"mcp": patch}}, who=WHO)
        assert await harness.exposed() == set()
        assert (await harness.call("bad__echo")).failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE
    await harness.switch_on("bad")
    assert (await harness.call("bad__echo", text="on")).ok


async def test_an_agents_own_list_holds_where_the_system_lists_no_servers(harness: McpHarness):
    await harness.add_hostile("well")
    await harness.inspect("bad")
    listing = ToolPolicy(mcp=McpPolicy(allowed_servers=frozenset({"bad"})))
    runtime = harness.runtime

    async def called_by_the_agent():
        authority = await runtime.authority(ToolMode.coding, agent=listing)
        call = ToolCall("c", "bad__echo", {"text": "x"}, timeout_seconds=10)
        return await runtime.runner.call(call, authority, ToolContext(harness.session_id))

    assert (await called_by_the_agent()).failure.error_code is ErrorCode.MODE_DENIED
    await harness.allow("bad", "echo")
    # Off by default, and a list does not switch it on.
    assert (await called_by_the_agent()).failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE
    await runtime.stored_settings.update({"tools": {"mcp": {"enabled": True}}}, who=WHO)
    assert (await called_by_the_agent()).ok
    # Its server runs on while others, who list none, have none.
    alive = set(runtime.mcp.pool._alive)
    assert await harness.exposed() == set()
    assert (await called_by_the_agent()).ok
    assert runtime.mcp.pool._alive == alive
    await harness.switch_on("other")
    assert (await called_by_the_agent()).failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE


async def test_an_agent_that_lists_no_server_or_no_network_has_none(harness: McpHarness):
    await harness.ready("well")
    runtime = harness.runtime
    for policy in (
        ToolPolicy(mcp=McpPolicy(enabled=False)),
        ToolPolicy(mcp=McpPolicy(allowed_servers=frozenset())),
    ):
        authority = await runtime.authority(ToolMode.coding, agent=policy)
        assert "bad__echo" not in authority.exposed
    offline = ToolPolicy(shell=ShellPolicy(network=False))
    assert "bad__echo" in (await runtime.authority(ToolMode.coding, agent=offline)).exposed
    without_files = ToolPolicy(fs=FsPolicy(enabled=False))
    assert "bad__echo" not in (await runtime.authority(ToolMode.coding, agent=without_files)).exposed


@pytest.mark.parametrize(
    ("grants", "modes"),
    [
        ({"roots": "none"}, {"chat", "plan", "coding"}),
        ({"roots": "read"}, {"chat", "plan", "coding"}),
        ({"roots": "write"}, {"coding"}),
        ({"roots": "none", "network": True}, {"coding"}),
    ],
)
async def test_a_tool_fits_only_the_modes_whose_walls_are_no_narrower(harness: McpHarness, grants, modes):
    told = await harness.add("s", *QUICK, str(HOSTILE), "well", **grants)
    assert set(told["modes"]) == modes
    if grants.get("network"):
        return
    await harness.inspect("s")
    for mode in ToolMode:
        if mode in modes:
            await harness.allow("s", "echo", modes=mode)
        else:
            with pytest.raises(BadUsage, match="nothing enforces the limits"):
                await harness.allow("s", "echo", modes=mode)
            await harness.allow("s", "echo", modes=mode, is_vouched=True)
            assert (await harness.flushed("mcp.tool_classed"))[-1]["vouched"] is True


async def test_what_changes_things_belongs_in_coding_alone_whoever_vouches(harness: McpHarness):
    await harness.add_hostile("well")
    await harness.inspect("bad")
    for effect in ("write", "exec", "special"):
        with pytest.raises(BadUsage, match="only in coding mode"):
            await harness.allow("bad", "echo", effect, "chat", is_vouched=True)
    with pytest.raises(BadUsage, match="not a valid effect"):
        await harness.allow("bad", "echo", "harmless")


async def test_a_network_that_the_operator_closed_stays_closed(harness: McpHarness):
    told = await harness.add("s", *QUICK, str(HOSTILE), "well", network=True)
    assert "TOOL_SHELL_NETWORK" in told["unavailable"]
    with pytest.raises(UserError, match="TOOL_SHELL_NETWORK"):
        await harness.inspect("s")


async def test_the_hints_of_a_server_are_shown_and_change_nothing(harness: McpHarness):
    await harness.add_hostile("well")
    tools = await harness.inspect("bad")
    assert tools["echo"]["hints"] == {"readOnlyHint": True}
    assert tools["echo"]["suggested_effect"] == "read"
    assert tools["echo"]["class"] is None
    await harness.switch_on("bad")
    assert await harness.exposed() == set()


async def test_a_class_that_is_taken_away_holds_no_longer_within_the_same_turn(harness: McpHarness):
    await harness.ready("well")
    authority = await harness.runtime.authority(ToolMode.coding)
    await harness.runtime.mcp_servers.remove("bad", "echo", who=WHO)
    call = ToolCall("late", "bad__echo", {"text": "x"})
    late = await harness.runtime.runner.call(call, authority, ToolContext(harness.session_id))
    assert late.failure.error_code is ErrorCode.MODE_DENIED
    assert (await harness.call("bad__echo")).failure.error_code is ErrorCode.MODE_DENIED
    await harness.runtime.authority(ToolMode.coding)
    later = await harness.runtime.runner.call(call, authority, ToolContext(harness.session_id))
    assert later.failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE
    assert await harness.flushed("tool_call.started", harness.session_id) == []


async def test_a_removed_server_is_gone_with_its_tools_and_its_process(harness: McpHarness):
    await harness.ready("well")
    assert (await harness.call("bad__echo", text="x")).ok
    await harness.runtime.mcp_servers.remove("bad", None, who=WHO)
    assert (await harness.call("bad__echo")).failure.error_code is ErrorCode.TOOL_NOT_FOUND
    assert (await harness.runtime.mcp_servers.servers())["servers"] == []
    assert [event["who"] for event in await harness.flushed("mcp.server_removed")] == [WHO]


async def test_a_page_can_class_what_was_looked_at_for_open_modes_and_vouch_for_nothing(
    harness: McpHarness,
):
    await harness.add_hostile("well")
    tools = await harness.inspect("bad")
    digest = tools["echo"]["hash"]

    async def class_it(**wish):
        wish = ClassifyRequest(**{"effect": "read", "modes": ("coding",), "hash": digest, **wish})
        return await harness.runtime.mcp_servers.allow(
            "bad", "echo", wish, who="page:ann", is_operator=False
        )

    with pytest.raises(BadUsage, match="vouch"):
        await class_it(is_vouched=True)
    with pytest.raises(BadUsage, match="hash"):
        await class_it(hash="")
    with pytest.raises(UserError, match="not the definition you reviewed"):
        await class_it(hash="0" * 64)
    told = await class_it()
    assert told["tool"]["class"]["by"] == "page:ann"
    # Another runtime on the same store, where the operator opened nothing.
    object.__setattr__(harness.runtime.authority_inputs, "open_modes", frozenset({ToolMode.chat_safe}))
    with pytest.raises(BadUsage, match="not open"):
        await class_it()


async def test_from_afar_a_server_is_started_only_where_the_policy_lists_it(harness: McpHarness):
    await harness.add_hostile("well")
    with pytest.raises(UserError, match=r"tools\.mcp\.enabled"):
        await harness.runtime.mcp_servers.inspect("bad", is_operator=False)
    await harness.switch_on("other")
    with pytest.raises(UserError, match="allowed_servers"):
        await harness.runtime.mcp_servers.inspect("bad", is_operator=False)
    assert await harness.flushed("mcp.server_started") == []
    await harness.switch_on("bad")
    assert (await harness.runtime.mcp_servers.inspect("bad", is_operator=False))["offered"]


async def test_two_processes_see_the_same_classes(harness: McpHarness, tmp_path, monkeypatch):
    await harness.ready("well")
    async with open_mcp_harness(tmp_path, monkeypatch) as other:
        assert await other.exposed() == {"bad__echo"}
        await harness.runtime.mcp_servers.remove("bad", "echo", who=WHO)
        assert await other.exposed() == set()
        assert (await other.call("bad__echo")).failure.error_code is ErrorCode.MODE_DENIED
        await harness.allow("bad", "echo")
        assert (await other.call("bad__echo", text="x")).ok
        await harness.runtime.mcp_servers.remove("bad", None, who=WHO)
        assert (await other.call("bad__echo")).failure.error_code is ErrorCode.TOOL_NOT_FOUND
        for _ in range(200):
            if not other.runtime.mcp.pool._states:
                break
            await asyncio.sleep(0.02)
        assert not other.runtime.mcp.pool._states


async def test_only_a_server_that_reads_no_folder_at_all_fits_chat_safe(harness: McpHarness):
    told = await harness.add("s", *QUICK, "-c", "", roots="none", readable=())
    assert set(told["modes"]) == {"chat_safe", "chat", "plan", "coding"}


async def test_a_server_that_was_given_folders_is_closed_with_the_files(harness: McpHarness):
    await harness.ready("well", roots="none")
    without_files = ToolPolicy(fs=FsPolicy(enabled=False))
    assert "bad__echo" in (await harness.runtime.authority(ToolMode.coding)).exposed
    assert (
        "bad__echo" not in (await harness.runtime.authority(ToolMode.coding, agent=without_files)).exposed
    )


@pytest.mark.parametrize("place", ["root", "state", "workspace"])
async def test_what_agents_could_rewrite_is_not_run(harness: McpHarness, place):
    folder = harness.root.parent / place
    folder.mkdir(exist_ok=True)
    program = folder / "server.py"
    program.write_text("")
    link = harness.root.parent / "link.py"
    link.symlink_to(program)
    for words in ((str(program),), (str(link),), (f"--script={program}",), (str(folder),)):
        with pytest.raises(BadUsage, match="must not be run"):
            await harness.add("s", *QUICK, *words)
    program.chmod(0o755)
    with pytest.raises(BadUsage, match="must not be run"):
        await harness.add("s", str(program))


async def test_a_relative_name_in_the_folder_that_it_works_in_is_not_run(harness: McpHarness):
    (harness.root / "server.py").write_text("")
    with pytest.raises(BadUsage, match="must not be run"):
        await harness.add("s", *QUICK, "server.py")


async def test_a_folder_that_is_opened_later_closes_a_server_in_it(harness: McpHarness):
    """The roots are settings; a server that was added before is looked at again when it is started."""
    await harness.add_hostile("well")
    servers = harness.runtime.mcp.pool
    servers.ceiling = replace(servers.ceiling, roots=(HOSTILE.parent,))
    with pytest.raises(UserError, match="must not be run"):
        await harness.inspect("bad")
    (server,) = (await harness.runtime.mcp_servers.servers())["servers"]
    assert "must not be run" in server["unavailable"]


@pytest.mark.parametrize("patch", [{"enabled": False}, {"allowed_servers": []}])
async def test_a_server_that_may_not_be_used_any_more_does_not_run_on(harness: McpHarness, patch):
    await harness.ready("well")
    assert (await harness.call("bad__echo", text="x")).ok
    assert harness.runtime.mcp.pool._alive
    await harness.runtime.stored_settings.update({"tools": {"mcp": patch}}, who=WHO)
    assert (await harness.call("bad__echo")).failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE
    for _ in range(200):
        if not harness.runtime.mcp.pool._alive:
            break
        await asyncio.sleep(0.02)
    assert not harness.runtime.mcp.pool._alive


async def test_what_a_server_says_by_itself_does_not_keep_it_open(harness: McpHarness, monkeypatch):
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.6)
    monkeypatch.setattr(service, "LOOK_AGAIN_SECONDS", 0.1)
    await harness.ready("well")
    assert (await harness.call("bad__echo", text="x")).ok
    for _ in range(15):
        harness.runtime.mcp._look_again_soon("bad")
        await asyncio.sleep(0.1)
    assert not harness.runtime.mcp.pool._alive
    assert len(await harness.flushed("mcp.server_started")) == 1


@pytest.mark.parametrize("chars", [0, 1, 11])
async def test_a_class_names_the_definition_that_was_looked_at(harness: McpHarness, chars):
    await harness.add_hostile("well")
    digest = (await harness.inspect("bad"))["echo"]["hash"]
    with pytest.raises(BadUsage, match="at least 12"):
        await harness.allow("bad", "echo", hash=digest[:chars])
    (server,) = (await harness.runtime.mcp_servers.servers())["servers"]
    (step,) = [step for step in server["next"] if "mcp allow bad echo " in step]
    assert f"--hash {digest[:12]}" in step
    assert "--effect read" not in step
    await harness.allow("bad", "echo", hash=digest[:12])


async def test_turns_that_begin_at_once_know_the_same_tools(harness: McpHarness):
    await harness.ready("well")
    runtime = harness.runtime
    made = await asyncio.gather(*(runtime.authority(mode) for mode in [*ToolMode] * 3))
    for authority in made:
        assert authority.entries["bad__echo"] is runtime.registry.get("bad__echo")


async def test_what_was_wrong_with_a_tool_is_looked_at_again_by_who_inspects_it(
    harness: McpHarness, tmp_path, monkeypatch
):
    """The definition is the same; what is refused here is not."""
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\nid = "words"\nwhat = "words"\npattern = "Says it again"\nmust = ["Says it again"]\n'
    )
    async with open_mcp_harness(tmp_path, monkeypatch, REDACTION_RULES=str(rules)) as strict:
        await strict.add_hostile("well")
        offered = await strict.inspect("bad")
        assert "looks like a secret" in offered["echo"]["problem"]
    offered = await harness.inspect("bad")
    assert (offered["echo"]["problem"], offered["echo"]["state"]) == ("", "unclassed")
    await harness.allow("bad", "echo")
    await harness.switch_on("bad")
    assert (await harness.call("bad__echo", text="x")).stdout == "x"
