"""The kinds of events that tell of foreign servers and their tools: who added, classed and removed
them, what changed in them, and how their processes fared."""

from dataclasses import dataclass, field
from typing import Any

from interlock.log.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerAdded(Event):
    """`definition` is how it is reached and how far it may go; secrets are in it by reference alone."""

    kind = "mcp.server_added"
    who: str
    server: str
    transport: str
    definition: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerRemoved(Event):
    kind = "mcp.server_removed"
    who: str
    server: str


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerStarted(Event):
    """A connection. `calls_itself` are the server's own words."""

    kind = "mcp.server_started"
    erasable = ("calls_itself",)
    server: str
    transport: str
    protocol: str
    calls_itself: str
    sandbox: str


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerFailed(Event):
    """It could not be reached, or had to be given up."""

    kind = "mcp.server_failed"
    erasable = ("reason",)
    server: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class McpRestored(Event):
    """What a server changed although it is protected was put back when it ended."""

    kind = "mcp.restored"
    erasable = ("paths",)
    server: str
    paths: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpToolsListed(Event):
    """What a server offers is no longer what it offered. `unusable` says of each why."""

    kind = "mcp.tools_listed"
    erasable = ("unusable",)
    server: str
    added: list[str]
    gone: list[str]
    unusable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpToolChanged(Event):
    """A tool's definition is another one. Where it was classed, the class does not hold any more."""

    kind = "mcp.tool_changed"
    server: str
    tool: str
    name: str
    from_hash: str
    to_hash: str
    was_classed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class McpNameClash(Event):
    """A tool that is not registered, since its name here would be another's as well."""

    kind = "mcp.name_clash"
    server: str
    tool: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class McpToolClassed(Event):
    """Without modes the class was taken away. `vouched`: no wall holds it to these modes but a word."""

    kind = "mcp.tool_classed"
    who: str
    server: str
    tool: str
    name: str
    group: str
    effect: str
    modes: list[str]
    definition_hash: str
    vouched: bool = False


MCP_EVENTS = (
    McpServerAdded,
    McpServerRemoved,
    McpServerStarted,
    McpServerFailed,
    McpRestored,
    McpToolsListed,
    McpToolChanged,
    McpNameClash,
    McpToolClassed,
)
