"""The registry: unique names, declared modes, and one filter behind every answer (S0-3, S1-F, S3-5.2)."""

import pytest

from interlock.config.modes import ALL_MODES, ToolMode
from interlock.tools.registry import ToolRegistry
from tests.harness.log_capture import capture_logs
from tests.harness.tools import DeclaredTool, UndeclaredTool, file_reader

ADMISSION = {
    "clock": ALL_MODES,
    "reader": ALL_MODES - {ToolMode.chat_safe},
    "writer": frozenset({ToolMode.coding}),
    "undeclared": frozenset(),
}


@pytest.fixture
def registry() -> ToolRegistry:
    registry = ToolRegistry()
    for name in ("writer", "reader", "clock"):
        registry.register(DeclaredTool(name, modes=ADMISSION[name]))
    registry.register(UndeclaredTool())
    return registry


@pytest.mark.parametrize("mode", ToolMode)
@pytest.mark.parametrize("name", ADMISSION)
def test_every_tool_in_every_mode_matches_the_admission_matrix(registry, name, mode):
    expected = mode in ADMISSION[name]
    assert registry.check_mode(name, mode) is expected
    assert (name in [tool.name for tool in registry.list_tools(mode)]) is expected
    assert (name in registry.allowed_tool_names(mode)) is expected


def test_the_order_does_not_depend_on_registration(registry):
    assert [tool.name for tool in registry.list_tools(ToolMode.coding)] == ["clock", "reader", "writer"]


def test_a_schema_item_has_the_function_form(registry):
    (item,) = registry.get_tools_schema(ToolMode.chat_safe)
    assert item["type"] == "function"
    assert set(item["function"]) == {"name", "description", "parameters"}
    assert item["function"]["parameters"]["additionalProperties"] is False


@pytest.mark.parametrize("name", ["clock", "tick"])
def test_a_name_or_alias_can_be_taken_only_once(registry, name):
    registry.register(DeclaredTool("watch", aliases=("tick",)))
    with pytest.raises(ValueError, match=f"'{name}' is already registered"):
        registry.register(DeclaredTool(name))
    with pytest.raises(ValueError, match=f"'{name}' is already registered"):
        registry.register(DeclaredTool("other", aliases=(name,)))
    assert registry.get("other") is None


def test_an_alias_leads_to_the_tool_and_opens_nothing(registry):
    reader = file_reader()
    registry.register(reader)
    assert registry.get("read_file").tool is registry.get("fs.read").tool is reader
    assert registry.canonical_name("fs.read") == "read_file"
    assert registry.check_mode("fs.read", ToolMode.chat_safe) is False
    assert registry.check_mode("fs.read", ToolMode.coding) is True


@pytest.mark.parametrize("name", ["", "Read", "a b", "a\n", "x" * 65, "1a", "a-b", "a.b"])
def test_a_name_that_providers_would_refuse_is_refused_here(name):
    with pytest.raises(ValueError, match="is not a valid tool name"):
        ToolRegistry().register(DeclaredTool(name))


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "string"},
        {"properties": {}},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "properties": {"a": {"type": "no-such-type"}}},
    ],
)
def test_parameters_that_could_let_anything_through_are_refused(parameters):
    with pytest.raises(ValueError, match="parameters"):
        ToolRegistry().register(DeclaredTool(parameters=parameters))


def test_modes_must_be_modes():
    with pytest.raises(ValueError, match="mode that does not exist"):
        ToolRegistry().register(DeclaredTool(modes=frozenset({"coding"})))


def test_an_override_of_an_unknown_tool_is_an_error(registry):
    with pytest.raises(KeyError):
        registry.set_mode_override("nothing", frozenset())


def test_an_override_is_kept_beside_what_the_tool_declares(registry):
    registry.set_mode_override("clock", frozenset({ToolMode.plan}))
    assert registry._mode_overrides == {"clock": {ToolMode.plan}}
    assert set(registry._tools) == set(ADMISSION)
    assert registry.entry("clock").tool.allowed_modes == ALL_MODES
    assert registry.get_effective_modes("reader") == ADMISSION["reader"]


def test_schemas_come_from_the_list_of_tools(registry, monkeypatch):
    """One filter: what the list leaves out has no schema either, whatever its modes are."""
    [clock, *_] = registry.list_tools(ToolMode.coding)
    asked = []
    monkeypatch.setattr(registry, "list_tools", lambda mode: asked.append(mode) or [clock])
    names = [item["function"]["name"] for item in registry.get_tools_schema(ToolMode.coding)]
    assert names == ["clock"]
    assert asked == [ToolMode.coding]


def test_the_last_override_wins(registry):
    registry.set_mode_override("clock", frozenset())
    registry.set_mode_override("clock", frozenset({ToolMode.plan}))
    assert registry.get_effective_modes("clock") == {ToolMode.plan}


@pytest.mark.parametrize("value", ["admin", "", None, 7, object(), " coding"])
def test_a_value_that_is_no_mode_is_answered_closed(registry, value):
    assert registry.check_mode("clock", value) is False
    with pytest.raises(ValueError, match="not a mode"):
        registry.list_tools(value)
    with pytest.raises(ValueError, match="not a mode"):
        registry.get_tools_schema(value)
    with capture_logs() as logs:
        assert registry.allowed_tool_names(value) == ["clock"]
    assert logs[0]["event"] == "unknown_mode"


def test_build_is_another_name_for_coding(registry):
    assert registry.list_tools("build") == registry.list_tools(ToolMode.coding)


def test_asking_for_the_names_of_a_mode_is_logged(registry):
    with capture_logs() as logs:
        registry.allowed_tool_names(ToolMode.chat)
    assert logs == [
        {
            "event": "tool_capability",
            "log_level": "info",
            "mode": "chat",
            "allowed": ["clock", "reader"],
            "registered": 4,
        }
    ]


@pytest.mark.parametrize("method", ["list_tools", "get_tools_schema", "check_mode", "allowed_tool_names"])
def test_the_mode_can_never_be_left_out(registry, method):
    arguments = ("clock",) if method == "check_mode" else ()
    with pytest.raises(TypeError):
        getattr(registry, method)(*arguments)


@pytest.mark.parametrize(
    ("member", "value", "problem"),
    [
        ("group", "Media", "has the group 'Media'; use ToolGroup"),
        ("group", None, "has the group None; use ToolGroup"),
        ("effect", "reads", "has the effect 'reads'; use Effect"),
        ("effect", "read", "has the effect 'read'; use Effect"),
        ("allowed_modes", [ToolMode.coding], "names a mode that does not exist"),
        ("allowed_modes", "coding", "names a mode that does not exist"),
        ("switches", frozenset({"disk"}), "names the switch 'disk', which no policy has"),
    ],
)
def test_a_declaration_that_no_policy_could_deny_is_refused(registry, member, value, problem):
    liar = type("Liar", (UndeclaredTool,), {"name": "liar", member: value})
    with pytest.raises(ValueError, match=problem):
        registry.register(liar())
    assert registry.get("liar") is None


def test_a_tool_whose_declaration_fails_is_not_registered(registry):
    def fail(_tool):
        raise RuntimeError("no group")

    with pytest.raises(RuntimeError):
        registry.register(
            type("Failing", (UndeclaredTool,), {"name": "failing", "group": property(fail)})()
        )
    assert registry.get("failing") is None
