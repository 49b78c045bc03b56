"""Delegates a task to another agent, which runs at once and answers this call."""

from typing import Protocol

from pydantic import Field

from interlock.tools.arguments import ToolArguments
from interlock.tools.result import ToolResult
from interlock.tools.tool import (
    Effect,
    PolicySwitch,
    TimeLimit,
    ToolContext,
    ToolGroup,
    ToolLimits,
    ToolMode,
    TypedTool,
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


class DelegateArguments(ToolArguments):
    agent: str = Field(min_length=1, max_length=64, description="The agent's name.")
    task: str = Field(
        min_length=1,
        max_length=MAX_TASK_CHARS,
        description="The task, with everything the agent must know, and what to answer.",
    )


class DelegateTool(TypedTool):
    name = "delegate"
    description = (
        "Delegate a part of the work to another agent of this workspace. It does not see "
        "this conversation: include everything it must know. It has at most your permissions "
        "and cannot ask the user; its answer is the result of this call."
    )
    arguments = DelegateArguments
    group = ToolGroup.code
    allowed_modes = frozenset({ToolMode.coding})
    effect = Effect.special
    switches = frozenset({PolicySwitch.fs})
    needs = frozenset({NEED})

    def __init__(self, delegation: SubtaskRunnerSlot) -> None:
        self._delegation = delegation

    def time_limit(self, arguments: DelegateArguments, limits: ToolLimits) -> TimeLimit:  # noqa: ARG002
        """A delegated task has calls of its own, each of which gets its time to stop."""
        return TimeLimit(limits.max_timeout_seconds, enforced_by_tool=True, stop_seconds=STOP_SECONDS)

    async def prepare(self, arguments: DelegateArguments, context: ToolContext) -> DelegateArguments:  # noqa: ARG002
        if self._delegation.is_open:
            await self._delegation.children.require_agent(arguments.agent)
        return arguments

    async def execute(self, prepared: DelegateArguments, context: ToolContext) -> ToolResult:
        context.cancel.begin_effect()
        children = self._delegation.children
        return await children.work(prepared.agent, prepared.task, context)
