"""Runs a command that may change files in the opened directories only."""

from interlock.tools.files.base import WRITING_MODES
from interlock.tools.shell.tool import ShellTool
from interlock.tools.tool import Effect


class BashTool(ShellTool):
    name = "bash"
    description = (
        "Run a command line with bash in a sandbox. It can change files in the opened "
        "folders; its home and temporary folders are deleted afterwards. Prefer the file "
        "tools."
    )
    allowed_modes = WRITING_MODES
    effect = Effect.exec
    may_write = True
