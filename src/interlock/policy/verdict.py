"""Verdicts on tools: the decision, its layer, and sentences for the model and for people.

The sentences are fixed: the same refusal always reads the same, and `next_action` names only steps that
work here, for the person who reads it. Every hint that names a mode is composed in `mode_hint`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.config.modes import ToolMode
from interlock.core.errors import ErrorClass, ErrorCode


class PolicyLayer(StrEnum):
    """The layers that can deny, in their order. The first denial decides."""

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
    PolicyLayer.declaration: "the tool's own declaration",
    PolicyLayer.override: "the operator's TOOL_MODES",
    PolicyLayer.mode: "the modes the operator opened",
    PolicyLayer.environment: "the operator's environment settings",
    PolicyLayer.settings: "the stored settings",
    PolicyLayer.agent: "the agent's policy",
    PolicyLayer.node: "the policy of the workflow step or of the delegating task",
    PolicyLayer.task: "the kind of task",
    PolicyLayer.capability: "the capabilities of this machine",
    PolicyLayer.arguments: "the rules for this call's arguments",
}


def layer_name(layer: str) -> str:
    """The name for people; a layer of a later version has its name from the log."""
    return LAYER_NAMES[PolicyLayer(layer)] if layer in PolicyLayer.__members__ else f"the {layer} layer"


class ModeSwitchMethod(StrEnum):
    """How the person who reads a refusal can switch the mode of this session."""

    # A workflow step or a delegated task keeps its mode.
    fixed = "fixed"
    # Other people can, this one cannot.
    operators = "operators"
    page = "page"
    telegram = "telegram"
    terminal = "terminal"
    # One command that ends, such as `exec`: it is started again with another mode.
    command = "command"
    # A program that embeds Interlock.
    program = "program"

    @property
    def opens(self) -> bool:
        """Whether this person starts Interlock: --mode opens any mode, and --root a directory."""
        return self in {ModeSwitchMethod.terminal, ModeSwitchMethod.command}


_WHO_CAN_CHANGE = {
    PolicyLayer.environment: "Only the operator can change this, where Interlock is started ({setting}).",
    PolicyLayer.settings: "Only the operator can change this, in the stored settings ({setting}).",
    PolicyLayer.agent: "Only the operator can change this, in the agent's definition ({setting}).",
    PolicyLayer.node: (
        "Only the operator can change this, in the workflow's or agent's definition ({setting})."
    ),
}

NO_MODE_OFFERS_IT = "No mode offers it. Continue without it."


@dataclass(frozen=True, slots=True)
class AllowedTool:
    tool_name: str


@dataclass(frozen=True, slots=True)
class DeniedTool:
    tool_name: str
    error_code: ErrorCode
    layer: PolicyLayer
    message: str
    next_action: str

    @property
    def error_class(self) -> ErrorClass:
        return self.error_code.error_class


Verdict = AllowedTool | DeniedTool


def denied_by_mode(tool_name: str, mode: ToolMode, layer: PolicyLayer, next_action: str) -> DeniedTool:
    """The tool is registered, but not allowed in this mode."""
    message = f"{tool_name} is not allowed in {mode} mode"
    return DeniedTool(tool_name, ErrorCode.MODE_DENIED, layer, message, next_action)


def mode_hint(
    tool_name: str,
    mode: ToolMode,
    way: ModeSwitchMethod,
    allowing: Sequence[ToolMode],
    open_to_person: Sequence[ToolMode],
    *,
    needs_root: bool = False,
) -> str:
    """What to do if another mode allows the tool; both lists have the least powerful mode first.

    `open_to_person` are those of `allowing` to which this person can switch now. `needs_root`: a directory
    has to be opened as well, which this person can do.
    """
    if way is ModeSwitchMethod.fixed:
        return (
            f"This task is fixed to {mode} mode; {tool_name} needs {_one_of(allowing)} mode. "
            "Continue without it, or end the task and report what is missing."
        )
    switches = bool(open_to_person) and way is not ModeSwitchMethod.command and not needs_root
    named = _one_of(open_to_person if switches else allowing)
    needs = f"This session is in {mode} mode; {tool_name} needs {named} mode"
    if switches:
        return f"{needs}. {_HOW_TO_SWITCH[way].format(mode=open_to_person[0])}"
    if way.opens:
        how = "the same command" if way is ModeSwitchMethod.command else "a chat started"
        option = f"--mode {allowing[0]}{' --root FOLDER' if needs_root else ''}"
        return f"{needs}. Only the operator can open it ({how} with {option}); continue without it."
    closed = f"{needs}, which is not open on this deployment"
    return f"{closed}. Only the operator can open it; continue without it."


def no_mode_helps(tool_name: str, mode: ToolMode, allowing: Sequence[ToolMode], other: DeniedTool) -> str:
    """What to do if `other` would deny the tool in every mode that offers it."""
    return (
        f"This session is in {mode} mode; {tool_name} needs {_one_of(allowing)} mode, but would "
        f"be denied there too: {other.message}. {other.next_action}"
    )


_HOW_TO_SWITCH = {
    ModeSwitchMethod.operators: "Only an operator can switch it here; continue without it.",
    ModeSwitchMethod.page: "Only a person can switch it (/mode {mode}).",
    ModeSwitchMethod.telegram: "Only a person can switch it (/mode {mode}).",
    ModeSwitchMethod.terminal: "Only a person can switch it (/mode {mode}).",
    ModeSwitchMethod.program: 'Only the program that embeds Interlock can switch it (switch("{mode}")).',
}


def mode_not_open(tool_name: str, mode: ToolMode) -> DeniedTool:
    return DeniedTool(
        tool_name,
        ErrorCode.MODE_DENIED,
        PolicyLayer.mode,
        f"{tool_name} is not allowed in {mode} mode",
        (
            f"{mode} mode is not open on this deployment. Only the operator can open it; continue "
            "without it."
        ),
    )


def switched_off(tool_name: str, layer: PolicyLayer, reason: str, setting: str) -> DeniedTool:
    """Denied by that layer's policy, in `setting`."""
    return DeniedTool(
        tool_name,
        ErrorCode.TOOL_NOT_AVAILABLE,
        layer,
        f"{tool_name} is not available: {reason} in {LAYER_NAMES[layer]}",
        f"{_WHO_CAN_CHANGE[layer].format(setting=setting)} Continue without it.",
    )


def unavailable_here(tool_name: str, reason: str) -> DeniedTool:
    return DeniedTool(
        tool_name,
        ErrorCode.TOOL_NOT_AVAILABLE,
        PolicyLayer.capability,
        f"{tool_name} is not available here: {reason}",
        "Only the operator can provide what is missing; continue without it.",
    )


def not_for_this_task(tool_name: str, reason: str) -> DeniedTool:
    """Nothing is missing or switched off: the tool is for tasks of another kind."""
    return DeniedTool(
        tool_name,
        ErrorCode.TOOL_NOT_AVAILABLE,
        PolicyLayer.task,
        f"{tool_name} is not available here: {reason}",
        "No mode and no setting enables it for this task. Continue without it.",
    )


def _one_of(modes: Sequence[ToolMode]) -> str:
    names = [mode.value for mode in modes]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
