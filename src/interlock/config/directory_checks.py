"""Checks the directories that settings name: they exist, and no agent controls where they lead."""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from interlock.core.text import is_utf8

# The kernel's own limit.
_MAX_LINKS = 40
# Each names one path that code is loaded from, whether or not it exists yet.
_LOADING = (
    *("PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX"),
    *("OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES", "GCONV_PATH"),
)
_OTHER_PYTHON = (
    "unset PYTHONPATH, start it as interlock instead of python -m interlock, or install it in a "
    "separate environment"
)


def existing_directory(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError(f"'{path}' is not an absolute path")
    try:
        resolved = path.resolve(strict=True)
    except OSError as error:
        raise ValueError(f"'{path}' cannot be used: {error.strerror}") from None
    if not resolved.is_dir():
        raise ValueError(f"'{path}' is not a folder")
    if not is_utf8(str(resolved)):
        raise ValueError(f"'{path}' resolves to a folder whose name is not valid UTF-8")
    return resolved


def reject_symlinked_roots(paths: Iterable[Path], roots: Iterable[Path]) -> None:
    """Refuse paths with a symlink inside an opened directory: an agent that replaces it opens another one.

    Also where the person made the symlink: an agent may have replaced it since, unnoticed.
    """
    opened = tuple(roots)
    for path in paths:
        for link in symlinks_on_path(path):
            for root in opened:
                if link.is_relative_to(root):
                    raise ValueError(
                        f"'{path}' contains the symlink {link}, which agents with write access to "
                        f"{root} can replace; give the path of the target folder"
                    )


def roots_with_own_program(roots: Iterable[Path]) -> list[tuple[Path, Path]]:
    """Each root that contains Interlock's own program, and where: write access there can change it."""
    places = dict.fromkeys(Path(place).resolve() for place in (sys.prefix, Path(__file__).parents[1]))
    return [(root, place) for root in roots for place in places if place.is_relative_to(root)]


def reject_writable_code_paths(roots: Iterable[Path]) -> None:
    """Refuse search paths of Python and the linker that lead this process to code that agents write.

    Where the whole program lies in an opened directory there is nothing left to defend; `doctor` warns of
    it.
    """
    opened = tuple(roots)
    if roots_with_own_program(opened):
        return
    for name, entry in _code_by_variables():
        _refuse_place(entry, opened, f"{name} has code loaded", f"unset {name}")
    for entry in sys.path:
        _refuse_place(entry, opened, "Python would load modules", _OTHER_PYTHON)


def _code_by_variables() -> Iterator[tuple[str, str]]:
    """Paths that the interpreter, OpenSSL and the linker load code from."""
    yield from ((name, os.environ[name]) for name in _LOADING if os.environ.get(name))
    if folders := os.environ.get("LD_LIBRARY_PATH"):
        yield from (("LD_LIBRARY_PATH", entry) for entry in re.split("[:;]", folders))
    for name in ("LD_PRELOAD", "LD_AUDIT"):
        entries = re.split("[: ]", os.environ.get(name, ""))
        yield from ((name, entry) for entry in entries if "/" in entry)


def _refuse_place(entry: str, roots: tuple[Path, ...], what: str, way_out: str) -> None:
    # An empty entry is the working directory, which may have been removed.
    try:
        place = Path(entry).resolve()
    except (OSError, RuntimeError):
        return
    for root in roots:
        if place.is_relative_to(root):
            raise ValueError(
                f"{what} from {place}, which is in the opened folder {root}, so Interlock would "
                f"run code that agents write there; {way_out}"
            )


def symlinks_on_path(path: Path) -> Iterator[Path]:
    """Every symlink followed on the way to a path, by its real location."""
    current, followed = Path("/"), 0
    ahead = list(reversed(path.absolute().parts[1:]))
    while ahead and followed < _MAX_LINKS:
        part = ahead.pop()
        step = current.parent if part == os.pardir else current / part
        try:
            target = step.readlink() if part != os.pardir else None
        except OSError:
            target = None
        if target is None:
            current = step
            continue
        followed += 1
        yield step
        current = Path("/") if target.is_absolute() else current
        ahead += reversed([part for part in target.parts if part != "/"])
