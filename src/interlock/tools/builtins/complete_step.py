"""Reports the outcome of a workflow step. Only steps have it; the graph determines what follows."""

from collections.abc import Mapping
from typing import Protocol

from pydantic import Field

from interlock.config.modes import ALL_MODES
from interlock.log.stream_appender import EventScope
from interlock.tools.arguments import ToolArguments
from interlock.tools.result import ToolResult
from interlock.tools.tool import Effect, ToolContext, ToolGroup, TypedTool

# The capability an Authority must have: the task is a step.
NEED = "step"


class StepCompleter(Protocol):
    async def complete(
        self,
        session_id: str,
        scope: EventScope,
        token: int | None,
        outcome: str,
        summary: str,
        artifacts: Mapping[str, str],
    ) -> str:
        """Record the outcome and return the name of the step, or raise a `ToolError`."""


class CompleteStepArguments(ToolArguments):
    outcome: str = Field(
        default="",
        description="One of the outcomes that the instructions name; it decides how the run continues.",
    )
    summary: str = Field(description="What was done, in a few sentences.")
    artifacts: dict[str, str] = Field(
        default_factory=dict,
        description="Texts for later steps. A name has lower-case letters, digits and _.",
    )


class CompleteStepTool(TypedTool):
    """Without a store of runs it can be listed, but not called."""

    name = "complete_step"
    description = (
        "Complete this step of the workflow: give its outcome, a short summary, and the "
        "texts that later steps need. The last call before the end of the step counts."
    )
    arguments = CompleteStepArguments
    group = ToolGroup.ui
    allowed_modes = ALL_MODES
    effect = Effect.tell
    needs = frozenset({NEED})

    def __init__(self, steps: StepCompleter | None) -> None:
        self._steps = steps

    async def execute(self, prepared: CompleteStepArguments, context: ToolContext) -> ToolResult:
        if self._steps is None:
            raise RuntimeError("there are no workflow steps here")
        context.cancel.begin_effect()
        step = await self._steps.complete(
            context.session_id,
            context.scope,
            context.lease_token,
            prepared.outcome,
            prepared.summary,
            prepared.artifacts,
        )
        said = f" with the outcome {prepared.outcome}" if prepared.outcome else ""
        return ToolResult(stdout=f"Step {step} is completed{said}. End with a short answer.\n")
