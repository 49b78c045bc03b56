"""Finds directories below a root that contain files that programs trust, such as repositories.

git descends from a repository into those inside it, and runs what they configure.
"""

import os
from collections import deque
from collections.abc import Collection
from contextlib import suppress
from itertools import islice
from pathlib import Path

# Breadth first, so that near ones are found first.
MAX_LOOKED = 5_000
MAX_FOUND = 20


def find_directories_with(root: Path, names: Collection[str]) -> list[tuple[tuple[str, ...], str]]:
    """The directories below a root with an entry of one of these names, and which; without the root."""
    found: list[tuple[tuple[str, ...], str]] = []
    left, top = MAX_LOOKED, str(root)
    waiting = deque([top])
    while waiting and left > 0 and len(found) < MAX_FOUND:
        folder = waiting.popleft()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in islice(entries, left):
                left -= 1
                if entry.name in names:
                    if folder != top:
                        found.append((Path(folder).relative_to(root).parts, entry.name))
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return found[:MAX_FOUND]
