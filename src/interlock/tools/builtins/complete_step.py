"""Reports the outcome of a workflow step. Only steps have it; the graph determines what follows."""

from collections.abc import Mapping
from typing import Any, Protocol

from interlock.config.modes import ALL_MODES
from interlock.log.stream_appender import EventScope
from interlock.tools.result import ToolResult
from interlock.tools.tool import BaseTool, Effect, ToolContext, ToolGroup, ToolMode

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


class CompleteStepTool(BaseTool):
    """Without a store of runs it can be listed, but not called."""

    def __init__(self, steps: StepCompleter | None) -> None:
        self._steps = steps

    @property
    def name(self) -> str:
        return "complete_step"

    @property
    def description(self) -> str:
        return (
            "Complete this step of the workflow: give its outcome, a short summary, and the "
            "texts that later steps need. The last call before the end of the step counts."
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        return _SCHEMA

    @property
    def group(self) -> ToolGroup:
        return ToolGroup.ui

    @property
    def allowed_modes(self) -> frozenset[ToolMode]:
        return ALL_MODES

    @property
    def effect(self) -> Effect:
        return Effect.tell

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({NEED})

    async def execute(self, prepared: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if self._steps is None:
            raise RuntimeError("there are no workflow steps here")
        context.cancel.begin_effect()
        outcome = str(prepared.get("outcome", ""))
        step = await self._steps.complete(
            context.session_id,
            context.scope,
            context.lease_token,
            outcome,
            str(prepared["summary"]),
            dict(prepared.get("artifacts", {})),
        )
        said = f" with the outcome {outcome}" if outcome else ""
        return ToolResult(stdout=f"Step {step} is completed{said}. End with a short answer.\n")


_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "outcome": {
            "type": "string",
            "description": (
                "One of the outcomes that the instructions name; it decides how the run continues."
            ),
        },
        "summary": {"type": "string", "description": "What was done, in a few sentences."},
        "artifacts": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Texts for later steps. A name has lower-case letters, digits and _.",
        },
    },
    "required": ["summary"],
}
