"""Replaces a file atomically without losing what was saved to it meanwhile.

The two names are exchanged in one step (`renameat2`), so that the old file can be checked afterwards: if it
is not what the new content was made from, the exchange is reverted.
"""

import os
from contextlib import suppress

from interlock.core.files import rename_exchange
from interlock.memory.note_directory import NoteState, note_state


class NoteChanged(Exception):
    """The file was saved after it was read; it is unchanged."""


def compare_and_swap(folder: int, ours: str, name: str, expected: NoteState) -> None:
    """Replace `name` by `ours`, if it is still the file that was read."""
    if not _is(folder, name, expected):
        raise NoteChanged
    new = os.stat(ours, dir_fd=folder, follow_symlinks=False).st_ino
    try:
        if not rename_exchange(folder, ours, name):
            os.rename(ours, name, src_dir_fd=folder, dst_dir_fd=folder)
            return
    except FileNotFoundError:
        raise NoteChanged from None
    if _is(folder, ours, expected):
        os.unlink(ours, dir_fd=folder)
        return
    # Until the file put aside is our own: the last save stays in place.
    with suppress(OSError):
        while os.stat(ours, dir_fd=folder, follow_symlinks=False).st_ino != new:
            rename_exchange(folder, ours, name)
    raise NoteChanged


def _is(folder: int, name: str, expected: NoteState) -> bool:
    """Compares all but the change time, which an exchange updates."""
    try:
        found = note_state(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return False
    return found[:3] == expected[:3]
