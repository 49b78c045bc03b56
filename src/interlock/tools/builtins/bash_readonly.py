"""Runs a command that cannot change anything, as enforced by the kernel."""

from interlock.tools.files.base import READING_MODES
from interlock.tools.shell.tool import ShellTool
from interlock.tools.tool import Effect, ToolMode


class BashReadonlyTool(ShellTool):
    @property
    def name(self) -> str:
        return "bash_readonly"

    @property
    def description(self) -> str:
        return (
            "Run a command line with bash in a sandbox without write access and without network: "
            "to view, count, sort, compare, or query the git history. Temporary files are not "
            "available either: to sort more than a megabyte, pass -S 200M to sort."
        )

    @property
    def allowed_modes(self) -> frozenset[ToolMode]:
        return READING_MODES

    @property
    def effect(self) -> Effect:
        return Effect.read

    @property
    def needs(self) -> frozenset[str]:
        # Without a sandbox it would be an ordinary shell under a name that promises more.
        return super().needs | {"sandbox:walls"}
