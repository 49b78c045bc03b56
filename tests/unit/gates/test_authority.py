"""One object, four readers: what is exposed is what can be executed, and the digest names the answers."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest.mock import AsyncMock

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.config.modes import ALL_MODES, ToolMode
from interlock.core.errors import ErrorCode
from interlock.gates.gate import ClearedCall, ToolCall
from interlock.policy.authority import (
    AuthorityCache,
    canonical_form,
    compile_authority,
    effective_policy,
)
from interlock.policy.authority_inputs import AuthorityInputs, CallLimits, Capabilities
from interlock.policy.policy_fields import (
    FIELDS,
    FsPolicy,
    McpPolicy,
    MemoryPolicy,
    ShellPolicy,
    ToolPolicy,
    merge_tool_policies,
    policy_of,
    values_of,
)
from interlock.policy.verdict import AllowedTool, DeniedTool, PolicyLayer
from interlock.tools.registry import ToolRegistry
from interlock.tools.tool import Effect, PolicySwitch, ToolContext, ToolGroup
from tests.harness.case_tables import each_row
from tests.harness.log_capture import capture_logs
from tests.harness.tools import DeclaredTool, UndeclaredTool, file_reader, judge_call
from tests.unit.gates.situations import registries, situations
from tests.unit.gates.test_policy import VALUES, policies

EVERY_MODE_OPEN = frozenset(ToolMode)


def test_what_is_drawn_is_open_about_as_often_as_it_is_closed():
    """Where everything is denied anyway, the properties below would hold of anything."""
    found: Counter[str] = Counter()

    @given(registries(), situations)
    def count(registry, authority_inputs):
        for verdict in compile_authority(registry, authority_inputs).verdicts.values():
            found["allowed" if isinstance(verdict, AllowedTool) else verdict.layer.value] += 1

    count()
    assert found["allowed"] > 25
    assert found.total() - found["allowed"] > 25
    assert len(found) > 5


@given(registries(), situations)
def test_a_tool_is_exposed_exactly_when_it_can_be_executed(registry, authority_inputs):
    authority = compile_authority(registry, authority_inputs)
    exposed = {item["function"]["name"] for item in orjson.loads(authority.schemas)}
    described = {line[2:].split(":")[0] for line in authority.tooling_text.splitlines()[1:]}
    for entry in registry:
        name = entry.tool.name
        cleared = isinstance(judge_call(ToolCall("c", name, "{}"), authority, registry), ClearedCall)
        assert cleared is (name in exposed) is (name in described)
        assert cleared is isinstance(authority.verdicts[name], AllowedTool)
        for alias in entry.tool.aliases:
            assert (
                isinstance(judge_call(ToolCall("c", alias, "{}"), authority, registry), ClearedCall)
                is cleared
            )
        if cleared:
            assert registry.check_mode(name, authority_inputs.mode)
            assert authority_inputs.mode in authority_inputs.open_modes


@given(registries(), situations, policies, st.sampled_from(["agent", "node"]))
def test_no_layer_widens(registry, authority_inputs, policy, layer):
    # Where the system lists no servers, an agent's list names them: everything else only tightens.
    authority_inputs = replace(
        authority_inputs, settings=merge_tool_policies(authority_inputs.settings, servers("a", "b"))
    )
    tighter = replace(
        authority_inputs, **{layer: merge_tool_policies(getattr(authority_inputs, layer), policy)}
    )
    before, after = compile_authority(registry, authority_inputs), compile_authority(registry, tighter)
    assert set(after.exposed) <= set(before.exposed)
    assert after.limits.max_read_bytes <= before.limits.max_read_bytes
    assert after.limits.max_write_bytes <= before.limits.max_write_bytes
    assert after.limits.max_timeout_seconds <= before.limits.max_timeout_seconds
    assert set(after.profile.writable_roots) <= set(before.profile.writable_roots)
    assert set(after.profile.readable_roots) <= set(before.profile.readable_roots)
    assert after.profile.network_ports <= before.profile.network_ports


def answers(authority) -> tuple:
    """Everything a reader can read, taken from the fields themselves."""
    return (
        authority.mode,
        authority.policy,
        authority.limits,
        authority.profile,
        dict(authority.verdicts),
        dict(authority.names),
        authority.exposed,
        authority.schemas,
        authority.tooling_text,
        authority.safety_text,
    )


@given(registries(), situations, situations)
def test_the_digest_changes_exactly_when_an_answer_does(registry, one, other):
    a, b = compile_authority(registry, one), compile_authority(registry, other)
    assert (a.digest == b.digest) is (answers(a) == answers(b))


@given(situations, situations)
def test_two_policies_have_the_same_digest_exactly_when_they_answer_the_same(one, other):
    """Whatever the layers were: only what holds in the end is in the digest, and all of it."""
    other = replace(other, mode=one.mode, capabilities=one.capabilities, limits=one.limits)
    a, b = (compile_authority(ToolRegistry(), each) for each in (one, other))
    assert (a.digest == b.digest) is (effective_policy(one) == effective_policy(other))


@given(situations, st.data())
def test_every_field_of_the_policy_is_part_of_the_digest(authority_inputs, data):
    plain = replace(authority_inputs, agent=ToolPolicy(), node=ToolPolicy())
    before = compile_authority(ToolRegistry(), plain)
    for path, field in FIELDS.items():
        narrower = policy_of({path: data.draw(VALUES[field.kind.editor])})
        after = compile_authority(ToolRegistry(), replace(plain, node=narrower))
        changed = values_of(after.policy)[path] != values_of(before.policy)[path]
        assert (after.digest != before.digest) is changed, path


@given(situations)
def test_an_effective_policy_has_no_unset_field_and_may_be_said_aloud(authority_inputs):
    """Setting what holds anyway changes nothing: not the answers, and so not the digest."""
    policy = effective_policy(authority_inputs)
    assert None not in values_of(policy).values()
    again = replace(authority_inputs, node=merge_tool_policies(authority_inputs.node, policy))
    assert effective_policy(again) == policy
    one, other = (compile_authority(ToolRegistry(), each) for each in (authority_inputs, again))
    assert one.digest == other.digest


@given(st.permutations(["a", "b", "c"]))
def test_the_order_of_registration_changes_nothing(order):
    def registry(names):
        built = ToolRegistry()
        for name in names:
            built.register(DeclaredTool(name, aliases=(f"{name}.x",)))
        return built

    authority_inputs = AuthorityInputs(mode=ToolMode.chat_safe)
    one = compile_authority(registry(["a", "b", "c"]), authority_inputs)
    assert compile_authority(registry(order), authority_inputs).digest == one.digest


def test_every_field_is_part_of_the_digest():
    authority = compile_authority(ToolRegistry(), AuthorityInputs(mode=ToolMode.chat))
    fields = set(type(authority).__slots__) - {
        "digest",
        "exposed",
        "failures",
        "entries",
        "authority_inputs",
    }
    assert {
        f"{name}_text" if name in {"tooling", "safety"} else name for name in canonical_form(authority)
    } == (fields)


@pytest.fixture
def registry() -> ToolRegistry:
    registry = ToolRegistry()
    registry.register(DeclaredTool("current_time"))
    registry.register(file_reader())
    registry.register(
        DeclaredTool(
            "bash",
            modes=frozenset({ToolMode.coding}),
            switches=frozenset({PolicySwitch.fs, PolicySwitch.shell}),
            needs=frozenset({"sandbox"}),
        )
    )
    registry.register(
        DeclaredTool("memory_search", switches=frozenset({PolicySwitch.memory}), modes=ALL_MODES)
    )
    registry.register(DeclaredTool("files__list", switches=frozenset({PolicySwitch.mcp}), server="files"))
    registry.register(UndeclaredTool())
    return registry


def verdict(registry, name, mode=ToolMode.coding, **authority_inputs):
    authority_inputs.setdefault("open_modes", EVERY_MODE_OPEN)
    return compile_authority(registry, AuthorityInputs(mode=mode, **authority_inputs)).verdict(name)


OFF = ToolPolicy(fs=FsPolicy(enabled=False))
DENY = ToolPolicy(denied_tools=frozenset({"read"}))


@pytest.mark.parametrize(
    ("name", "authority_inputs", "layer", "code"),
    [
        ("undeclared", {}, PolicyLayer.declaration, ErrorCode.MODE_DENIED),
        ("read_file", {"mode": ToolMode.chat_safe}, PolicyLayer.declaration, ErrorCode.MODE_DENIED),
        (
            "read_file",
            {"open_modes": frozenset({ToolMode.chat_safe})},
            PolicyLayer.mode,
            ErrorCode.MODE_DENIED,
        ),
        (
            "read_file",
            {"environment": OFF, "settings": OFF},
            PolicyLayer.environment,
            ErrorCode.TOOL_NOT_AVAILABLE,
        ),
        ("read_file", {"settings": OFF, "agent": OFF}, PolicyLayer.settings, ErrorCode.TOOL_NOT_AVAILABLE),
        ("read_file", {"agent": DENY}, PolicyLayer.agent, ErrorCode.TOOL_NOT_AVAILABLE),
        ("read_file", {"node": DENY}, PolicyLayer.node, ErrorCode.TOOL_NOT_AVAILABLE),
        ("bash", {"settings": OFF}, PolicyLayer.settings, ErrorCode.TOOL_NOT_AVAILABLE),
        ("bash", {}, PolicyLayer.capability, ErrorCode.TOOL_NOT_AVAILABLE),
        ("files__list", {}, PolicyLayer.settings, ErrorCode.TOOL_NOT_AVAILABLE),
        (
            "files__list",
            {"agent": ToolPolicy(mcp=McpPolicy(allowed_servers=frozenset()))},
            PolicyLayer.agent,
            ErrorCode.TOOL_NOT_AVAILABLE,
        ),
    ],
)
def test_the_first_layer_that_denies_decides(registry, name, authority_inputs, layer, code):
    denied = verdict(registry, name, **authority_inputs)
    assert isinstance(denied, DeniedTool)
    assert (denied.layer, denied.error_code) == (layer, code)
    assert denied.message
    assert denied.next_action


def test_what_a_task_does_not_bring_along_is_no_matter_of_the_machine(registry):
    registry.register(DeclaredTool("complete_step", needs=frozenset({"step"}), modes=ALL_MODES))
    here = Capabilities(of_tasks=frozenset({"step"}), missing_reasons=(("step", "this is no step"),))
    denied = verdict(registry, "complete_step", capabilities=here)
    assert (denied.layer, denied.error_code) == (PolicyLayer.task, ErrorCode.TOOL_NOT_AVAILABLE)
    assert denied.message == "complete_step is not available here: this is no step"
    assert "operator" not in denied.next_action
    brought = here.offering(frozenset({"step"}))
    assert isinstance(verdict(registry, "complete_step", capabilities=brought), AllowedTool)


@each_row("group", ToolGroup)
@each_row("mode", ToolMode)
def test_a_group_never_grants_anything(group, mode):
    registry = ToolRegistry()
    registry.register(DeclaredTool("open", group=group))
    registry.register(DeclaredTool("closed", group=group, modes=frozenset()))
    assert isinstance(verdict(registry, "open", mode), AllowedTool)
    assert isinstance(verdict(registry, "closed", mode), DeniedTool)
    assert not registry.check_mode("closed", mode)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("group:memory", "its group memory is on the list of denied tools in the agent's policy"),
        ("effect:read", "its effect read is on the list of denied tools in the agent's policy"),
    ],
)
def test_a_tool_of_a_denied_group_or_effect_is_neither_exposed_nor_executed(registry, entry, reason):
    registry.register(DeclaredTool("note", group=ToolGroup.memory, aliases=("memory.note",)))
    registry.register(DeclaredTool("draw", group=ToolGroup.media, effect=Effect.special))
    denied = ToolPolicy(denied_tools=frozenset({entry}), shell=ShellPolicy(enabled=True))
    authority_inputs = AuthorityInputs(mode=ToolMode.chat, open_modes=EVERY_MODE_OPEN, agent=denied)
    authority = compile_authority(registry, authority_inputs)
    assert "note" not in authority.exposed
    assert authority.verdict("memory.note").message == f"note is not available: {reason}"
    assert "(tools.denied_tools)" in authority.verdict("note").next_action
    assert isinstance(authority.verdict("draw"), AllowedTool)
    refusal = judge_call(ToolCall("c", "memory.note", "{}"), authority, registry)
    assert refusal.failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE


def test_a_tool_reads_the_effective_policy_from_its_context(registry):
    seen = []
    asking = policy_of({"shell.unknown": "ask"})
    tool = DeclaredTool("asks")
    tool.prepare = AsyncMock(side_effect=lambda _arguments, context: seen.append(context.policy))
    registry.register(tool)
    for node in (ToolPolicy(), asking, policy_of({"shell.unknown": "deny"})):
        authority_inputs = AuthorityInputs(
            mode=ToolMode.chat, open_modes=EVERY_MODE_OPEN, agent=asking, node=node
        )
        authority = compile_authority(registry, authority_inputs)
        judge_call(ToolCall("c", "asks", "{}"), authority, registry)
        assert seen[-1] is authority.policy
    assert [policy.shell.unknown for policy in seen] == ["ask", "ask", "deny"]
    assert compile_authority(registry, AuthorityInputs(mode=ToolMode.chat)).policy.shell.unknown == "allow"
    assert ToolContext.__dataclass_fields__["policy"].default.shell.unknown == "deny"


def test_an_override_is_named_as_the_layer_that_decided(registry):
    registry.set_mode_override("current_time", frozenset({ToolMode.coding}))
    assert verdict(registry, "current_time", ToolMode.chat).layer is PolicyLayer.override


def test_shell_tools_are_off_with_files_whatever_they_declare():
    registry = ToolRegistry()
    registry.register(DeclaredTool("sh", switches=frozenset({PolicySwitch.shell}), effect=Effect.exec))
    assert isinstance(verdict(registry, "sh"), AllowedTool)
    assert verdict(registry, "sh", settings=OFF).layer is PolicyLayer.settings


def test_a_tool_of_a_server_is_off_with_mcp_whatever_it_declares():
    registry = ToolRegistry()
    registry.register(DeclaredTool("files__list", server="files"))
    listed = ToolPolicy(mcp=McpPolicy(enabled=False, allowed_servers=frozenset({"files"})))
    assert isinstance(verdict(registry, "files__list", settings=listed), DeniedTool)
    registry.register(DeclaredTool("odd__list", server=""))
    assert isinstance(verdict(registry, "odd__list"), DeniedTool)


def test_with_files_off_asking_and_remembering_remain(registry):
    for name in ("current_time", "memory_search"):
        assert isinstance(verdict(registry, name, settings=OFF), AllowedTool)
    off = ToolPolicy(memory=MemoryPolicy(enabled=False))
    assert isinstance(verdict(registry, "memory_search", settings=off), DeniedTool)


def test_what_is_missing_here_is_told_with_its_reason(registry):
    missing = Capabilities(missing_reasons=(("sandbox", "this kernel has no Landlock"),))
    denied = verdict(registry, "bash", capabilities=missing)
    assert denied.message == "bash is not available here: this kernel has no Landlock"
    assert isinstance(
        verdict(registry, "bash", capabilities=Capabilities(frozenset({"sandbox"}))), AllowedTool
    )


def test_a_listed_server_is_open_and_an_unset_list_is_not(registry):
    listed = ToolPolicy(mcp=McpPolicy(allowed_servers=frozenset({"files"})))
    assert isinstance(verdict(registry, "files__list", settings=listed), AllowedTool)
    assert "the MCP server files is not allowed" in verdict(registry, "files__list").message


def test_an_agent_cannot_open_what_the_system_left_unsaid(registry):
    wide = ToolPolicy(
        fs=FsPolicy(max_read_bytes=10**9),
        shell=ShellPolicy(network=True, ports=frozenset({22})),
    )
    authority_inputs = AuthorityInputs(
        mode=ToolMode.coding, agent=wide, capabilities=Capabilities(roots=(Path("/r"),))
    )
    authority = compile_authority(registry, authority_inputs)
    assert authority.limits.max_read_bytes == 524288
    assert authority.profile.network_ports == frozenset()
    networked = replace(authority_inputs, environment=ToolPolicy(shell=ShellPolicy(network=True)))
    assert compile_authority(registry, networked).profile.network_ports == frozenset()


def servers(*names: str) -> ToolPolicy:
    return ToolPolicy(mcp=McpPolicy(allowed_servers=frozenset(names)))


@pytest.mark.parametrize(
    ("system", "agent", "is_allowed"),
    [
        (ToolPolicy(), ToolPolicy(), False),
        (servers("files"), ToolPolicy(), True),
        (ToolPolicy(), servers("files"), True),
        (ToolPolicy(), servers("other"), False),
        (ToolPolicy(), servers(), False),
        (servers("files", "other"), servers("files"), True),
        (servers("other"), servers("files"), False),
        (servers(), servers("files"), False),
        (ToolPolicy(mcp=McpPolicy(enabled=False)), servers("files"), False),
    ],
)
@pytest.mark.parametrize("side", ["environment", "settings"])
def test_where_one_side_lists_no_servers_the_other_sides_list_holds(
    registry, side, system, agent, is_allowed
):
    here = {side: system, "agent": agent}
    assert isinstance(verdict(registry, "files__list", **here), AllowedTool) is is_allowed


def test_a_step_lists_no_server_that_neither_the_system_nor_the_agent_lists(registry):
    assert isinstance(verdict(registry, "files__list", node=servers("files")), DeniedTool)
    assert isinstance(
        verdict(registry, "files__list", agent=servers("files"), node=servers("files")), AllowedTool
    )


def test_the_stored_settings_may_raise_a_limit_above_its_default(registry):
    more = ToolPolicy(fs=FsPolicy(max_read_bytes=10**6))
    assert compile_authority(
        registry, AuthorityInputs(mode=ToolMode.chat, settings=more)
    ).limits.max_read_bytes == (10**6)


def test_unset_limits_get_their_defaults_and_set_ones_hold(registry):
    plain = compile_authority(registry, AuthorityInputs(mode=ToolMode.chat))
    assert plain.limits.max_read_bytes == 524288
    assert plain.limits.max_write_bytes == 2097152
    assert (plain.limits.max_output_lines, plain.limits.max_output_bytes) == (2000, 51200)
    tight = ToolPolicy(fs=FsPolicy(max_read_bytes=9), max_timeout_seconds=5)
    limits = compile_authority(registry, AuthorityInputs(mode=ToolMode.chat, agent=tight)).limits
    assert (limits.max_read_bytes, limits.timeout_seconds, limits.max_timeout_seconds) == (9, 5, 5)


def test_a_mode_is_a_profile():
    roots = (Path("/work"),)
    network = ToolPolicy(shell=ShellPolicy(network=True, ports=frozenset({443})))

    def profile(mode, **more):
        authority_inputs = AuthorityInputs(mode=mode, capabilities=Capabilities(roots=roots), **more)
        return compile_authority(ToolRegistry(), authority_inputs).profile

    assert profile(ToolMode.chat_safe).readable_roots == ()
    for mode in (ToolMode.chat, ToolMode.plan):
        assert (profile(mode).readable_roots, profile(mode).writable_roots) == (roots, ())
        assert profile(mode, settings=network).network_ports == frozenset()
    assert profile(ToolMode.coding).writable_roots == roots
    assert profile(ToolMode.coding).network_ports == frozenset()
    assert profile(ToolMode.coding, settings=network).network_ports == {443}
    ports_alone = ToolPolicy(shell=ShellPolicy(ports=frozenset({443})))
    no_network = ToolPolicy(shell=ShellPolicy(network=False))
    assert profile(ToolMode.coding, settings=ports_alone).network_ports == frozenset()
    assert profile(ToolMode.coding, settings=network, agent=no_network).network_ports == frozenset()
    assert profile(ToolMode.coding, settings=OFF).readable_roots == ()


def test_all_readers_of_a_turn_hold_the_same_object(registry):
    cache = AuthorityCache(registry)
    authority_inputs = AuthorityInputs(mode=ToolMode.chat, open_modes=EVERY_MODE_OPEN)
    before = cache.get(authority_inputs)
    assert before is cache.get(AuthorityInputs(mode=ToolMode.chat, open_modes=EVERY_MODE_OPEN))
    assert "read_file" in before.exposed
    registry.set_mode_override("read_file", frozenset())
    assert "read_file" not in cache.get(authority_inputs).exposed


def test_the_cache_is_bounded(registry):
    cache = AuthorityCache(registry, size=3)
    first = cache.get(AuthorityInputs(mode=ToolMode.chat))
    for lines in range(1, 5):
        cache.get(AuthorityInputs(mode=ToolMode.chat, limits=CallLimits(max_output_lines=lines)))
    assert cache.get(AuthorityInputs(mode=ToolMode.chat)) is not first


def test_an_authority_cannot_be_changed(registry):
    authority = compile_authority(registry, AuthorityInputs(mode=ToolMode.chat_safe))
    with pytest.raises(AttributeError):
        authority.mode = ToolMode.coding
    with pytest.raises(TypeError):
        authority.verdicts["read_file"] = AllowedTool("read_file")
    with pytest.raises(AttributeError):
        authority.exposed = ("read_file",)


def test_compiling_is_logged_once(registry):
    cache = AuthorityCache(registry)
    with capture_logs() as logs:
        cache.get(AuthorityInputs(mode=ToolMode.chat_safe))
        cache.get(AuthorityInputs(mode=ToolMode.chat_safe))
    assert [(entry["event"], entry["mode"], entry["allowed"]) for entry in logs] == [
        ("tool_capability", "chat_safe", ["current_time", "files__list", "memory_search"]),
        ("authority_compiled", "chat_safe", ["current_time", "memory_search"]),
    ]


@pytest.mark.parametrize("mode", ToolMode)
def test_what_the_registry_answers_for_a_mode_is_what_is_exposed(registry, mode, monkeypatch):
    """One filter: whatever `check_mode` says decides what a model is offered, and what it may call."""
    monkeypatch.setattr(registry, "check_mode", lambda name, _mode: name == "memory_search")
    authority = compile_authority(registry, AuthorityInputs(mode=mode, open_modes=frozenset(ToolMode)))
    assert authority.exposed == ("memory_search",)
    [schema] = orjson.loads(authority.schemas)
    assert schema["function"]["name"] == "memory_search"
    assert authority.verdict("current_time").error_code is ErrorCode.MODE_DENIED


@pytest.mark.parametrize("value", ["coding", "chat_safe", "admin", None])
def test_a_text_that_looks_like_a_mode_is_not_taken_for_one(value):
    with pytest.raises(TypeError, match="not a ToolMode"):
        AuthorityInputs(mode=value)


def test_a_tool_that_declares_other_modes_each_time_is_exposed_exactly_when_it_can_be_executed():
    class Wavering(UndeclaredTool):
        name = "wavering"
        effect = Effect.read
        reads = 0

        @property
        def allowed_modes(self):
            self.reads += 1
            return ALL_MODES if self.reads % 2 else frozenset()

    for reads_before in range(4):
        tool = Wavering()
        tool.reads = reads_before
        registry = ToolRegistry()
        registry.register(tool)
        for _ in range(3):
            authority = compile_authority(registry, AuthorityInputs(ToolMode.chat_safe))
            exposed = {item["function"]["name"] for item in orjson.loads(authority.schemas)}
            assert exposed == set(authority.exposed)
            assert exposed == ({"wavering"} if reads_before % 2 == 0 else set())
