"""The folders that settings name: that they are there, and that no agent says where they lead."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from interlock.infra.text import is_utf8

# The kernel's own bound.
_MAX_LINKS = 40


def existing_folder(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError(f"'{path}' is not an absolute path")
    try:
        resolved = path.resolve(strict=True)
    except OSError as error:
        raise ValueError(f"'{path}' cannot be used: {error.strerror}") from None
    if not resolved.is_dir():
        raise ValueError(f"'{path}' is not a folder")
    if not is_utf8(str(resolved)):
        raise ValueError(f"'{path}' leads to a folder whose name is not valid UTF-8")
    return resolved


def refuse_steered(paths: Iterable[Path], roots: Iterable[Path]) -> None:
    """Who may write in an opened folder says where a link in it leads, and would so open another one.

    Also where the person made the link: it may have been replaced since, and nobody would notice.
    """
    opened = tuple(roots)
    for path in paths:
        for link in links_to(path):
            for root in opened:
                if link.is_relative_to(root):
                    raise ValueError(
                        f"'{path}' leads through the link {link}, which agents that may write in {root} "
                        "can replace; name the folder itself that it should lead to"
                    )


def links_to(path: Path) -> Iterator[Path]:
    """Every link that is followed on the way to a path, by where it really lies."""
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
