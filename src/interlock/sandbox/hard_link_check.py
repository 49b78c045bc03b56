"""Hard links: a file that also has a name outside the roots is not accessible."""

import os
from collections import Counter

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.files import open_beneath
from interlock.sandbox.file_io import OpenFile
from interlock.sandbox.paths import PathResolver

# Roots with more entries than this are not searched for a file's other names.
MAX_ENTRIES = 200_000
_MAX_DEPTH = 200


class HardLinkCheck:
    """Finds the names of files in all roots, with one search for all files of a call."""

    def __init__(self, resolver: PathResolver) -> None:
        self._resolver = resolver
        self._counted: Counter[tuple[int, int]] | None = None

    def all_inside(self, file: OpenFile) -> bool:
        status = file.status
        if status.st_nlink <= 1 or self._resolver.profile.reads_hard_links:
            return True
        if self._counted is None:
            self._counted = self._count()
        return self._counted[status.st_dev, status.st_ino] >= status.st_nlink

    def refuse_outside(self, file: OpenFile, shown: str) -> None:
        if not self.all_inside(file):
            raise ToolError(
                ErrorCode.PATH_DENIED,
                f"{shown} is a hard link to a file that may be outside the opened folders",
                "Tell the user; the setting TOOL_HARD_LINKS=true allows reading such files.",
            )

    def _count(self) -> Counter[tuple[int, int]]:
        found: Counter[tuple[int, int]] = Counter()
        roots = self._resolver.profile.readable_roots
        for root in roots:
            if any(root != other and root.is_relative_to(other) for other in roots):
                continue
            with self._resolver.folder(self._resolver.find(str(root))) as folder:
                _add(folder, found, _MAX_DEPTH)
        return found


def _add(folder: int, found: Counter[tuple[int, int]], depth: int) -> None:
    device = os.fstat(folder).st_dev
    with os.scandir(folder) as entries:
        for entry in entries:
            if len(found) > MAX_ENTRIES:
                return
            found[device, entry.inode()] += 1
            if depth and entry.is_dir(follow_symlinks=False):
                try:
                    below = open_beneath(folder, entry.name, os.O_RDONLY | os.O_DIRECTORY)
                except OSError:
                    continue
                try:
                    _add(below, found, depth - 1)
                finally:
                    os.close(below)
