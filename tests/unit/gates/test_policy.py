"""The merge is a meet: Hypothesis looks for a counter-example (S4-API5 to API8, S4-G1, S4-T1)."""

import itertools
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from interlock.policy.policy_fields import (
    NO_RESTRICTION,
    FsPolicy,
    McpPolicy,
    PolicyPart,
    ShellPolicy,
    ToolPolicy,
    merge_tool_policies,
)

switches = st.none() | st.booleans()
limits = st.none() | st.integers(1, 5) | st.integers(600_000, 600_005)
names = st.frozensets(st.sampled_from(["a", "b", "c"]))
policies = st.builds(
    lambda fs, read, write, shell, net, ports, mcp, servers, memory, image, size, time, denied: ToolPolicy(
        fs={"enabled": fs, "max_read_bytes": read, "max_write_bytes": write},
        shell={"enabled": shell, "network": net, "ports": ports},
        mcp={"enabled": mcp, "allowed_servers": servers},
        memory={"enabled": memory},
        image={"enabled": image, "max_bytes": size},
        max_timeout_seconds=time,
        denied_tools=denied,
    ),
    *(switches, limits, limits, switches, switches),
    st.none() | st.frozensets(st.integers(1, 3)),
    switches,
    st.none() | names,
    *(switches, switches, limits, st.none() | st.integers(1, 5), names),
)


def leaves(policy: PolicyPart, path: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for name in type(policy).model_fields:
        value = getattr(policy, name)
        if isinstance(value, PolicyPart):
            found |= leaves(value, f"{path}{name}.")
        else:
            found[f"{path}{name}"] = value
    return found


def is_no_wider(tighter: ToolPolicy, wider: ToolPolicy) -> bool:
    """Said without the merge: every single answer of `tighter` is at most that of `wider`."""
    for (path, a), b in zip(leaves(tighter).items(), leaves(wider).values(), strict=True):
        if path == "denied_tools":
            if not a >= b:
                return False
        elif b is not None:
            if a is None:
                return False
            if isinstance(a, frozenset) and not a <= b:
                return False
            if not isinstance(a, frozenset) and a > b:
                return False
    return True


@given(policies, policies, policies)
def test_it_is_associative(a, b, c):
    left = merge_tool_policies(merge_tool_policies(a, b), c)
    assert left == merge_tool_policies(a, merge_tool_policies(b, c)) == merge_tool_policies(a, b, c)


@given(policies, policies)
def test_it_is_commutative(a, b):
    assert merge_tool_policies(a, b) == merge_tool_policies(b, a)


@given(policies)
def test_it_is_idempotent_and_saying_nothing_changes_nothing(a):
    assert merge_tool_policies(a, a) == a == merge_tool_policies(a, NO_RESTRICTION)


@given(st.lists(policies, max_size=6))
def test_no_sequence_of_layers_ever_widens(layers):
    steps = [reduce(merge_tool_policies, layers[:n], NO_RESTRICTION) for n in range(len(layers) + 1)]
    assert all(is_no_wider(after, before) for before, after in itertools.pairwise(steps))
    assert all(is_no_wider(steps[-1], layer) for layer in layers)


@given(policies, policies, policies)
def test_it_is_the_greatest_that_is_no_wider_than_both(a, b, c):
    if is_no_wider(c, a) and is_no_wider(c, b):
        assert is_no_wider(c, merge_tool_policies(a, b))


def test_every_field_takes_part_in_the_merge():
    full = ToolPolicy(
        fs={"enabled": True, "max_read_bytes": 1, "max_write_bytes": 2},
        shell={"enabled": True, "network": True, "ports": [1]},
        mcp={"enabled": True, "allowed_servers": ["a"]},
        memory={"enabled": True},
        image={"enabled": True, "max_bytes": 4},
        max_timeout_seconds=3,
        denied_tools=["a"],
    )
    assert all(value not in (None, frozenset()) for value in leaves(full).values())
    assert merge_tool_policies(NO_RESTRICTION, full) == full


def test_switches_and_limits_and_servers_by_example():
    system = ToolPolicy(
        fs=FsPolicy(enabled=True, max_read_bytes=100), mcp=McpPolicy(allowed_servers=frozenset("ab"))
    )
    agent = ToolPolicy(
        fs=FsPolicy(enabled=False, max_read_bytes=500, max_write_bytes=7),
        mcp=McpPolicy(allowed_servers=frozenset("bc")),
    )
    merged = merge_tool_policies(system, agent)
    assert merged.fs == FsPolicy(enabled=False, max_read_bytes=100, max_write_bytes=7)
    assert merged.mcp.allowed_servers == frozenset("b")


def test_an_agent_cannot_switch_on_what_the_system_switched_off():
    off = ToolPolicy(shell=ShellPolicy(enabled=False))
    on = ToolPolicy(shell=ShellPolicy(enabled=True))
    assert merge_tool_policies(off, on).shell.enabled is False


@pytest.mark.parametrize(
    "document",
    [
        {"fs": {"enabled": "false"}},
        {"fs": {"enabled": 1}},
        {"fs": {"max_read_bytes": 0}},
        {"fs": {"max_read_bytes": "5"}},
        {"fs": {"max_read_bytes": True}},
        {"fs": {"unknown": 1}},
        {"image": {"max_bytes": 0}},
        {"image": {"max_bytes": 2**26 + 1}},
        {"unknown": {}},
        {"denied_tools": "bash"},
    ],
)
def test_a_policy_that_is_not_understood_is_refused(document):
    with pytest.raises(ValidationError):
        ToolPolicy.model_validate(document)
