"""Runs a command that cannot change anything, as enforced by the kernel."""

from interlock.tools.files.base import READING_MODES
from interlock.tools.shell.tool import ShellTool
from interlock.tools.tool import Effect


class BashReadonlyTool(ShellTool):
    name = "bash_readonly"
    description = (
        "Run a command line with bash in a sandbox without write access and without network: "
        "to view, count, sort, compare, or query the git history. Temporary files are not "
        "available either: to sort more than a megabyte, pass -S 200M to sort."
    )
    allowed_modes = READING_MODES
    effect = Effect.read
    # Without a sandbox it would be an ordinary shell under a name that promises more.
    needs = ShellTool.needs | {"sandbox:walls"}
