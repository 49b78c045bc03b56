"""A foreign tool has no mode until somebody classed it, and then exactly those that fit its server."""

import asyncio
from dataclasses import replace

import pytest

from interlock.config.modes import ToolMode
from interlock.gates.gate import ToolCall
from interlock.gates.policy import FsPolicy, McpPolicy, ShellPolicy, ToolPolicy
from interlock.gates.runner import CallContext
from interlock.infra.errors import BadUsage, ErrorCode, PersonError
from interlock.tools.mcp import desk, hub
from interlock.wiring import foreign
from tests.integration.mcp.stand import HOSTILE, QUICK, WHO, Stand, opened_stand


async def test_before_anything_is_known_there_is_no_such_tool(stand: Stand):
    await stand.add_hostile("well")
    result = await stand.call("bad__echo", text="x")
    assert result.failure.error_code is ErrorCode.TOOL_NOT_FOUND


async def test_a_tool_is_denied_before_it_is_classed(stand: Stand):
    await stand.add_hostile("well")
    await stand.inspect("bad")
    await stand.switch_on("bad")
    assert await stand.exposed() == set()
    result = await stand.call("bad__echo", text="x")
    assert result.failure.error_code is ErrorCode.MODE_DENIED
    assert "interlock mcp allow bad echo" in result.failure.next_action
    denied = await stand.events("tool_call.denied", stand.session_id)
    assert [event["tool_name"] for event in denied] == ["bad__echo"]
    assert await stand.events("tool_call.started", stand.session_id) == []


async def test_a_classed_tool_runs_in_its_modes_and_in_no_other(stand: Stand):
    await stand.add_hostile("well")
    await stand.inspect("bad")
    await stand.allow("bad", "echo", modes="chat,coding")
    await stand.switch_on("bad")
    for mode in ToolMode:
        is_open = mode in {ToolMode.chat, ToolMode.coding}
        assert (await stand.exposed(mode) == {"bad__echo"}) is is_open
        result = await stand.call("bad__echo", mode, text="hello")
        assert result.ok is is_open
        if is_open:
            assert result.stdout == "hello"
            assert result.meta["mcp_server"] == "bad"
        else:
            assert result.failure.error_code is ErrorCode.MODE_DENIED


async def test_mcp_is_off_until_it_is_switched_on_and_lists_the_server(stand: Stand):
    await stand.add_hostile("well")
    await stand.inspect("bad")
    await stand.allow("bad", "echo")
    settings = stand.runtime.stored_settings
    for patch in ({}, {"enabled": True}, {"enabled": True, "allowed_servers": ["other"]}):
        await settings.update({"tools": {"mcp": patch}}, who=WHO)
        assert await stand.exposed() == set()
        assert (await stand.call("bad__echo")).failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE
    await stand.switch_on("bad")
    assert (await stand.call("bad__echo", text="on")).ok


async def test_an_agents_own_list_holds_where_the_system_lists_no_servers(stand: Stand):
    await stand.add_hostile("well")
    await stand.inspect("bad")
    listing = ToolPolicy(mcp=McpPolicy(allowed_servers=frozenset({"bad"})))
    runtime = stand.runtime

    async def called_by_the_agent():
        authority = await runtime.authority(ToolMode.coding, agent=listing)
        call = ToolCall("c", "bad__echo", {"text": "x"}, timeout_seconds=10)
        return await runtime.runner.call(call, authority, CallContext(stand.session_id))

    assert (await called_by_the_agent()).failure.error_code is ErrorCode.MODE_DENIED
    await stand.allow("bad", "echo")
    # Off by default, and a list does not switch it on.
    assert (await called_by_the_agent()).failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE
    await runtime.stored_settings.update({"tools": {"mcp": {"enabled": True}}}, who=WHO)
    assert (await called_by_the_agent()).ok
    # Its server runs on while others, who list none, have none.
    alive = set(runtime.mcp._hub._alive)
    assert await stand.exposed() == set()
    assert (await called_by_the_agent()).ok
    assert runtime.mcp._hub._alive == alive
    await stand.switch_on("other")
    assert (await called_by_the_agent()).failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE


async def test_an_agent_that_lists_no_server_or_no_network_has_none(stand: Stand):
    await stand.ready("well")
    runtime = stand.runtime
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
async def test_a_tool_fits_only_the_modes_whose_walls_are_no_narrower(stand: Stand, grants, modes):
    told = await stand.add("s", *QUICK, str(HOSTILE), "well", **grants)
    assert set(told["modes"]) == modes
    if grants.get("network"):
        return
    await stand.inspect("s")
    for mode in ToolMode:
        if mode in modes:
            await stand.allow("s", "echo", modes=mode)
        else:
            with pytest.raises(BadUsage, match="only its word"):
                await stand.allow("s", "echo", modes=mode)
            await stand.allow("s", "echo", modes=mode, is_vouched=True)
            assert (await stand.events("mcp.tool_classed"))[-1]["vouched"] is True


async def test_what_changes_things_belongs_in_coding_alone_whoever_vouches(stand: Stand):
    await stand.add_hostile("well")
    await stand.inspect("bad")
    for effect in ("write", "exec", "special"):
        with pytest.raises(BadUsage, match="coding mode alone"):
            await stand.allow("bad", "echo", effect, "chat", is_vouched=True)
    with pytest.raises(BadUsage, match="no effect"):
        await stand.allow("bad", "echo", "harmless")


async def test_a_network_that_the_operator_closed_stays_closed(stand: Stand):
    told = await stand.add("s", *QUICK, str(HOSTILE), "well", network=True)
    assert "TOOL_SHELL_NETWORK" in told["unavailable"]
    with pytest.raises(PersonError, match="TOOL_SHELL_NETWORK"):
        await stand.inspect("s")


async def test_the_hints_of_a_server_are_shown_and_change_nothing(stand: Stand):
    await stand.add_hostile("well")
    tools = await stand.inspect("bad")
    assert tools["echo"]["hints"] == {"readOnlyHint": True}
    assert tools["echo"]["suggested_effect"] == "read"
    assert tools["echo"]["class"] is None
    await stand.switch_on("bad")
    assert await stand.exposed() == set()


async def test_a_class_that_is_taken_away_holds_no_longer_within_the_same_turn(stand: Stand):
    await stand.ready("well")
    authority = await stand.runtime.authority(ToolMode.coding)
    await foreign.remove(stand.runtime, "bad", "echo", who=WHO)
    call = ToolCall("late", "bad__echo", {"text": "x"})
    late = await stand.runtime.runner.call(call, authority, CallContext(stand.session_id))
    assert late.failure.error_code is ErrorCode.MODE_DENIED
    assert (await stand.call("bad__echo")).failure.error_code is ErrorCode.MODE_DENIED
    await stand.runtime.authority(ToolMode.coding)
    later = await stand.runtime.runner.call(call, authority, CallContext(stand.session_id))
    assert later.failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE
    assert await stand.events("tool_call.started", stand.session_id) == []


async def test_a_removed_server_is_gone_with_its_tools_and_its_process(stand: Stand):
    await stand.ready("well")
    assert (await stand.call("bad__echo", text="x")).ok
    await foreign.remove(stand.runtime, "bad", None, who=WHO)
    assert (await stand.call("bad__echo")).failure.error_code is ErrorCode.TOOL_NOT_FOUND
    assert (await foreign.list_servers(stand.runtime))["servers"] == []
    assert [event["who"] for event in await stand.events("mcp.server_removed")] == [WHO]


async def test_a_page_can_class_what_was_looked_at_for_open_modes_and_vouch_for_nothing(stand: Stand):
    await stand.add_hostile("well")
    tools = await stand.inspect("bad")
    digest = tools["echo"]["hash"]

    async def class_it(**wish):
        wish = foreign.ClassWish(**{"effect": "read", "modes": ("coding",), "hash": digest, **wish})
        return await foreign.allow(stand.runtime, "bad", "echo", wish, who="page:ann", is_operator=False)

    with pytest.raises(BadUsage, match="vouch"):
        await class_it(is_vouched=True)
    with pytest.raises(BadUsage, match="hash"):
        await class_it(hash="")
    with pytest.raises(PersonError, match="not what was looked at"):
        await class_it(hash="0" * 64)
    told = await class_it()
    assert told["tool"]["class"]["by"] == "page:ann"
    # Another runtime on the same store, where the operator opened nothing.
    object.__setattr__(stand.runtime.situation, "open_modes", frozenset({ToolMode.chat_safe}))
    with pytest.raises(BadUsage, match="not open"):
        await class_it()


async def test_from_afar_a_server_is_started_only_where_the_policy_lists_it(stand: Stand):
    await stand.add_hostile("well")
    with pytest.raises(PersonError, match=r"tools\.mcp\.enabled"):
        await foreign.inspect(stand.runtime, "bad", is_operator=False)
    await stand.switch_on("other")
    with pytest.raises(PersonError, match="allowed_servers"):
        await foreign.inspect(stand.runtime, "bad", is_operator=False)
    assert await stand.events("mcp.server_started") == []
    await stand.switch_on("bad")
    assert (await foreign.inspect(stand.runtime, "bad", is_operator=False))["offered"]


async def test_two_processes_see_the_same_classes(stand: Stand, tmp_path, monkeypatch):
    await stand.ready("well")
    async with opened_stand(tmp_path, monkeypatch) as other:
        assert await other.exposed() == {"bad__echo"}
        await foreign.remove(stand.runtime, "bad", "echo", who=WHO)
        assert await other.exposed() == set()
        assert (await other.call("bad__echo")).failure.error_code is ErrorCode.MODE_DENIED
        await stand.allow("bad", "echo")
        assert (await other.call("bad__echo", text="x")).ok
        await foreign.remove(stand.runtime, "bad", None, who=WHO)
        assert (await other.call("bad__echo")).failure.error_code is ErrorCode.TOOL_NOT_FOUND
        for _ in range(200):
            if not other.runtime.mcp._hub._lines:
                break
            await asyncio.sleep(0.02)
        assert not other.runtime.mcp._hub._lines


async def test_only_a_server_that_reads_no_folder_at_all_fits_chat_safe(stand: Stand):
    told = await stand.add("s", *QUICK, "-c", "", roots="none", readable=())
    assert set(told["modes"]) == {"chat_safe", "chat", "plan", "coding"}


async def test_a_server_that_was_given_folders_is_closed_with_the_files(stand: Stand):
    await stand.ready("well", roots="none")
    without_files = ToolPolicy(fs=FsPolicy(enabled=False))
    assert "bad__echo" in (await stand.runtime.authority(ToolMode.coding)).exposed
    assert "bad__echo" not in (await stand.runtime.authority(ToolMode.coding, agent=without_files)).exposed


@pytest.mark.parametrize("place", ["root", "state", "workspace"])
async def test_what_agents_could_rewrite_is_not_run(stand: Stand, place):
    folder = stand.root.parent / place
    folder.mkdir(exist_ok=True)
    program = folder / "server.py"
    program.write_text("")
    link = stand.root.parent / "link.py"
    link.symlink_to(program)
    for words in ((str(program),), (str(link),), (f"--script={program}",), (str(folder),)):
        with pytest.raises(BadUsage, match="must not be run"):
            await stand.add("s", *QUICK, *words)
    program.chmod(0o755)
    with pytest.raises(BadUsage, match="must not be run"):
        await stand.add("s", str(program))


async def test_a_relative_name_in_the_folder_that_it_works_in_is_not_run(stand: Stand):
    (stand.root / "server.py").write_text("")
    with pytest.raises(BadUsage, match="must not be run"):
        await stand.add("s", *QUICK, "server.py")


async def test_a_folder_that_is_opened_later_closes_a_server_in_it(stand: Stand):
    """The roots are settings; a server that was added before is looked at again when it is started."""
    await stand.add_hostile("well")
    servers = stand.runtime.mcp._hub
    servers.grounds = replace(servers.grounds, roots=(HOSTILE.parent,))
    with pytest.raises(PersonError, match="must not be run"):
        await stand.inspect("bad")
    (server,) = (await foreign.list_servers(stand.runtime))["servers"]
    assert "must not be run" in server["unavailable"]


@pytest.mark.parametrize("patch", [{"enabled": False}, {"allowed_servers": []}])
async def test_a_server_that_may_not_be_used_any_more_does_not_run_on(stand: Stand, patch):
    await stand.ready("well")
    assert (await stand.call("bad__echo", text="x")).ok
    assert stand.runtime.mcp._hub._alive
    await stand.runtime.stored_settings.update({"tools": {"mcp": patch}}, who=WHO)
    assert (await stand.call("bad__echo")).failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE
    for _ in range(200):
        if not stand.runtime.mcp._hub._alive:
            break
        await asyncio.sleep(0.02)
    assert not stand.runtime.mcp._hub._alive


async def test_what_a_server_says_by_itself_does_not_keep_it_open(stand: Stand, monkeypatch):
    monkeypatch.setattr(hub, "IDLE_SECONDS", 0.6)
    monkeypatch.setattr(desk, "LOOK_AGAIN_SECONDS", 0.1)
    await stand.ready("well")
    assert (await stand.call("bad__echo", text="x")).ok
    for _ in range(15):
        stand.runtime.mcp._look_again_soon("bad")
        await asyncio.sleep(0.1)
    assert not stand.runtime.mcp._hub._alive
    assert len(await stand.events("mcp.server_started")) == 1


@pytest.mark.parametrize("chars", [0, 1, 11])
async def test_a_class_names_the_definition_that_was_looked_at(stand: Stand, chars):
    await stand.add_hostile("well")
    digest = (await stand.inspect("bad"))["echo"]["hash"]
    with pytest.raises(BadUsage, match="at least 12"):
        await stand.allow("bad", "echo", hash=digest[:chars])
    (server,) = (await foreign.list_servers(stand.runtime))["servers"]
    (step,) = [step for step in server["next"] if "mcp allow bad echo " in step]
    assert f"--hash {digest[:12]}" in step
    assert "--effect read" not in step
    await stand.allow("bad", "echo", hash=digest[:12])


async def test_turns_that_begin_at_once_know_the_same_tools(stand: Stand):
    await stand.ready("well")
    runtime = stand.runtime
    made = await asyncio.gather(*(runtime.authority(mode) for mode in [*ToolMode] * 3))
    for authority in made:
        assert authority.entries["bad__echo"] is runtime.registry.get("bad__echo")


async def test_what_was_wrong_with_a_tool_is_looked_at_again_by_who_inspects_it(
    stand: Stand, tmp_path, monkeypatch
):
    """The definition is the same; what is refused here is not."""
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\nid = "words"\nwhat = "words"\npattern = "Says it again"\nmust = ["Says it again"]\n'
    )
    async with opened_stand(tmp_path, monkeypatch, REDACTION_RULES=str(rules)) as strict:
        await strict.add_hostile("well")
        offered = await strict.inspect("bad")
        assert "looks like a secret" in offered["echo"]["problem"]
    offered = await stand.inspect("bad")
    assert (offered["echo"]["problem"], offered["echo"]["state"]) == ("", "unclassed")
    await stand.allow("bad", "echo")
    await stand.switch_on("bad")
    assert (await stand.call("bad__echo", text="x")).stdout == "x"
