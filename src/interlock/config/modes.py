"""The permission axis: which modes exist, how they are named and which of two is stricter."""

from enum import StrEnum


class ToolGroup(StrEnum):
    """What a tool is about. For display and audit only: a group never grants anything."""

    code = "code"
    memory = "memory"
    world = "world"
    ui = "ui"
    media = "media"
    mcp = "mcp"


class ToolMode(StrEnum):
    """What a session may do. `chat_safe` is the default and where every doubt falls back to."""

    chat_safe = "chat_safe"
    chat = "chat"
    plan = "plan"
    coding = "coding"


MODE_ALIASES = {"build": ToolMode.coding}
ALL_MODES = frozenset(ToolMode)

# `chat` and `plan` are equally strict, and each may have tools that the other has not.
_STRICTNESS = {ToolMode.chat_safe: 0, ToolMode.chat: 1, ToolMode.plan: 1, ToolMode.coding: 2}


def parse_mode(value: str) -> ToolMode:
    """The mode a person or a setting named, by its own name or its alias."""
    if value in MODE_ALIASES:
        return MODE_ALIASES[value]
    try:
        return ToolMode(value)
    except ValueError:
        known = ", ".join([*ToolMode, *MODE_ALIASES])
        raise ValueError(f"'{value}' is not a mode (known: {known})") from None


def no_stricter_than(mode: ToolMode) -> tuple[ToolMode, ...]:
    """The modes that allow at least as much: `mode` itself, those as strict as it, and the looser ones."""
    return tuple(each for each in ToolMode if _STRICTNESS[each] >= _STRICTNESS[mode])


def looser_than(mode: ToolMode) -> tuple[ToolMode, ...]:
    return tuple(each for each in ToolMode if _STRICTNESS[each] > _STRICTNESS[mode])


def stricter(at_start: ToolMode, present: ToolMode) -> ToolMode:
    """The mode that a task goes on in; of two equally strict ones, the present one."""
    return at_start if _STRICTNESS[at_start] < _STRICTNESS[present] else present
