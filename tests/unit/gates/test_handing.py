"""Any tree of runs, steps and tasks within tasks: nothing in it can do what the ceiling forbids.

The ceiling is the system's policy in the mode that a person chose. A step may be wider than the step before
it; a task that a model hands over is never wider than that model's own (S4-G1, S4-3.2).
"""

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from interlock.config.modes import ToolMode
from interlock.gates.authority import Authority, Capabilities, Situation, compile_authority
from interlock.gates.handing import HandedOn, open_to_step, to_child, to_step
from interlock.gates.policy import (
    FsPolicy,
    ImagePolicy,
    McpPolicy,
    MemoryPolicy,
    ShellPolicy,
    ToolPolicy,
)
from interlock.wiring import build_registry

REGISTRY = build_registry()
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


def judged(here: Situation, handed: HandedOn) -> Authority:
    """As the wiring does it: `here.mode` is the run's."""
    opened = open_to_step(here.open_modes, here.mode, handed.mode)
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


@given(policies, policies, modes, st.frozensets(modes), steps)
def test_no_step_and_no_child_can_do_what_the_ceiling_forbids(environment, settings, mode, opened, tree):
    here = Situation(
        mode=mode,
        open_modes=opened | {ToolMode.chat_safe},
        environment=environment,
        settings=settings,
        capabilities=Capabilities(present=NEEDS, roots=(Path("/work"),)),
    )
    ceiling = compile_authority(REGISTRY, here)
    for wanted, agent, node, children in tree:
        parent = judged(here, to_step(mode, wanted, agent, node))
        assert_within(parent, ceiling)
        for child_agent in children:
            child = judged(here, to_child(parent, child_agent))
            assert_within(child, parent)
            assert_within(child, ceiling)
            parent = child


def test_a_step_may_be_wider_than_the_one_before_it():
    """A person wrote the graph. What a model hands over stays as narrow as the model is."""
    here = Situation(
        mode=ToolMode.coding,
        open_modes=frozenset(ToolMode),
        capabilities=Capabilities(present=NEEDS, roots=(Path("/work"),)),
    )
    narrow, wide = ToolPolicy(fs=FsPolicy(enabled=False)), ToolPolicy()
    first = judged(here, to_step(ToolMode.coding, ToolMode.plan, narrow, wide))
    second = judged(here, to_step(ToolMode.coding, None, wide, wide))
    assert "write_file" not in first.exposed
    assert "write_file" in second.exposed
    assert set(judged(here, to_child(first, wide)).exposed) <= set(first.exposed)


def test_a_step_that_asks_for_a_wider_mode_gets_the_runs():
    for wanted in ToolMode:
        assert to_step(ToolMode.plan, wanted, ToolPolicy(), ToolPolicy()).mode is not ToolMode.coding
