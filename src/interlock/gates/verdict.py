"""What was decided about a tool, by which layer, in words for the model and for people.

The sentences are fixed: the same refusal always reads the same, and `next_action` names only steps that
can be taken on this deployment.
"""

from collections.abc import Iterable
from enum import StrEnum

from interlock.config.modes import ToolMode
from interlock.infra.errors import ErrorClass, ErrorCode
from interlock.infra.records import dataclass


class Layer(StrEnum):
    """Who can say no, in the order in which they are asked. The first no decides."""

    declaration = "declaration"
    override = "override"
    mode = "mode"
    environment = "environment"
    settings = "settings"
    agent = "agent"
    node = "node"
    task = "task"
    capability = "capability"
    arguments = "arguments"


LAYER_NAMES = {
    Layer.declaration: "the tool's own declaration",
    Layer.override: "the registry's override",
    Layer.mode: "the modes the operator opened",
    Layer.environment: "the operator's environment settings",
    Layer.settings: "the stored settings",
    Layer.agent: "the agent's policy",
    Layer.node: "the policy of the workflow step, or of who handed the task over",
    Layer.task: "what kind of task it is",
    Layer.capability: "what works on this machine",
    Layer.arguments: "the rules for this call's arguments",
}


def layer_name(layer: str) -> str:
    """As people are told it; one that the log has from a later version as it is called there."""
    return LAYER_NAMES[Layer(layer)] if layer in Layer.__members__ else f"the {layer} layer"


_WHO_CAN_CHANGE = {
    Layer.environment: "Only the operator can change this, where Interlock is started.",
    Layer.settings: "A person can change this in the stored settings (interlock settings set).",
    Layer.agent: "A person can change this in the agent's definition.",
    Layer.node: "A person can change this in the definition of the workflow, or of the agent.",
}


@dataclass(frozen=True, slots=True)
class Allowed:
    tool_name: str


@dataclass(frozen=True, slots=True)
class Denied:
    tool_name: str
    error_code: ErrorCode
    layer: Layer
    message: str
    next_action: str

    @property
    def error_class(self) -> ErrorClass:
        return self.error_code.error_class


Verdict = Allowed | Denied


def denied_by_mode(
    tool_name: str,
    mode: ToolMode,
    layer: Layer,
    allowing: Iterable[ToolMode],
    open_modes: frozenset[ToolMode],
    without_any: str = "No mode offers it. Go on without it.",
) -> Denied:
    """Registered, but not in this mode."""
    wanted = sorted(allowing, key=list(ToolMode).index)
    reachable = [name for name in wanted if name in open_modes]
    if not wanted:
        step = without_any
    elif reachable:
        step = (
            f"This session is in {mode} mode; {tool_name} needs {_one_of(wanted)} mode. "
            f"Only a person can switch it (/mode {reachable[0]}, or interlock sessions mode)."
        )
    else:
        step = (
            f"This session is in {mode} mode; {tool_name} needs {_one_of(wanted)} mode, which is not "
            "open on this deployment. Only the operator can open it; go on without it."
        )
    message = f"{tool_name} is not allowed in {mode} mode"
    return Denied(tool_name, ErrorCode.MODE_DENIED, layer, message, step)


def mode_not_open(tool_name: str, mode: ToolMode) -> Denied:
    return Denied(
        tool_name,
        ErrorCode.MODE_DENIED,
        Layer.mode,
        f"{tool_name} is not allowed in {mode} mode",
        f"{mode} mode is not open on this deployment. Only the operator can open it; go on without it.",
    )


def switched_off(tool_name: str, layer: Layer, reason: str) -> Denied:
    return Denied(
        tool_name,
        ErrorCode.TOOL_NOT_AVAILABLE,
        layer,
        f"{tool_name} is not available: {reason} in {LAYER_NAMES[layer]}",
        f"{_WHO_CAN_CHANGE[layer]} Go on without it.",
    )


def cannot_work(tool_name: str, reason: str) -> Denied:
    return Denied(
        tool_name,
        ErrorCode.TOOL_NOT_AVAILABLE,
        Layer.capability,
        f"{tool_name} is not available here: {reason}",
        "Only the operator can put right what is missing; go on without it.",
    )


def not_for_this_task(tool_name: str, reason: str) -> Denied:
    """Nothing is missing and nobody switched it off: it is for tasks of another kind."""
    return Denied(
        tool_name,
        ErrorCode.TOOL_NOT_AVAILABLE,
        Layer.task,
        f"{tool_name} is not available here: {reason}",
        "No mode and no setting opens it for this task. Go on without it.",
    )


def _one_of(modes: list[ToolMode]) -> str:
    names = [mode.value for mode in modes]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
