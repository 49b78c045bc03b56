"""Any tree of runs, steps and tasks within tasks: nothing in it can do what the ceiling forbids.

The ceiling is the system's policy in the mode that a person chose. A step may be wider than the step before
it; a task that a model hands over is never wider than that model's own (S4-G1, S4-3.2).
"""

from dataclasses import replace
from pathlib import Path

from hypothesis import Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from interlock.config.modes import ToolMode
from interlock.policy.authority import Authority, compile_authority
from interlock.policy.authority_inputs import AuthorityInputs, Capabilities
from interlock.policy.delegation import DelegatedAuthority, child_policy, modes_open_to_step, step_mode
from interlock.policy.policy_fields import (
    FsPolicy,
    ImagePolicy,
    McpPolicy,
    MemoryPolicy,
    ShellPolicy,
    ToolPolicy,
    merge_tool_policies,
)
from interlock.policy.verdict import DeniedTool, PolicyLayer
from interlock.tools.result import ToolResult
from interlock.tools.tool import BaseTool, Effect, ExternalCode, PolicySwitch, mcp_server
from interlock.wiring import build_registry


class Foreign(BaseTool):
    """A tool of an MCP server, whose name is the beginning of the tool's."""

    def __init__(self, server: str) -> None:
        self._server = server

    name = property(lambda self: f"{self._server}__look")
    description = property(lambda _self: "foreign")
    parameters = property(lambda _self: {"type": "object", "properties": {}})
    allowed_modes = property(lambda _self: frozenset({ToolMode.chat, ToolMode.plan, ToolMode.coding}))
    effect = property(lambda _self: Effect.read)
    switches = property(lambda _self: frozenset({PolicySwitch.mcp}))
    external = property(lambda self: ExternalCode(server=self._server))

    async def execute(self, _prepared, _context) -> ToolResult:
        return ToolResult()


REGISTRY = build_registry()
REGISTRY.replace_foreign([Foreign("a"), Foreign("b")])
NAMES = sorted(entry.tool.name for entry in REGISTRY)
NEEDS = frozenset(need for entry in REGISTRY for need in entry.tool.needs)

switch = st.sampled_from([None, True, False])
size = st.sampled_from([None, 1, 1000, 10**6, 10**9])
policies = st.builds(
    ToolPolicy,
    fs=st.builds(FsPolicy, enabled=switch, max_read_bytes=size, max_write_bytes=size),
    shell=st.builds(
        ShellPolicy,
        enabled=switch,
        network=switch,
        ports=st.none() | st.frozensets(st.sampled_from([80, 443, 8080])),
    ),
    mcp=st.builds(
        McpPolicy, enabled=switch, allowed_servers=st.none() | st.frozensets(st.sampled_from(["a", "b"]))
    ),
    memory=st.builds(MemoryPolicy, enabled=switch),
    image=st.builds(ImagePolicy, enabled=switch, max_bytes=st.sampled_from([None, 10, 10**6])),
    max_timeout_seconds=st.sampled_from([None, 1.0, 60.0, 3600.0]),
    denied_tools=st.frozensets(st.sampled_from(NAMES), max_size=4),
)
modes = st.sampled_from(list(ToolMode))
# The agents' policies of a chain of tasks within tasks, below each step.
steps = st.lists(
    st.tuples(st.none() | modes, policies, policies, st.lists(policies, max_size=3)), min_size=1, max_size=4
)


def judged(here: AuthorityInputs, handed: DelegatedAuthority) -> Authority:
    """As the wiring does it: `here.mode` is the run's."""
    opened = modes_open_to_step(here.open_modes, here.mode, handed.mode)
    return compile_authority(
        REGISTRY,
        replace(here, mode=handed.mode, agent=handed.agent, node=handed.node, open_modes=opened),
    )


def assert_within(inner: Authority, outer: Authority) -> None:
    """Whatever the one can do, the other can."""
    assert set(inner.exposed) <= set(outer.exposed)
    for name in ("max_read_bytes", "max_write_bytes", "max_timeout_seconds", "max_image_bytes"):
        assert getattr(inner.limits, name) <= getattr(outer.limits, name), name
    for name in ("readable_roots", "writable_roots", "network_ports"):
        assert set(getattr(inner.profile, name)) <= set(getattr(outer.profile, name)), name
    assert (inner.policy.mcp.allowed_servers or frozenset()) <= (
        outer.policy.mcp.allowed_servers or frozenset()
    )


def least(values: list[float | None]) -> float:
    return min((value for value in values if value is not None), default=float("inf"))


def may_be_exposed(tool: BaseTool, mode: ToolMode, layers: list[ToolPolicy]) -> bool:
    """Told from the policies alone, without anything that the gates reckon with."""
    switches = {str(switch) for switch in tool.switches}
    switches |= {"fs"} if "shell" in switches else set()
    for layer in layers:
        if {tool.name, *tool.aliases} & layer.denied_tools:
            return False
        if any(getattr(layer, switch).enabled is False for switch in switches):
            return False
        servers = layer.mcp.allowed_servers
        if mcp_server(tool) is not None and servers is not None and mcp_server(tool) not in servers:
            return False
    # A server that neither the system (the first two) nor the agent lists is closed.
    listed = [layer.mcp.allowed_servers for layer in layers[:3]]
    is_listed = mcp_server(tool) is None or any(servers is not None for servers in listed)
    return mode in tool.allowed_modes and is_listed


def assert_kept(authority: Authority, mode: ToolMode, layers: list[ToolPolicy]) -> None:
    """Nothing that any of these layers forbids."""
    tools = {entry.tool.name: entry.tool for entry in REGISTRY}
    wrong = {name for name in authority.exposed if not may_be_exposed(tools[name], mode, layers)}
    assert wrong == set()
    limits = authority.limits
    assert limits.max_read_bytes <= least([layer.fs.max_read_bytes for layer in layers])
    assert limits.max_write_bytes <= least([layer.fs.max_write_bytes for layer in layers])
    assert limits.max_timeout_seconds <= least([layer.max_timeout_seconds for layer in layers])
    assert limits.max_image_bytes <= least([layer.image.max_bytes for layer in layers])
    for layer in layers:
        if layer.shell.network is False:
            assert not authority.profile.network_ports
        if layer.shell.ports is not None:
            assert set(authority.profile.network_ports) <= layer.shell.ports


# Without shrinking: what fails fails within seconds, and the example that is told is small enough to read.
@hypothesis_settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(policies, policies, modes, st.frozensets(modes), steps)
def test_no_step_and_no_child_can_do_what_the_ceiling_forbids(environment, settings, mode, opened, tree):
    here = AuthorityInputs(
        mode=mode,
        open_modes=opened | {ToolMode.chat_safe},
        environment=environment,
        settings=settings,
        capabilities=Capabilities(present=NEEDS, roots=(Path("/work"),)),
    )
    assert_kept(compile_authority(REGISTRY, here), mode, [environment, settings])
    # Where the system lists no servers, an agent's own list holds: the ceiling is then every server.
    every = ToolPolicy(mcp=McpPolicy(allowed_servers=frozenset({"a", "b"})))
    ceiling = compile_authority(REGISTRY, replace(here, settings=merge_tool_policies(settings, every)))
    for wanted, agent, node, children in tree:
        handed = DelegatedAuthority(step_mode(mode, wanted), agent, node)
        layers = [environment, settings, agent, node]
        parent = judged(here, handed)
        # Where the run's mode is not open nobody begins a step of it; if one did, the layers hold still.
        is_open = mode in here.open_modes
        assert_within(parent, ceiling if is_open else parent)
        assert_kept(parent, handed.mode, layers)
        for child_agent in children:
            layers.append(child_agent)
            child = judged(here, child_policy(parent, child_agent))
            assert_within(child, parent)
            assert_within(child, ceiling if is_open else parent)
            assert_kept(child, handed.mode, layers)
            parent = child


def test_the_layer_that_does_not_list_a_server_is_the_one_that_is_named():
    both = ToolPolicy(mcp=McpPolicy(enabled=True, allowed_servers=frozenset({"a", "b"})))
    only_a = ToolPolicy(mcp=McpPolicy(allowed_servers=frozenset({"a"})))
    for layer in (PolicyLayer.environment, PolicyLayer.settings, PolicyLayer.agent, PolicyLayer.node):
        policies_of = dict.fromkeys(("environment", "settings", "agent", "node"), both)
        here = AuthorityInputs(
            mode=ToolMode.coding, open_modes=frozenset(ToolMode), **policies_of | {layer.value: only_a}
        )
        authority = compile_authority(REGISTRY, here)
        assert "a__look" in authority.exposed
        verdict = authority.verdict("b__look")
        assert isinstance(verdict, DeniedTool)
        assert verdict.layer is layer


def test_a_step_may_be_wider_than_the_one_before_it():
    """A person wrote the graph. What a model hands over stays as narrow as the model is."""
    here = AuthorityInputs(
        mode=ToolMode.coding,
        open_modes=frozenset(ToolMode),
        capabilities=Capabilities(present=NEEDS, roots=(Path("/work"),)),
    )
    narrow, wide = ToolPolicy(fs=FsPolicy(enabled=False)), ToolPolicy()
    first = judged(here, DelegatedAuthority(ToolMode.plan, narrow, wide))
    second = judged(here, DelegatedAuthority(ToolMode.coding, wide, wide))
    assert "write_file" not in first.exposed
    assert "write_file" in second.exposed
    assert set(judged(here, child_policy(first, wide)).exposed) <= set(first.exposed)


def test_a_step_that_asks_for_a_wider_mode_gets_the_runs():
    for wanted in ToolMode:
        assert step_mode(ToolMode.plan, wanted) is not ToolMode.coding
