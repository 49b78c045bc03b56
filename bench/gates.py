"""A gate decision beside a dictionary look-up."""

from tests.harness.tools import DeclaredTool, judge_call

from bench.duties import Duty
from bench.rows import Row, cpu_microseconds, interleaved
from interlock.config.modes import ALL_MODES, ToolMode
from interlock.gates.gate import ToolCall, judge_tool
from interlock.policy.authority import compile_authority
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.tools.registry import ToolRegistry

ROUNDS, TIMES = 9, 50_000


def rows() -> list[Row]:
    registry = ToolRegistry()
    for number in range(25):
        modes = ALL_MODES if number % 2 else frozenset({ToolMode.coding})
        registry.register(DeclaredTool(f"tool_{number}", modes=modes, aliases=(f"t.{number}",)))
    authority = compile_authority(registry, AuthorityInputs(mode=ToolMode.chat_safe))
    plain = dict(authority.verdicts)
    denied, allowed = ToolCall("c", "tool_4", "{}"), ToolCall("c", "t.5", '{"text": "hello"}')

    look_up, verdict, refused, cleared = interleaved(
        ROUNDS,
        lambda: cpu_microseconds(TIMES, lambda: plain["tool_5"]),
        lambda: cpu_microseconds(TIMES, lambda: authority.verdict("t.5")),
        lambda: cpu_microseconds(TIMES, lambda: judge_tool(denied, authority)),
        lambda: cpu_microseconds(TIMES // 10, lambda: judge_call(allowed, authority, registry)),
    )
    beside = "µs dict look-up"
    return [
        Row("gate: decide about a tool, by alias", verdict, look_up, "µs", beside, 20, duty=Duty.gate),
        Row("gate: refuse a call, with its message", refused, look_up, "µs", beside, 20, duty=Duty.gate),
        Row("gate: clear a call, arguments decoded and validated", cleared, look_up, "µs", beside),
    ]
