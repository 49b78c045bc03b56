"""The kinds of events about MCP servers and their tools: added, classified and removed ones, changes in
their definitions, and failures."""

from dataclasses import dataclass, field
from typing import Any

from interlock.log.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerAdded(Event):
    """`definition` has the address and the limits of the server; secrets only by reference."""

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
    """A connection was made. `calls_itself` is the server's own name for itself."""

    kind = "mcp.server_started"
    erasable = ("calls_itself",)
    server: str
    transport: str
    protocol: str
    calls_itself: str
    sandbox: str


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerFailed(Event):
    """The server could not be reached, or was abandoned."""

    kind = "mcp.server_failed"
    erasable = ("reason",)
    server: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class McpRestored(Event):
    """Protected files that a server had changed were restored when it ended."""

    kind = "mcp.restored"
    erasable = ("paths",)
    server: str
    paths: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpToolsListed(Event):
    """A server's list of tools changed. `unusable` gives the reason for each unusable tool."""

    kind = "mcp.tools_listed"
    erasable = ("unusable",)
    server: str
    added: list[str]
    gone: list[str]
    unusable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpToolListed(Event):
    """A tool is new in its server's list, or another than before. `problem` says why it is unusable."""

    kind = "mcp.tool_listed"
    erasable = ("problem",)
    server: str
    tool: str
    definition_hash: str
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpToolChanged(Event):
    """A tool's definition changed. If it was classified, the class is no longer valid."""

    kind = "mcp.tool_changed"
    server: str
    tool: str
    name: str
    from_hash: str
    to_hash: str
    was_classed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class McpNameClash(Event):
    """A tool was not registered because its name here would clash with another's."""

    kind = "mcp.name_clash"
    server: str
    tool: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class McpToolClassed(Event):
    """Without modes the class was removed. `vouched`: no sandbox enforces these modes; a person vouches."""

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
    McpToolListed,
    McpToolChanged,
    McpNameClash,
    McpToolClassed,
)
