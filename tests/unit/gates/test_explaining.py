"""What people are told about tools and modes is what calls are judged by."""

from interlock.config.modes import ToolMode
from interlock.gates.explain import explain_call, matrix_json
from interlock.policy.authority import Authority, compile_authority
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.policy.policy_fields import ToolPolicy
from interlock.tools.registry import ToolRegistry
from tests.harness.tools import CHAT_AND_CODING, DeclaredTool

TIMEZONE = {"type": "object", "properties": {"zone": {"type": "string"}}, "additionalProperties": False}
OPEN = frozenset({ToolMode.chat_safe})


def registry() -> ToolRegistry:
    made = ToolRegistry()
    made.register(DeclaredTool("clock", parameters=TIMEZONE, aliases=("time",)))
    made.register(DeclaredTool("saw", modes=CHAT_AND_CODING))
    return made


def authorities(tools: ToolRegistry, open_modes=OPEN, **policies) -> dict[ToolMode, Authority]:
    return {
        mode: compile_authority(tools, AuthorityInputs(mode, open_modes=open_modes, **policies))
        for mode in ToolMode
    }


def matrix(**policies) -> dict:
    tools = registry()
    opened = authorities(tools, frozenset(ToolMode), **policies)
    return matrix_json(tools, authorities(tools, **policies), opened, OPEN)


def test_the_matrix_tells_of_every_tool_in_every_mode_and_who_decided():
    told = matrix(settings=ToolPolicy(denied_tools=frozenset({"saw"})))
    assert told["open_modes"] == ["chat_safe"]
    assert set(told["digests"]) == set(ToolMode)
    assert told["limits"] == {
        "max_read_bytes": 524288,
        "max_write_bytes": 2097152,
        "max_output_lines": 2000,
        "max_output_bytes": 51200,
    }
    clock, saw = told["tools"]
    assert (clock["name"], clock["description"]) == ("clock", DeclaredTool("clock").description)
    assert clock["modes"]["chat_safe"] == {"allowed": True}
    assert clock["modes"]["coding"] == {
        "allowed": False,
        "error_code": "MODE_DENIED",
        "layer": "mode",
        "decided_by": "the modes the operator opened",
        "message": "clock is not allowed in coding mode",
        "if_opened": {"allowed": True},
    }
    assert (saw["modes"]["chat_safe"]["layer"], saw["modes"]["chat_safe"]["decided_by"]) == (
        "settings",
        "the stored settings",
    )
    assert saw["modes"]["plan"]["layer"] == "declaration"
    assert saw["modes"]["coding"]["if_opened"]["layer"] == "settings"
    assert "if_opened" not in saw["modes"]["chat_safe"]


async def explained(tool: str, args=None, mode=ToolMode.chat_safe, **policies) -> dict:
    tools = registry()
    return await explain_call(tools, authorities(tools, **policies)[mode], tool, args)


async def test_an_allowed_call_is_told_with_the_digest_it_was_judged_under():
    digest = authorities(registry())[ToolMode.chat_safe].digest
    allowed = {"tool_name": "clock", "mode": "chat_safe", "allowed": True, "authority_digest": digest}
    assert await explained("clock") == allowed
    assert await explained("time") == allowed
    assert await explained("clock", '{"zone": "UTC"}') == allowed
    assert await explained("clock", {"zone": "UTC"}) == allowed
    assert await explained("clock", "") == allowed


async def test_a_refused_call_says_who_decided_and_what_to_do():
    told = await explained("clock", mode=ToolMode.coding)
    assert told["allowed"] is False
    assert (told["layer"], told["decided_by"]) == ("mode", "the modes the operator opened")
    assert (told["error_code"], told["error_class"]) == ("MODE_DENIED", "policy")
    assert told["message"]
    assert told["next_action"]


async def test_arguments_are_judged_only_where_some_are_given():
    told = await explained("clock", '{"zone": 5}')
    assert (told["allowed"], told["layer"], told["error_code"]) == (False, "arguments", "INVALID_ARGS")
    assert (await explained("clock", {"moon": 1}))["error_code"] == "INVALID_ARGS"
    assert (await explained("clock", "{"))["error_code"] == "INVALID_ARGS"


async def test_a_tool_that_is_not_there_is_told_by_the_name_it_was_asked_by():
    told = await explained("launch_rocket")
    assert (told["tool_name"], told["error_code"]) == ("launch_rocket", "TOOL_NOT_FOUND")
