"""`interlock completion`: completion scripts for shells."""

import sys
from typing import Literal

from interlock.cli.exit_codes import ExitCode


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print a script with which your shell completes commands and options.

    Parameters
    ----------
    shell
        bash, zsh or fish.
    """
    from interlock.cli.main import build_app

    sys.stdout.write(build_app().generate_completion(shell=shell))
    return ExitCode.ok
