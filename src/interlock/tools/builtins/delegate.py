"""Delegates a task to another agent, which runs at once and answers this call."""

from collections.abc import Mapping
from typing import Any, Protocol

from interlock.tools.result import ToolResult
from interlock.tools.tool import (
    BaseTool,
    Effect,
    PolicySwitch,
    ToolContext,
    ToolGroup,
    ToolLimits,
    ToolMode,
)

# The capability an Authority must have: an agent is running, and not at the maximum depth.
NEED = "children"

MAX_TASK_CHARS = 20_000
STOP_SECONDS = 30.0


class SubtaskRunner(Protocol):
    async def require_agent(self, name: str) -> None:
        """Raise a `ToolError` that lists the agents, if this one does not exist."""

    async def work(self, agent: str, task: str, context: ToolContext) -> ToolResult:
        """Run the child and return its answer. Raises a `ToolError` if the task cannot be delegated."""


class SubtaskRunnerSlot:
    """Holds the runner of delegated tasks. Until it is opened, none are accepted."""

    def __init__(self) -> None:
        self._children: SubtaskRunner | None = None

    def open(self, children: SubtaskRunner) -> None:
        self._children = children

    @property
    def is_open(self) -> bool:
        return self._children is not None

    @property
    def children(self) -> SubtaskRunner:
        if self._children is None:
            raise RuntimeError("no agent is running here")
        return self._children


class DelegateTool(BaseTool):
    def __init__(self, delegation: SubtaskRunnerSlot) -> None:
        self._delegation = delegation

    @property
    def name(self) -> str:
        return "delegate"

    @property
    def description(self) -> str:
        return (
            "Delegate a part of the work to another agent of this workspace. It does not see "
            "this conversation: include everything it must know. It has at most your permissions "
            "and cannot ask the user; its answer is the result of this call."
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        return _SCHEMA

    @property
    def group(self) -> ToolGroup:
        return ToolGroup.code

    @property
    def allowed_modes(self) -> frozenset[ToolMode]:
        return frozenset({ToolMode.coding})

    @property
    def effect(self) -> Effect:
        return Effect.special

    @property
    def switches(self) -> frozenset[PolicySwitch]:
        return frozenset({PolicySwitch.fs})

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({NEED})

    @property
    def enforces_timeout(self) -> bool:
        return True

    @property
    def stop_seconds(self) -> float:
        """A delegated task has calls of its own, each of which gets its time to stop."""
        return STOP_SECONDS

    def timeout_seconds(self, arguments: Mapping[str, Any], limits: ToolLimits) -> float:  # noqa: ARG002
        return limits.max_timeout_seconds

    async def prepare(self, arguments: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:  # noqa: ARG002
        if self._delegation.is_open:
            await self._delegation.children.require_agent(str(arguments["agent"]))
        return arguments

    async def execute(self, prepared: Mapping[str, Any], context: ToolContext) -> ToolResult:
        context.cancel.begin_effect()
        children = self._delegation.children
        return await children.work(str(prepared["agent"]), str(prepared["task"]), context)


_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "agent": {"type": "string", "minLength": 1, "maxLength": 64, "description": "The agent's name."},
        "task": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_TASK_CHARS,
            "description": "The task, with everything the agent must know, and what to answer.",
        },
    },
    "required": ["agent", "task"],
}
