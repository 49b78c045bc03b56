"""Tools that come and go: what an Authority judged is what is called, or nothing is."""

from dataclasses import replace

import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import ErrorCode
from interlock.gates.gate import ClearedCall, Refusal, ToolCall, judge
from interlock.policy.authority import AuthorityCache, compile_authority
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.policy.policy_fields import McpPolicy, ShellPolicy, ToolPolicy
from interlock.tools.arguments import SchemaParser
from interlock.tools.registry import ToolRegistry
from interlock.tools.result import ToolResult
from interlock.tools.tool import BaseTool, Effect, ExternalCode, PolicySwitch, ToolContext
from tests.harness.tools import DeclaredTool

OPEN = ToolPolicy(mcp=McpPolicy(enabled=True, allowed_servers=frozenset({"s"})))
CODING = AuthorityInputs(mode=ToolMode.coding, open_modes=frozenset(ToolMode), settings=OPEN)


class Foreign(BaseTool):
    def __init__(self, name: str = "s__t", modes=frozenset({ToolMode.coding}), **more) -> None:
        self._name, self._modes, self._more = name, modes, more

    name = property(lambda self: self._name)
    description = property(lambda _self: "foreign")
    parameters = property(lambda _self: {"type": "object", "additionalProperties": {"type": "string"}})
    allowed_modes = property(lambda self: self._modes)
    effect = property(lambda _self: Effect.read)
    switches = property(lambda _self: frozenset({PolicySwitch.mcp}))

    @property
    def external(self) -> ExternalCode:
        return ExternalCode(server="s", **self._more)

    def parser(self) -> SchemaParser:
        return SchemaParser(self.parameters)

    async def execute(self, _prepared, _context) -> ToolResult:
        return ToolResult()


@pytest.fixture
def registry() -> ToolRegistry:
    made = ToolRegistry()
    made.register(DeclaredTool("own"))
    return made


async def judged(registry: ToolRegistry, authority):
    return await judge(ToolCall("c", "s__t", {"any": "key"}), authority, registry, ToolContext("s_1"))


async def test_a_tool_that_is_another_one_by_now_is_not_called(registry):
    registry.replace_foreign([Foreign()])
    authority = compile_authority(registry, CODING)
    assert isinstance(await judged(registry, authority), ClearedCall)
    for now in ([Foreign()], []):
        registry.replace_foreign(now)
        refusal = await judged(registry, authority)
        assert isinstance(refusal, Refusal)
        assert refusal.failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE
        assert refusal.failure.is_denial


def test_what_stays_the_same_keeps_its_entry_and_its_version(registry):
    kept, other = Foreign(), Foreign("s__other")
    registry.replace_foreign([kept, other])
    entry, version = registry.get("s__t"), registry.version
    assert registry.replace_foreign([kept, other]) == {}
    assert registry.version == version
    registry.replace_foreign([kept])
    assert registry.get("s__t") is entry
    assert registry.get("s__other") is None
    assert registry.version > version
    assert registry.get("own") is not None


def test_the_cache_follows_what_comes_and_goes(registry):
    cache = AuthorityCache(registry)
    assert cache.get(CODING).exposed == ("own",)
    registry.replace_foreign([Foreign()])
    with_it = cache.get(CODING)
    assert with_it.exposed == ("own", "s__t")
    registry.replace_foreign([])
    assert cache.get(CODING).exposed == ("own",)
    assert cache.get(CODING).digest != with_it.digest


@pytest.mark.parametrize("name", ["own", "bad name", "x" * 65, ""])
def test_a_name_that_is_taken_or_does_not_fit_is_left_out_with_its_reason(registry, name):
    faults = registry.replace_foreign([Foreign(name), Foreign("-ok__Tool-1")])
    assert list(faults) == [name]
    assert registry.get("-ok__Tool-1") is not None


def test_what_is_unavailable_or_needs_a_closed_network_is_neither_shown_nor_called(registry):
    tools = [
        Foreign(unavailable="it changed"),
        Foreign("s__net", uses_network=True),
        Foreign("s__none", frozenset()),
    ]
    registry.replace_foreign(tools)
    authority = compile_authority(registry, CODING)
    assert "it changed" in authority.failures["s__t"].message
    assert authority.exposed == ("own",)
    for network, exposed in ((False, ("own",)), (True, ("own", "s__net"))):
        policy = ToolPolicy(mcp=OPEN.mcp, shell=ShellPolicy(network=network))
        authority_inputs = AuthorityInputs(
            mode=ToolMode.coding, open_modes=frozenset(ToolMode), settings=policy
        )
        assert compile_authority(registry, authority_inputs).exposed == exposed
    # What no mode offers fills no prompt.
    assert "s__none" not in authority.safety_text
    assert "s__t" in authority.safety_text


@pytest.mark.parametrize("layer", ["settings", "agent", "node"])
def test_a_layer_that_closes_a_port_closes_what_reaches_it(registry, layer):
    """One process serves all callers, so its walls cannot follow the policy of one."""
    registry.replace_foreign([Foreign(uses_network=True, network_ports=frozenset({443, 8443}))])
    system = ToolPolicy(shell=ShellPolicy(network=True, ports=frozenset({443, 8443})))
    opened = replace(CODING, environment=system)
    assert "s__t" in compile_authority(registry, opened).exposed
    narrow = ToolPolicy(mcp=OPEN.mcp, shell=ShellPolicy(ports=frozenset({443})))
    authority = compile_authority(registry, replace(opened, **{layer: narrow}))
    assert "s__t" not in authority.exposed
    assert "8443" in authority.verdicts["s__t"].message
    assert authority.verdicts["s__t"].layer == layer
