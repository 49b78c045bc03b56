"""The tools Interlock brings along, one file each. Each declares its group and modes in its own file."""

from interlock.tools.builtins.current_time import CurrentTimeTool
from interlock.tools.registry import ToolRegistry


def register_builtins(registry: ToolRegistry) -> None:
    registry.register(CurrentTimeTool())
