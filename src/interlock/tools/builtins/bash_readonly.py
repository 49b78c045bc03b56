"""Runs a command that can change nothing, which the kernel sees to."""

from interlock.tools.base import Effect, ToolMode
from interlock.tools.files.base import READING_MODES
from interlock.tools.shell.tool import ShellTool


class BashReadonlyTool(ShellTool):
    @property
    def name(self) -> str:
        return "bash_readonly"

    @property
    def description(self) -> str:
        return (
            "Run a command line with bash in a sandbox in which nothing can be written and nothing can be "
            "connected to: to look, count, sort, compare, or ask git about its history. There are no "
            "temporary files either: give sort of more than a megabyte -S 200M."
        )

    @property
    def allowed_modes(self) -> frozenset[ToolMode]:
        return READING_MODES

    @property
    def effect(self) -> Effect:
        return Effect.read

    @property
    def needs(self) -> frozenset[str]:
        # Without walls it would be an ordinary shell under a name that promises more.
        return super().needs | {"sandbox:walls"}
