"""The merge is a meet: Hypothesis looks for a counter-example (S4-API5 to API8, S4-G1, S4-T1)."""

import itertools
import re
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from interlock.config.modes import Effect, ToolGroup
from interlock.policy.policy_fields import (
    FIELDS,
    NO_RESTRICTION,
    FsPolicy,
    McpPolicy,
    ShellPolicy,
    ToolPolicy,
    merge_tool_policies,
    policy_of,
    to_document,
    unknown_tools,
    values_of,
)

# Values of each kind that meet in every way: of a new kind, none could be drawn.
VALUES = {
    "switch": st.booleans(),
    "bytes": st.integers(1, 5) | st.integers(600_000, 600_005),
    "seconds": st.integers(1, 5).map(float),
    "ports": st.frozensets(st.integers(1, 3)),
    "servers": st.frozensets(st.sampled_from(["a", "b", "c"])),
    "tools": st.frozensets(st.sampled_from(["a", "b", "c", "group:media", "effect:special"])),
    "choice": st.sampled_from(["allow", "ask", "deny"]),
}
policies = st.fixed_dictionaries(
    {path: st.just(field.kind.unset) | VALUES[field.kind.editor] for path, field in FIELDS.items()}
).map(policy_of)

ORDER = ["deny", "ask", "allow"]


def is_no_wider(tighter: ToolPolicy, wider: ToolPolicy) -> bool:
    """Said without the merge: every single answer of `tighter` is at most that of `wider`."""
    for (path, a), b in zip(values_of(tighter).items(), values_of(wider).values(), strict=True):
        match FIELDS[path].kind.editor, a, b:
            case "tools", _, _:
                fits = a >= b
            case _, _, None:
                fits = True
            case _, None, _:
                fits = False
            case "choice", _, _:
                fits = ORDER.index(a) <= ORDER.index(b)
            case _:
                # Sets are compared as subsets, and off is less than on.
                fits = a <= b
        if not fits:
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


@given(st.data())
def test_every_field_takes_part_in_the_merge(data):
    for path, field in FIELDS.items():
        value = data.draw(
            VALUES[field.kind.editor].filter(lambda value, kind=field.kind: value != kind.unset)
        )
        alone = policy_of({path: value})
        assert values_of(merge_tool_policies(NO_RESTRICTION, alone))[path] == value, path
        assert values_of(merge_tool_policies(alone, NO_RESTRICTION))[path] == value, path


@given(policies, policies)
def test_policies_have_the_same_document_exactly_when_they_are_the_same(a, b):
    """The digest is of this document; the order of a set must not matter, and no field may be missing."""
    assert (to_document(a) == to_document(b)) is (a == b)
    assert ToolPolicy.model_validate(to_document(a)) == a


def test_the_order_of_a_set_is_not_part_of_the_document():
    ports = [8080, 80, 443, 65535, 3000, 22]
    first, second = (policy_of({"shell.ports": frozenset(each)}) for each in (ports, ports[::-1]))
    assert to_document(first)["shell"]["ports"] == sorted(ports) == to_document(second)["shell"]["ports"]


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


@pytest.mark.parametrize(("one", "other"), [(a, b) for a in ORDER for b in ORDER])
def test_of_two_decisions_the_stricter_holds(one, other):
    layers = [policy_of({"shell.unknown": value}) for value in (one, other)]
    assert merge_tool_policies(*layers).shell.unknown == ORDER[min(map(ORDER.index, (one, other)))]


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


# -- groups and effects where tools can be named ------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "denies", "named"),
    [
        ("group:media", ("generate", ToolGroup.media, Effect.special), "its group media is"),
        ("GROUP:Media", ("generate", ToolGroup.media, Effect.special), "its group media is"),
        ("effect:exec", ("bash", ToolGroup.code, Effect.exec), "its effect exec is"),
        ("bash", ("Bash", ToolGroup.code, Effect.exec), "it is"),
    ],
)
def test_a_group_or_an_effect_denies_every_tool_that_has_it(entry, denies, named):
    name, group, effect = denies
    policy = ToolPolicy(denied_tools=frozenset({entry}))
    assert policy.denial_of([name], group, effect) == named
    assert policy.denial_of(["read_file"], ToolGroup.world, Effect.read) is None


@pytest.mark.parametrize("entry", ["media", "exec", "groupmedia"])
def test_without_its_prefix_it_is_the_name_of_a_tool(entry):
    policy = ToolPolicy(denied_tools=frozenset({entry}))
    assert policy.denial_of(["bash"], ToolGroup.media, Effect.exec) is None


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("group:medai", "'group:medai' names no group of tools; did you mean group:media?"),
        ("Effect:execute", "'Effect:execute' names no effect of tools; did you mean effect:exec?"),
        ("group:", "names no group of tools"),
        ("group:oldname", "names no group of tools; valid: group:code, group:memory"),
        ("group:exec", "names no group of tools"),
        ("group: media", "did you mean group:media?"),
        ("a b", "'a b' is not a valid tool name"),
    ],
)
def test_a_group_or_an_effect_that_does_not_exist_is_refused(entry, problem):
    with pytest.raises(ValidationError, match=re.escape(problem)):
        ToolPolicy(denied_tools=frozenset({entry}))


def test_a_denied_tool_exists_in_whatever_case_it_is_named():
    """A denial ignores case, so a warning that such a tool does not exist would be wrong."""
    assert unknown_tools({"Bash", "FS.Read", "bsah", "group:media"}, {"bash", "fs.read"}) == ["bsah"]
