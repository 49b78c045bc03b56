"""The permission modes and which of two is stricter; the groups and effects of tools."""

from enum import StrEnum


class ToolGroup(StrEnum):
    """What a tool is about. A group never grants anything; a policy can deny all of its tools."""

    code = "code"
    memory = "memory"
    world = "world"
    ui = "ui"
    media = "media"
    mcp = "mcp"


class Effect(StrEnum):
    """What a call can change."""

    read = "read"
    ask = "ask"
    write = "write"
    exec = "exec"
    special = "special"
    # Reports something to Interlock itself only; repeating it has no further effect.
    tell = "tell"


class ToolMode(StrEnum):
    """What a session may do. `chat_safe` is the default and the fallback in every doubt."""

    chat_safe = "chat_safe"
    chat = "chat"
    plan = "plan"
    coding = "coding"


MODE_ALIASES = {"build": ToolMode.coding}
ALL_MODES = frozenset(ToolMode)

# `chat` and `plan` are equally strict, and each may have tools that the other lacks.
_STRICTNESS = {ToolMode.chat_safe: 0, ToolMode.chat: 1, ToolMode.plan: 1, ToolMode.coding: 2}


def parse_mode(value: str) -> ToolMode:
    """Parse a mode's name or alias."""
    if value in MODE_ALIASES:
        return MODE_ALIASES[value]
    try:
        return ToolMode(value)
    except ValueError:
        known = ", ".join([*ToolMode, *MODE_ALIASES])
        raise ValueError(f"'{value}' is not a mode (known: {known})") from None


def no_stricter_than(mode: ToolMode) -> tuple[ToolMode, ...]:
    """The modes that allow at least as much: `mode` itself, equally strict ones, and looser ones."""
    return tuple(each for each in ToolMode if _STRICTNESS[each] >= _STRICTNESS[mode])


def looser_than(mode: ToolMode) -> tuple[ToolMode, ...]:
    return tuple(each for each in ToolMode if _STRICTNESS[each] > _STRICTNESS[mode])


def stricter(at_start: ToolMode, present: ToolMode) -> ToolMode:
    """The mode that a task continues in; of two equally strict ones, the present one."""
    return at_start if _STRICTNESS[at_start] < _STRICTNESS[present] else present
