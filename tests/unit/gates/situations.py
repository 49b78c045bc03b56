"""Any registry in any situation, drawn so that tools are open about as often as something closes them."""

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from interlock.config.modes import ALL_MODES, ToolMode
from interlock.policy.authority_inputs import AuthorityInputs, CallLimits, Capabilities
from interlock.policy.policy_fields import NO_RESTRICTION
from interlock.tools.registry import ToolRegistry
from interlock.tools.tool import Effect, PolicySwitch, ToolGroup
from tests.harness.tools import DeclaredTool
from tests.unit.gates.test_policy import policies

NEEDS = frozenset({"roots", "program:rg"})


def mostly(usual: Any, others: st.SearchStrategy) -> st.SearchStrategy:
    """Drawn from many things at once, the usual one leaves room for each of the others to matter."""
    return st.integers(0, 3).flatmap(lambda drawn: others if drawn == 3 else st.just(usual))


modes = st.sampled_from(list(ToolMode))
mode_sets = st.frozensets(modes)


@st.composite
def tools(draw: st.DrawFn, name: str) -> DeclaredTool:
    return DeclaredTool(
        name,
        modes=draw(mostly(ALL_MODES, mode_sets)),
        group=draw(mostly(ToolGroup.code, st.sampled_from(list(ToolGroup)))),
        effect=draw(mostly(Effect.read, st.sampled_from(list(Effect)))),
        aliases=draw(st.sampled_from([(), (f"{name}.alias",)])),
        switches=draw(mostly(frozenset(), st.frozensets(st.sampled_from(list(PolicySwitch))))),
        needs=draw(st.frozensets(st.sampled_from(sorted(NEEDS)))),
        server=draw(mostly(None, st.sampled_from(["a", "b"]))),
        parameters={"type": "object", "properties": {}},
    )


@st.composite
def registries(draw: st.DrawFn) -> ToolRegistry:
    registry = ToolRegistry()
    for name in draw(st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, unique=True)):
        tool = draw(tools(name))
        registry.register(tool)
        if draw(mostly(usual=False, others=st.just(value=True))):
            registry.set_mode_override(name, tool.allowed_modes & draw(mode_sets))
    return registry


layers = mostly(NO_RESTRICTION, policies)

situations = st.builds(
    AuthorityInputs,
    mode=modes,
    open_modes=st.just(ALL_MODES) | mode_sets.map(lambda chosen: chosen | {ToolMode.chat_safe}),
    environment=layers,
    settings=layers,
    agent=layers,
    node=layers,
    capabilities=st.builds(
        Capabilities,
        present=st.just(NEEDS) | st.frozensets(st.sampled_from(sorted(NEEDS))),
        roots=st.sampled_from([(), (Path("/r"),)]),
    ),
    limits=st.builds(CallLimits, max_output_lines=st.integers(1, 3)),
)
