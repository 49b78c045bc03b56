"""`next_action` names only what works, for this person, here (S0-4.1.4, S1-4.3.1 to S1-4.3.3)."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.config.modes import ALL_MODES, ToolMode
from interlock.config.settings_report import setting_names
from interlock.policy.authority import compile_authority
from interlock.policy.authority_inputs import AuthorityInputs, Capabilities, ModeSwitching
from interlock.policy.policy_fields import FIELDS, FsPolicy, ToolPolicy, setting_name
from interlock.policy.verdict import AllowedTool, DeniedTool, ModeSwitchMethod, PolicyLayer
from interlock.sessions.runtime_settings import field_paths
from interlock.tools.registry import ToolRegistry
from tests.harness.tools import DeclaredTool, file_reader
from tests.unit.gates.situations import registries, situations

CODING = ToolMode.coding
NAMED = re.compile(r'(?:/mode |--mode |switch\(")(\w+)')

switchings = st.builds(
    ModeSwitching,
    st.sampled_from(list(ModeSwitchMethod)),
    st.just(ALL_MODES) | st.frozensets(st.sampled_from(list(ToolMode))),
)


@given(registries(), situations, switchings)
def test_a_mode_that_is_named_can_be_switched_to_and_allows_the_tool(registry, authority_inputs, switching):
    authority_inputs = replace(authority_inputs, switching=switching)
    for name, verdict in compile_authority(registry, authority_inputs).verdicts.items():
        if isinstance(verdict, AllowedTool):
            continue
        named = [ToolMode(mode) for mode in NAMED.findall(verdict.next_action)]
        assert len(named) <= 1
        if not named:
            continue
        opened = (
            authority_inputs.open_modes | {*named} if switching.way.opens else authority_inputs.open_modes
        )
        here = authority_inputs.capabilities
        if "--root FOLDER" in verdict.next_action:
            assert switching.way.opens
            here = here.offering(frozenset({"roots"}))
        there = replace(authority_inputs, mode=named[0], open_modes=opened, capabilities=here)
        assert isinstance(compile_authority(registry, there).verdicts[name], AllowedTool)
        if "/mode" in verdict.next_action:
            assert named[0] in switching.modes
        assert switching.way not in {ModeSwitchMethod.fixed, ModeSwitchMethod.operators}


@given(registries(), situations, switchings, switchings)
def test_how_the_mode_is_switched_decides_nothing(registry, authority_inputs, one, other):
    a, b = (compile_authority(registry, replace(authority_inputs, switching=each)) for each in (one, other))
    assert (a.exposed, a.schemas, a.tooling_text, a.safety_text) == (
        *(b.exposed, b.schemas, b.tooling_text, b.safety_text),
    )
    assert (a.policy, a.limits, a.profile) == (b.policy, b.limits, b.profile)
    for name, verdict in a.verdicts.items():
        if isinstance(verdict, DeniedTool):
            assert replace(verdict, next_action="") == replace(b.verdicts[name], next_action="")


@pytest.fixture
def registry() -> ToolRegistry:
    registry = ToolRegistry()
    registry.register(file_reader())
    registry.register(DeclaredTool("edit", modes=frozenset({CODING}), needs=frozenset({"roots"})))
    return registry


def told(
    registry: ToolRegistry, name: str = "read_file", *, way: ModeSwitchMethod, opened=ALL_MODES, **more
) -> str:
    more.setdefault("capabilities", Capabilities(present=frozenset({"roots"})))
    authority_inputs = AuthorityInputs(
        mode=ToolMode.chat_safe, open_modes=opened, switching=ModeSwitching(way, opened), **more
    )
    return compile_authority(registry, authority_inputs).failures[name].next_action


NEEDS = "This session is in chat_safe mode; read_file needs chat, plan or coding mode"
OPENED = f"{NEEDS}. Only the operator can open it (%s with --mode chat); continue without it."
CLOSED = (
    f"{NEEDS}, which is not open on this deployment. Only the operator can open it; continue without it."
)
KEPT = (
    "This task is fixed to chat_safe mode; read_file needs chat, plan or coding mode. Continue "
    "without it, or end the task and report what is missing."
)


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        (ModeSwitchMethod.page, f"{NEEDS}. Only a person can switch it (/mode chat)."),
        (ModeSwitchMethod.telegram, f"{NEEDS}. Only a person can switch it (/mode chat)."),
        (ModeSwitchMethod.terminal, f"{NEEDS}. Only a person can switch it (/mode chat)."),
        (ModeSwitchMethod.command, OPENED % "the same command"),
        (
            ModeSwitchMethod.program,
            f'{NEEDS}. Only the program that embeds Interlock can switch it (switch("chat")).',
        ),
        (ModeSwitchMethod.operators, f"{NEEDS}. Only an operator can switch it here; continue without it."),
        (ModeSwitchMethod.fixed, KEPT),
    ],
)
def test_each_place_names_its_own_way(registry, way, expected):
    assert told(registry, way=way) == expected


@pytest.mark.parametrize("way", ModeSwitchMethod)
def test_no_mode_is_suggested_where_a_policy_would_still_deny(registry, way):
    off = ToolPolicy(fs=FsPolicy(enabled=False))
    for layer, setting in (("environment", "TOOL_FS_ENABLED"), ("settings", "tools.fs.enabled")):
        step = told(registry, way=way, **{layer: off})
        assert NAMED.findall(step) == []
        assert (
            "but would be denied there too: read_file is not available: fs tools are switched off" in step
        )
        assert "Only the operator can change this, " in step
        assert f"({setting})" in step


def test_where_the_modes_are_closed_only_who_starts_interlock_can_open_one(registry):
    only_safe = frozenset({ToolMode.chat_safe})
    for way in (
        ModeSwitchMethod.page,
        ModeSwitchMethod.telegram,
        ModeSwitchMethod.program,
        ModeSwitchMethod.operators,
    ):
        assert told(registry, way=way, opened=only_safe) == CLOSED
    started_anew = told(registry, way=ModeSwitchMethod.terminal, opened=only_safe)
    assert started_anew == OPENED % "a chat started"


def test_a_folder_that_is_missing_is_opened_with_the_mode_where_that_can_be_done(registry):
    nowhere = {"capabilities": Capabilities()}
    assert "with --mode coding --root FOLDER)" in told(
        registry, "edit", way=ModeSwitchMethod.command, **nowhere
    )
    # The modes of a chat that is open are of no use without a folder.
    assert "started with --mode coding --root FOLDER)" in told(
        registry, "edit", way=ModeSwitchMethod.terminal, **nowhere
    )
    assert NAMED.findall(told(registry, "edit", way=ModeSwitchMethod.page, **nowhere)) == []


def test_the_settings_that_are_named_exist():
    known = {*setting_names(), *field_paths()}
    assert {setting_name(layer, path) for layer in PolicyLayer for path in FIELDS} <= known
