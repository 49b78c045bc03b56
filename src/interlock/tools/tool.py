"""The interface of a tool. Whatever it does not declare is closed."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from interlock.config.modes import Effect, ToolGroup, ToolMode
from interlock.log.stream_appender import NO_SCOPE, EventDraft, EventScope
from interlock.log.writer import TaskAppender
from interlock.policy.policy_fields import CLOSED_POLICY, ToolPolicy
from interlock.sandbox.profile import SandboxProfile
from interlock.tools.arguments import (
    MAX_ARGUMENT_BYTES,
    ArgumentParser,
    ModelParser,
    SchemaParser,
    ToolArguments,
    closed_schema,
    schema_of,
)
from interlock.tools.result import ToolResult
from interlock.tools.threads import CancelSignal

__all__ = [
    "MAX_ARGUMENT_BYTES",
    "REPEATABLE",
    "BaseTool",
    "Effect",
    "ExternalCode",
    "PolicySwitch",
    "TimeLimit",
    "ToolArguments",
    "ToolContext",
    "ToolGroup",
    "ToolLimits",
    "ToolMode",
    "TypedTool",
    "mcp_server",
    "policy_switches",
]


# After a crash, these may be repeated.
REPEATABLE = frozenset({Effect.read, Effect.tell})
# A tool with any other effect can always be switched off by a policy.
_NEEDS_NO_SWITCH = REPEATABLE | {Effect.ask}


class PolicySwitch(StrEnum):
    """The switches of a tool policy. A tool is off when any switch it names is off."""

    fs = "fs"
    shell = "shell"
    mcp = "mcp"
    memory = "memory"
    image = "image"


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """How much one call may touch, show and take."""

    max_read_bytes: int
    max_write_bytes: int
    max_output_lines: int
    max_output_bytes: int
    timeout_seconds: float
    max_timeout_seconds: float
    max_image_bytes: int = 0


NO_LIMITS = ToolLimits(0, 0, 0, 0, 0.0, 0.0)
NO_ACCESS = SandboxProfile()


@dataclass(frozen=True, slots=True)
class ToolContext:
    """One call: who makes it, and what it may do.

    The caller makes it with the first fields; the gate adds the others from the Authority, all closed until
    then. While the tool runs, `scope` is the call's own intent.
    """

    session_id: str
    scope: EventScope = NO_SCOPE
    lease_token: int | None = None
    # The name of the agent that calls, if it is one.
    agent: str = ""
    report_progress: Callable[[str], None] = lambda _text: None
    # Checked right before an irreversible effect: whether the session's lease is still held.
    is_held: Callable[[], bool] = lambda: True
    # False: a person at the command line chose the mode of this call, whatever the session's is.
    follows_session: bool = True
    # The appends of the caller's task. Without it, a call belongs to no turn.
    appender: TaskAppender | None = None
    # Called with the outcome's event when it is on disk.
    outcome_recorded: Callable[[EventDraft], None] = lambda _draft: None
    call_id: str = ""
    mode: ToolMode = ToolMode.chat_safe
    limits: ToolLimits = NO_LIMITS
    profile: SandboxProfile = NO_ACCESS
    # The effective policy, for what a tool decides by itself.
    policy: ToolPolicy = CLOSED_POLICY
    authority_digest: str = ""
    timeout_seconds: float = 0.0
    cancel: CancelSignal = field(default_factory=CancelSignal)


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """How long a call may take; the policy's maximum still applies."""

    seconds: float
    # The tool keeps to `context.timeout_seconds` itself, and returns what it had by then.
    enforced_by_tool: bool = False
    # How long it may take to stop after a cancellation, if longer than usual.
    stop_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ExternalCode:
    """Code that is not ours and does the work: a shell, a function, an endpoint, an MCP server.

    Only the arguments show what it was asked to do, so those that the log masks are stored separately.
    """

    # The MCP server that offers the tool, which the policy must list.
    server: str | None = None
    # Why it cannot be used here now; empty if it can.
    unavailable: str = ""
    # It reaches the network through the sandbox.
    uses_network: bool = False
    # The ports open to it, for every caller; a policy that closes one denies the tool.
    network_ports: frozenset[int] = frozenset()
    # The next action for a caller if the tool declares no mode.
    undeclared_hint: str = ""


class BaseTool(ABC):
    """A tool. `allowed_modes` is the only source of permission, and empty by default.

    What a tool declares is a class attribute in its place: `name = "read_file"`.
    """

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def description(self) -> str: ...

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """A JSON Schema of type object. Keys it does not name are refused."""

    @property
    def group(self) -> ToolGroup:
        """For display and audit; it never grants anything."""
        return ToolGroup.code

    @property
    def allowed_modes(self) -> frozenset[ToolMode]:
        return frozenset()

    @property
    def effect(self) -> Effect:
        """The effect. Undeclared, it is the most dangerous one."""
        return Effect.exec

    @property
    def aliases(self) -> tuple[str, ...]:
        """Names that models trained elsewhere use; resolved before anything is judged."""
        return ()

    @property
    def switches(self) -> frozenset[PolicySwitch]:
        """The switches of the tool.

        Without any, a tool that can change something has those of a command.
        """
        return frozenset()

    @property
    def needs(self) -> frozenset[str]:
        """Capabilities without which this tool cannot work here, such as `roots` or `program:rg`."""
        return frozenset()

    @property
    def external(self) -> ExternalCode | None:
        """The foreign code that does the work; None if it is ours."""
        return None

    def parser(self) -> ArgumentParser:
        """Makes the parser of its arguments, which is kept while the tool is registered."""
        return SchemaParser(closed_schema(self.parameters))

    def limits_text(self, limits: ToolLimits) -> str:  # noqa: ARG002
        """The limits of a call, in a sentence that ends the description that models are given."""
        return ""

    def time_limit(self, arguments: Any, limits: ToolLimits) -> TimeLimit:  # noqa: ARG002
        """How long this call may take."""
        return TimeLimit(limits.timeout_seconds)

    async def prepare(self, arguments: Any, context: ToolContext) -> Any:  # noqa: ARG002
        """Judge parsed arguments and return what `execute` needs, without any effect.

        Raising a `ToolError` refuses the call. Exactly what was judged here is executed. A tool that only
        reads may return a `ToolResult` that it had at once; then nothing is executed.
        """
        return arguments

    @abstractmethod
    async def execute(self, prepared: Any, context: ToolContext) -> ToolResult:
        """Execute what `prepare` returned; a `ToolError` reports a failure to the model."""


class TypedTool(BaseTool):
    """A tool whose arguments are a model: their JSON Schema and their parser follow from it."""

    arguments: type[ToolArguments]

    @property
    def parameters(self) -> Mapping[str, Any]:
        return schema_of(self.arguments)

    def parser(self) -> ArgumentParser:
        return ModelParser(self.arguments)


def mcp_server(tool: BaseTool) -> str | None:
    """The MCP server that offers this tool; None for any other tool."""
    return tool.external.server if tool.external is not None else None


def policy_switches(tool: BaseTool) -> frozenset[PolicySwitch]:
    """Every switch that turns this tool off."""
    switches = tool.switches | ({PolicySwitch.mcp} if mcp_server(tool) is not None else frozenset())
    if not switches and tool.effect not in _NEEDS_NO_SWITCH:
        switches = frozenset({PolicySwitch.shell})
    # A command can do to files whatever the file tools can.
    return switches | {PolicySwitch.fs} if PolicySwitch.shell in switches else switches
