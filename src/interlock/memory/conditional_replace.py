"""Replaces a file atomically without losing what was saved to it meanwhile.

The two names are exchanged in one step (`renameat2`), so that the old file can be checked afterwards: if it
is not what the new content was made from, the exchange is reverted.
"""

import ctypes
import errno
import os
import platform
from functools import cache

from interlock.memory.note_directory import NoteState, note_state

# The kernel's system call number (asm-generic; x86_64 has an older one).
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276}.get(platform.machine())
_RENAME_EXCHANGE = 2

# The errors of a kernel, a file system or a container's filter without it.
_NOT_THERE = frozenset({errno.ENOSYS, errno.EINVAL, errno.EPERM})


class NoteChanged(Exception):
    """The file was saved after it was read; it is unchanged."""


def compare_and_swap(folder: int, ours: str, name: str, expected: NoteState) -> None:
    """Replace `name` by `ours`, if it is still the file that was read."""
    if not _is(folder, name, expected):
        raise NoteChanged
    new = os.stat(ours, dir_fd=folder, follow_symlinks=False).st_ino
    code = _exchange(folder, ours, name)
    if code in _NOT_THERE:
        os.rename(ours, name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    if code == errno.ENOENT:
        raise NoteChanged
    if code:
        raise OSError(code, os.strerror(code), name)
    if _is(folder, ours, expected):
        os.unlink(ours, dir_fd=folder)
        return
    # Until the file put aside is our own: the last save stays in place.
    while os.stat(ours, dir_fd=folder, follow_symlinks=False).st_ino != new:
        if _exchange(folder, ours, name):
            break
    raise NoteChanged


def _is(folder: int, name: str, expected: NoteState) -> bool:
    """Compares all but the change time, which an exchange updates."""
    try:
        found = note_state(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return False
    return found[:3] == expected[:3]


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _exchange(folder: int, one: str, other: str) -> int:
    """Zero, or the error number."""
    if _RENAMEAT2 is None:
        return errno.ENOSYS
    failed = _libc().syscall(
        *(ctypes.c_long(_RENAMEAT2), ctypes.c_int(folder), ctypes.c_char_p(os.fsencode(one))),
        *(ctypes.c_int(folder), ctypes.c_char_p(os.fsencode(other)), ctypes.c_uint(_RENAME_EXCHANGE)),
    )
    return ctypes.get_errno() if failed else 0
