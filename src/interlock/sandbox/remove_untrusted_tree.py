"""Removes a tree that a command left, however deep it is and whatever modes its directories have."""

import os
import secrets
import stat
from contextlib import suppress

from interlock.core.files import open_beneath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_OWN = 0o700


def remove_entry(folder: int, name: str) -> None:
    """Remove an entry, a symlink itself; a missing one is fine.

    Without recursion or a descriptor per level: a nested directory is moved up to the first one and emptied
    there.
    """
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(name, dir_fd=folder)
        return
    top = _opened(folder, name)
    try:
        while _flatten(top):
            pass
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=folder)


def _flatten(top: int) -> bool:
    """Remove the entries of a directory; the content of its subdirectories is moved into it."""
    found_any = False
    for name in os.listdir(top):
        found_any = True
        if not _unlinked(top, name):
            _empty_into(top, name)
    return found_any


def _empty_into(top: int, name: str) -> None:
    below = _opened(top, name)
    try:
        for inner in os.listdir(below):  # noqa: PTH208 - a descriptor
            if _unlinked(below, inner):
                continue
            # Moving a directory changes its `..`, for which an ordinary account needs write permission.
            os.close(_opened(below, inner))
            os.rename(inner, secrets.token_hex(16), src_dir_fd=below, dst_dir_fd=top)
    finally:
        os.close(below)
    os.rmdir(name, dir_fd=top)


def _unlinked(folder: int, name: str) -> bool:
    """Unlink an entry; False for a directory."""
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return False
    os.unlink(name, dir_fd=folder)
    return True


def _opened(folder: int, name: str) -> int:
    """Open for listing and emptying, which its mode may forbid."""
    held = open_beneath(folder, name, os.O_PATH | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            if os.fstat(held).st_mode & _OWN != _OWN:
                os.chmod(f"/proc/self/fd/{held}", _OWN)  # noqa: PTH101 - a descriptor
        return open_beneath(held, ".", _FOLDER)
    finally:
        os.close(held)
