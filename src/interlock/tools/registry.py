"""Holds the tools, and the modes in which each may be used."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from interlock.config.modes import Effect, ToolGroup, ToolMode, parse_mode
from interlock.core.logging import StructuredLogger
from interlock.tools.arguments import ArgumentParser
from interlock.tools.tool import BaseTool, PolicySwitch, ToolLimits, mcp_server

_log = StructuredLogger(__name__)

_NAME = re.compile(r"[a-z][a-zA-Z0-9_]{0,63}")
_FOREIGN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ALIAS = re.compile(r"[a-z][a-zA-Z0-9_.]{0,63}")


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """A tool, with the parser of its arguments and the schema that models see.

    `modes` is its declaration, read once: what is exposed and what is executed follow from one answer.
    """

    tool: BaseTool
    parser: ArgumentParser
    modes: frozenset[ToolMode]


class ToolRegistry:
    """Names are unique, aliases included; an override can only remove modes."""

    def __init__(self) -> None:
        self._tools: dict[str, RegisteredTool] = {}
        self._aliases: dict[str, str] = {}
        self._mode_overrides: dict[str, frozenset[ToolMode]] = {}
        self.version = 0

    def register(self, tool: BaseTool) -> None:
        is_own = mcp_server(tool) is None
        if not (_NAME if is_own else _FOREIGN_NAME).fullmatch(tool.name):
            raise ValueError(f"'{tool.name}' is not a valid tool name")
        for name in (tool.name, *tool.aliases):
            if name != tool.name and not _ALIAS.fullmatch(name):
                raise ValueError(f"'{name}' is not a valid alias of {tool.name}")
            if name in self._tools or name in self._aliases:
                raise ValueError(f"a tool named '{name}' is already registered")
        modes = _check_declaration(tool)
        registered = RegisteredTool(tool, tool.parser(), modes)
        if is_own and not modes:
            _log.warning("tool_registered_with_default_modes", tool_name=tool.name)
        self._tools[tool.name] = registered
        self._aliases |= dict.fromkeys(tool.aliases, tool.name)
        self.version += 1

    def replace_foreign(self, tools: Iterable[BaseTool]) -> dict[str, str]:
        """Set the tools of MCP servers to exactly these. Unchanged ones keep their entry.

        Returns the names that could not be registered, with the reason.
        """
        before = self._foreign()
        version, faults = self.version, {}
        for name in before:
            del self._tools[name]
        for tool in tools:
            if (kept := before.get(tool.name)) is not None and kept.tool is tool:
                self._tools[tool.name] = kept
                continue
            try:
                self.register(tool)
            except ValueError as error:
                faults[tool.name] = str(error)
        after = self._foreign()
        for name in before.keys() - after.keys():
            self._mode_overrides.pop(name, None)
        is_same = after.keys() == before.keys() and all(after[name] is before[name] for name in after)
        self.version = version if is_same else version + 1
        return faults

    def _foreign(self) -> dict[str, RegisteredTool]:
        return {name: entry for name, entry in self._tools.items() if mcp_server(entry.tool) is not None}

    def set_mode_override(self, tool_name: str, modes: frozenset[ToolMode]) -> None:
        """Restrict a tool to fewer modes than it declares. The last override wins."""
        tool_name = self._aliases.get(tool_name, tool_name)
        declared = self._tools[tool_name].modes
        if wider := frozenset(modes) - declared:
            raise ValueError(
                f"an override can only tighten: {tool_name} does not declare {', '.join(sorted(wider))}"
            )
        self._mode_overrides[tool_name] = frozenset(modes)
        self.version += 1

    def canonical_name(self, name: str) -> str | None:
        """The tool's own name for a name or alias; None if unknown."""
        return name if name in self._tools else self._aliases.get(name)

    def aliases(self) -> Mapping[str, str]:
        return dict(self._aliases)

    def get(self, tool_name: str) -> RegisteredTool | None:
        canonical = self.canonical_name(tool_name)
        return None if canonical is None else self._tools[canonical]

    def entry(self, tool_name: str) -> RegisteredTool:
        """A tool by its own name; it must exist."""
        return self._tools[tool_name]

    def __iter__(self) -> Iterator[RegisteredTool]:
        """All tools by name: an order that does not depend on how they were registered."""
        return (self._tools[name] for name in sorted(self._tools))

    def get_effective_modes(self, tool_name: str) -> frozenset[ToolMode]:
        tool_name = self._aliases.get(tool_name, tool_name)
        declared = self._tools[tool_name].modes
        return declared & self._mode_overrides.get(tool_name, declared)

    def check_mode(self, tool_name: str, mode: ToolMode) -> bool:
        """Whether the tool may be used in that mode; False for a tool or a mode that does not exist."""
        canonical = self.canonical_name(tool_name)
        try:
            return canonical is not None and parse_mode(mode) in self.get_effective_modes(canonical)
        except (ValueError, AttributeError):
            return False

    def list_tools(self, mode: ToolMode) -> list[BaseTool]:
        known = _mode(mode)
        return [entry.tool for entry in self if self.check_mode(entry.tool.name, known)]

    def get_tools_schema(self, mode: ToolMode, limits: ToolLimits | None = None) -> list[dict[str, Any]]:
        """The tools of that mode as function schemas, with the limits that hold for their calls."""
        return [_function_schema(self._tools[tool.name], limits) for tool in self.list_tools(mode)]

    def allowed_tool_names(self, mode: ToolMode) -> list[str]:
        """The names for that mode; a value that is not a mode gets those of `chat_safe`."""
        try:
            known = _mode(mode)
        except ValueError:
            known = ToolMode.chat_safe
            _log.warning("unknown_mode", value=str(mode), fallback=known.value)
        names = [tool.name for tool in self.list_tools(known)]
        _log.info("tool_capability", mode=known.value, allowed=names, registered=len(self._tools))
        return names


def _check_declaration(tool: BaseTool) -> frozenset[ToolMode]:
    """The declared modes. Refuses what no policy could deny, such as a foreign class's group "Media"."""
    modes = tool.allowed_modes
    # A foreign class may declare anything, whatever its annotations say.
    declared: Any = modes
    if not isinstance(declared, frozenset) or any(not isinstance(mode, ToolMode) for mode in declared):
        raise ValueError(f"{tool.name} names a mode that does not exist")
    for name, value, kind in (("group", tool.group, ToolGroup), ("effect", tool.effect, Effect)):
        if not isinstance(value, kind):
            raise ValueError(f"{tool.name} has the {name} {value!r}; use {kind.__name__}")
    if unknown := [each for each in tool.switches if each not in PolicySwitch.__members__]:
        raise ValueError(f"{tool.name} names the switch {unknown[0]!r}, which no policy has")
    return modes


def _mode(value: object) -> ToolMode:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a mode")
    return parse_mode(value)


def _function_schema(entry: RegisteredTool, limits: ToolLimits | None = None) -> dict[str, Any]:
    limits_text = entry.tool.limits_text(limits) if limits else ""
    return {
        "type": "function",
        "function": {
            "name": entry.tool.name,
            "description": " ".join(filter(None, [entry.tool.description, limits_text])),
            "parameters": entry.parser.schema,
        },
    }
