"""Foreign tools over a real socket, as the page asks for them."""

from interlock.gates.mcp_administration import AddServerRequest
from tests.harness.mcp import HOSTILE, QUICK, SERVERS
from tests.integration.gateway.test_methods import refused


async def mcp_house(open_harness, tmp_path, behaviour: str = "well", **more: str):
    root = tmp_path / "root"
    root.mkdir()
    harness = await open_harness(**{"TOOL_ALLOWED_ROOTS": str(root), "SESSION_OPEN_MODES": "chat"} | more)
    state = (f"STATE={root / 'state'}",) if behaviour == "rug-pull" else ()
    command = (*QUICK, str(HOSTILE), behaviour)
    wish = AddServerRequest(id="echoes", command=command, environment=state, readable=(SERVERS,))
    await harness.agent_runtime.runtime.mcp_servers.add(wish, who="local:operator")
    return harness, await harness.connect()


async def switch_on(client) -> None:
    patch = {"tools": {"mcp": {"enabled": True, "allowed_servers": ["echoes"]}}}
    await client.ask("settings.update", patch=patch)


async def test_a_server_is_listed_inspected_classed_and_removed(open_harness, tmp_path):
    _, client = await mcp_house(open_harness, tmp_path)
    [server] = (await client.ask("mcp.list"))["servers"]
    assert (server["id"], server["modes"]) == ("echoes", ["chat", "plan", "coding"])
    assert "tools.mcp.enabled" in server["closed"]
    assert (await refused(client, "mcp.inspect", server="echoes")).code == "MCP_SERVER_CLOSED"
    await switch_on(client)
    told = await client.ask("mcp.inspect", server="echoes")
    [echo] = [tool for tool in told["offered"] if tool["tool"] == "echo"]
    assert (echo["state"], echo["suggested_effect"], echo["class"]) == ("unclassed", "read", None)
    given = {"server": "echoes", "tool": "echo", "effect": "read", "hash": echo["hash"]}
    classed = await client.ask("mcp.allow", **given, modes=["chat"])
    assert classed["tool"]["state"] == "classed"
    assert classed["tool"]["class"]["by"]
    matrix = await client.ask("policy.matrix")
    [row] = [tool for tool in matrix["tools"] if tool["name"] == "echoes__echo"]
    assert {mode: cell["allowed"] for mode, cell in row["modes"].items()} == {
        "chat_safe": False,
        "chat": True,
        "plan": False,
        "coding": False,
    }
    await client.ask("mcp.remove", server="echoes", tool="echo")
    explained = await client.ask("policy.explain", tool_name="echoes__echo", mode="chat")
    assert explained["error_code"] == "MODE_DENIED"
    await client.ask("mcp.remove", server="echoes")
    assert (await client.ask("mcp.list"))["servers"] == []
    assert (await refused(client, "mcp.remove", server="echoes")).code == "MCP_SERVER_NOT_FOUND"


async def test_what_a_page_cannot_open_is_refused(open_harness, tmp_path):
    _, client = await mcp_house(open_harness, tmp_path, SESSION_OPEN_MODES="chat,coding")
    await switch_on(client)
    told = await client.ask("mcp.inspect", server="echoes")
    digest = next(tool["hash"] for tool in told["offered"] if tool["tool"] == "echo")
    given = {"server": "echoes", "tool": "echo", "effect": "read"}
    for wrong in (
        {"modes": ["plan"], "hash": digest},
        {"modes": ["chat_safe"], "hash": digest},
        {"modes": ["chat"], "hash": digest, "effect": "write"},
        {"modes": ["chat"]},
        {"modes": ["chat"], "hash": digest, "vouched": True},
        {"modes": [], "hash": digest},
    ):
        assert (await refused(client, "mcp.allow", **given | wrong)).code == "INVALID_PARAMS"
    other = await refused(client, "mcp.allow", **given, modes=["chat"], hash="0" * 64)
    assert other.code == "MCP_TOOL_CHANGED"
    assert (await refused(client, "mcp.add", server="x", command=["/bin/sh"])).code == "METHOD_NOT_FOUND"


async def test_a_definition_that_changed_meanwhile_is_not_classed(open_harness, tmp_path):
    _, client = await mcp_house(open_harness, tmp_path, "rug-pull")
    await switch_on(client)
    [echo] = (await client.ask("mcp.inspect", server="echoes"))["offered"]
    (tmp_path / "root" / "state").write_text("pulled")
    await client.ask("mcp.inspect", server="echoes")
    given = {"server": "echoes", "tool": "echo", "effect": "read", "modes": ["chat"]}
    assert (await refused(client, "mcp.allow", **given, hash=echo["hash"])).code == "MCP_TOOL_CHANGED"


async def test_tools_are_classed_in_one_request_all_or_none(open_harness, tmp_path):
    harness, client = await mcp_house(open_harness, tmp_path, "claims", SESSION_OPEN_MODES="chat,coding")
    unlisted = await refused(
        client,
        "mcp.classify",
        server="echoes",
        tools=[{"tool": "reads", "effect": "read", "modes": ["chat"], "hash": "0" * 64}],
    )
    assert unlisted.code == "MCP_SERVER_CLOSED"
    await switch_on(client)
    offered = (await client.ask("mcp.inspect", server="echoes"))["offered"]
    tools = [{"tool": tool["tool"], "hash": tool["hash"], **tool["proposal"]} for tool in offered]
    fitting = [
        tool | {"modes": [mode for mode in tool["modes"] if mode in {"chat", "coding"}]} for tool in tools
    ]
    reads = next(tool for tool in fitting if tool["tool"] == "reads")
    for wrong in (
        [],
        [*fitting, reads],
        [*fitting, reads | {"tool": "echoes__reads"}],
        [tool | {"vouched": True} for tool in fitting],
        # The proposal has `plan`, which is not open here.
        tools,
    ):
        found = await refused(client, "mcp.classify", server="echoes", tools=wrong)
        assert found.code == "INVALID_PARAMS"
    other = [fitting[0] | {"hash": "0" * 64}, *fitting[1:]]
    assert (await refused(client, "mcp.classify", server="echoes", tools=other)).code == "MCP_TOOL_CHANGED"
    log = harness.agent_runtime.runtime.database
    count = "SELECT count(*) FROM events WHERE kind = 'mcp.tool_classed'"
    assert (await log.fetch(count))[0][0] == 0
    for _ in range(2):
        told = await client.ask("mcp.classify", server="echoes", tools=fitting)
        assert {tool["state"] for tool in told["tools"]} == {"classed"}
        assert told["server"]["tools"] == {"classed": 5}
        assert (await log.fetch(count))[0][0] == 5


async def test_a_server_that_claims_otherwise_when_asked_again_is_not_classed(open_harness, tmp_path):
    _, client = await mcp_house(open_harness, tmp_path, "claims-otherwise")
    await switch_on(client)
    told = await client.ask("mcp.inspect", server="echoes")
    tools = [
        {"tool": tool["tool"], "effect": "read", "modes": ["chat"], "hash": tool["hash"]}
        for tool in told["offered"]
    ]
    assert (await refused(client, "mcp.classify", server="echoes", tools=tools)).code == "MCP_TOOL_CHANGED"
    [server] = (await client.ask("mcp.list"))["servers"]
    assert server["tools"] == {"unclassed": 2}
