"""A folder as data, to compare what it was with what it is."""

import stat
from pathlib import Path


def tree(folder: Path, *, times: bool = False) -> dict[str, tuple]:
    """Everything in a folder: kind, permissions, content or target, and on demand the time."""
    found: dict[str, tuple] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        kind = stat.S_IFMT(status.st_mode)
        content: str | bytes = b""
        if stat.S_ISLNK(status.st_mode):
            content = str(path.readlink())
        elif stat.S_ISREG(status.st_mode):
            content = path.read_bytes()
        time = status.st_mtime_ns if times else 0
        found[str(path.relative_to(folder))] = (kind, stat.S_IMODE(status.st_mode), content, time)
    return found
