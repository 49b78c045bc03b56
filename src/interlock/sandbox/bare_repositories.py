"""Detects directories that are git repositories without a `.git`, and valid `HEAD` files.

git treats a directory as a (bare) repository if it has a valid `HEAD` next to `objects` and `refs`, or next
to a `commondir` that names where those are. It then runs what `config` and `hooks` there say, for anyone
who types `git status` in it or below it.
"""

import os
import re
from collections.abc import Collection

# In the order in which a new one is moved aside: without a `HEAD`, the others do not count.
PARTS = ("HEAD", "commondir", "refs", "objects")
# Files in which a repository names programs, or other files that do.
CONTROLS = ("config", "config.worktree", "commondir", "hooks")

_MAX_HEAD_BYTES = 256
_HEAD = re.compile(rb"ref:\s*refs/|(?:[0-9a-f]{40}|[0-9a-f]{64})(?:\s|$)")


def git_parts_in(directory: str) -> frozenset[str]:
    return frozenset(name for name in PARTS if os.path.lexists(f"{directory}/{name}"))


def is_repository(parts: Collection[str]) -> bool:
    return "HEAD" in parts and ("commondir" in parts or ("objects" in parts and "refs" in parts))


def is_valid_head(directory: int, name: str) -> bool:
    """Whether git would accept it: a symlink to a ref, or a file that names a ref or a commit."""
    try:
        return os.readlink(name, dir_fd=directory).startswith("refs/")
    except OSError:
        pass
    try:
        descriptor = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory
        )
    except OSError:
        return False
    try:
        return _HEAD.match(os.read(descriptor, _MAX_HEAD_BYTES)) is not None
    except OSError:
        return False
    finally:
        os.close(descriptor)
