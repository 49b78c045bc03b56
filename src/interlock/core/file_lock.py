"""Locks on files by flock(2): the kernel releases them with the last descriptor, however a process ends."""

import fcntl
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

POLL_SECONDS = 0.02


def open_lock_file(path: str | Path, *, within: int | None = None) -> int:
    """A descriptor of the file, made if needed; `path` is relative to the directory `within`."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600, dir_fd=within)


def take_lock(file: int | BinaryIO, *, shared: bool = False, patience_seconds: float = math.inf) -> bool:
    """Lock an open file; False if others still hold it when the patience ends."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    if patience_seconds == math.inf:
        fcntl.flock(file, kind)
        return True
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_SECONDS)
        else:
            return True


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold the lock on a file for as long as the block runs."""
    descriptor = open_lock_file(path)
    try:
        take_lock(descriptor)
        yield
    finally:
        os.close(descriptor)
