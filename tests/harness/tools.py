"""Tools for tests. They declare their modes, as every real tool must."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from interlock.config.modes import ALL_MODES
from interlock.gates.gate import ClearedCall, Refusal, ToolCall, judge
from interlock.policy.authority import Authority
from interlock.tools.registry import ToolRegistry
from interlock.tools.result import ToolResult
from interlock.tools.tool import (
    BaseTool,
    Effect,
    ExternalCode,
    PolicySwitch,
    TimeLimit,
    ToolContext,
    ToolGroup,
    ToolMode,
)

_ELSEWHERE = ThreadPoolExecutor(1)

CHAT_AND_CODING = frozenset({ToolMode.chat_safe, ToolMode.coding})


class UndeclaredTool(BaseTool):
    """Says nothing about itself beyond what it must."""

    @property
    def name(self) -> str:
        return "undeclared"

    @property
    def description(self) -> str:
        return "A tool that declares nothing."

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"type": "object", "properties": {}}

    async def execute(self, prepared: Any, context: ToolContext) -> ToolResult:
        raise AssertionError("an undeclared tool must never run")


class DeclaredTool(UndeclaredTool):
    """A tool of which each test says what it needs to."""

    def __init__(
        self,
        name: str = "echo",
        *,
        modes: frozenset[ToolMode] = ALL_MODES,
        group: ToolGroup = ToolGroup.code,
        aliases: tuple[str, ...] = (),
        switches: frozenset[PolicySwitch] = frozenset(),
        needs: frozenset[str] = frozenset(),
        server: str | None = None,
        effect: Effect = Effect.read,
        parameters: Mapping[str, Any] | None = None,
        run: Callable[[Mapping[str, Any], ToolContext], Any] | None = None,
        refusal: Any = None,
        seconds: float | None = None,
    ) -> None:
        self._name = name
        self._modes = modes
        self._group = group
        self._aliases = aliases
        self._switches = switches
        self._needs = needs
        self._server = server
        self._effect = effect
        self._parameters = parameters or {"type": "object", "properties": {"text": {"type": "string"}}}
        self._run = run
        self._refusal = refusal
        self._seconds = seconds
        self.calls = 0

    name = property(lambda self: self._name)
    description = property(lambda self: f"The tool {self._name}.")
    parameters = property(lambda self: self._parameters)
    group = property(lambda self: self._group)
    allowed_modes = property(lambda self: self._modes)
    aliases = property(lambda self: self._aliases)
    switches = property(lambda self: self._switches)
    needs = property(lambda self: self._needs)
    effect = property(lambda self: self._effect)

    @property
    def external(self) -> ExternalCode | None:
        return ExternalCode(server=self._server) if self._server is not None else None

    async def prepare(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        if self._refusal is not None:
            raise self._refusal
        return arguments

    def time_limit(self, arguments, limits):
        return TimeLimit(self._seconds or limits.timeout_seconds)

    async def execute(self, prepared: Any, context: ToolContext) -> ToolResult:
        arguments = prepared
        self.calls += 1
        if self._run is None:
            return ToolResult(stdout=str(arguments.get("text", "")))
        result = self._run(arguments, context)
        return await result if asyncio.iscoroutine(result) else result


def judge_call(call: ToolCall, authority: Authority, registry: ToolRegistry) -> ClearedCall | Refusal:
    """The gate's judgement, for tests with and without an event loop of their own."""
    return _ELSEWHERE.submit(asyncio.run, judge(call, authority, registry, ToolContext("s"))).result()


def file_reader() -> DeclaredTool:
    """Stands where `read_file` will: readable in chat, plan and coding, never in chat_safe."""
    return DeclaredTool(
        "read_file",
        modes=ALL_MODES - {ToolMode.chat_safe},
        aliases=("read", "fs.read"),
        switches=frozenset({PolicySwitch.fs}),
        parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    )
