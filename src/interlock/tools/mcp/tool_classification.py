"""The operator's classes of foreign tools, and which classes are refused.

A tool keeps to a mode because the sandbox enforces it, not because its server says so. So a class may name
a mode besides `coding` only for a tool that reads, and only if the server's sandbox is no wider than that
mode's; otherwise the person at the command line must vouch for it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from interlock.config.modes import ToolMode, parse_mode
from interlock.core.errors import BadUsage
from interlock.tools.mcp.server_config import McpRootAccess, McpServerConfig
from interlock.tools.tool import Effect, ToolGroup

_EFFECTS = (Effect.read, Effect.write, Effect.exec, Effect.special)


@dataclass(frozen=True, slots=True)
class ToolClassification:
    """A class, for the definition with this hash. `is_vouched`: only a person's word backs it."""

    group: ToolGroup
    effect: Effect
    modes: frozenset[ToolMode]
    hash: str
    is_vouched: bool = False
    by: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "group": self.group.value,
            "effect": self.effect.value,
            "modes": [mode.value for mode in ToolMode if mode in self.modes],
            "hash": self.hash,
            "vouched": self.is_vouched,
            "by": self.by,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "ToolClassification":
        return cls(
            group=ToolGroup(stored["group"]),
            effect=Effect(stored["effect"]),
            modes=frozenset(ToolMode(mode) for mode in stored["modes"]),
            hash=str(stored["hash"]),
            is_vouched=bool(stored["vouched"]),
            by=str(stored["by"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifyRequest:
    """A person's request. `hash`, or its beginning, is of the definition they reviewed."""

    effect: str
    modes: Iterable[str]
    group: str = ToolGroup.mcp.value
    hash: str = ""
    is_vouched: bool = False


def make_tool_class(
    request: ClassifyRequest, server: McpServerConfig, definition_hash: str, who: str
) -> ToolClassification:
    try:
        modes = frozenset(parse_mode(mode.strip()) for mode in request.modes)
        group = ToolGroup(request.group)
    except ValueError as error:
        raise BadUsage(str(error)) from None
    if request.effect not in _EFFECTS:
        raise BadUsage(f"'{request.effect}' is not a valid effect; use one of {', '.join(_EFFECTS)}")
    if not modes:
        raise BadUsage(
            "name at least one mode; to remove a classification: interlock mcp remove SERVER TOOL"
        )
    made = ToolClassification(
        group, Effect(request.effect), modes, definition_hash, request.is_vouched, who
    )
    refuse_unfitting(made, server)
    return made


def refuse_unfitting(made: ToolClassification, server: McpServerConfig) -> None:
    beyond = made.modes - {ToolMode.coding}
    if beyond and made.effect is not Effect.read:
        raise BadUsage(
            f"a tool with the effect {made.effect} is allowed only in coding mode: "
            f"{_names(beyond)} is for reading"
        )
    unfitting = beyond - server.fitting_modes()
    if unfitting and not made.is_vouched:
        raise BadUsage(
            f"{_names(unfitting)}: {_why(server)}, so nothing enforces the limits of that mode. "
            "Classify it for coding, or vouch for it at the command line with --vouch"
        )


def _why(server: McpServerConfig) -> str:
    if not server.is_local:
        return f"{server.id} is reached over the network"
    if server.roots is McpRootAccess.write:
        return f"{server.id} may write to the opened folders"
    if server.network:
        return f"{server.id} may use the network"
    opened = "the opened folders" if server.roots is McpRootAccess.read else "the folders it was given"
    return f"{server.id} reads {opened}"


def _names(modes: frozenset[ToolMode]) -> str:
    return ", ".join(mode.value for mode in ToolMode if mode in modes)
