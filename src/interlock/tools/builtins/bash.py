"""Runs a command that may change files in the opened directories only."""

from interlock.tools.files.base import WRITING_MODES
from interlock.tools.shell.tool import ShellTool
from interlock.tools.tool import Effect, ToolMode


class BashTool(ShellTool):
    may_write = True

    @property
    def name(self) -> str:
        return "bash"

    @property
    def description(self) -> str:
        return (
            "Run a command line with bash in a sandbox. It can change files in the opened "
            "folders; its home and temporary folders are deleted afterwards. Prefer the file "
            "tools."
        )

    @property
    def allowed_modes(self) -> frozenset[ToolMode]:
        return WRITING_MODES

    @property
    def effect(self) -> Effect:
        return Effect.exec
