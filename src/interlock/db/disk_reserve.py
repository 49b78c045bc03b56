"""Disk space that an SQLite store reserves, so that people can cancel and delete on a full disk.

While a process writes, SQLite's write-ahead file is kept larger than needed: commits on a full disk use
blocks that the file already has, and no other program can take those. Ordinary writes are refused on a full
disk, so that they do not use them up.

When they are used up, or the store has to be opened on a full disk, there is one preallocated file beside
it. A write that may use it (`on_full_disk`) releases it; until it can be allocated again, every process
that shares the store refuses all other writes. The file's size is the whole state: all processes see it,
and a crash does not change it.
"""

import errno
import os
import time
from contextlib import suppress
from pathlib import Path

from interlock.core.errors import StoreError, StoreFull
from interlock.db.driver import file_open_error

# SQLite's write-ahead file grows to about this before a checkpoint.
RESERVE_BYTES = 4 * 1024 * 1024
WAL_BYTES = 2 * RESERVE_BYTES
# With less than this the disk is full for ordinary writes.
ROOM_BYTES = 1024 * 1024
# With so much it is not full so soon: with every commit, the check takes a tenth of a commit's time.
PLENTY_BYTES = 1024 * 1024 * 1024
PLENTY_SECONDS = 0.1
# How often each process tries to allocate it again.
RETRY_SECONDS = 1.0


class DiskReserve:
    def __init__(self, store: Path) -> None:
        self._store = store
        self._path = store.with_name(f"{store.name}.reserve")
        self._wal = store.with_name(f"{store.name}-wal")
        self._tried_at = -RETRY_SECONDS
        self._has_plenty_until = 0.0

    def is_whole(self) -> bool:
        try:
            return self._path.stat().st_size >= RESERVE_BYTES
        except FileNotFoundError:
            return False
        except OSError as error:
            raise file_open_error(error, self._path) from None

    def release(self) -> None:
        """Return its space to the file system, for a write that is allowed on a full disk."""
        with suppress(StoreError):
            self._resize(0)

    def has_room(self) -> bool:
        """Whether an ordinary write is allowed; where there is plenty of space, as of a moment ago."""
        if not self.is_whole():
            return False
        now = time.monotonic()
        if now < self._has_plenty_until:
            return True
        free = self._free_bytes()
        if free >= PLENTY_BYTES:
            self._has_plenty_until = now + PLENTY_SECONDS
        return free >= ROOM_BYTES

    def grow_wal(self) -> bool:
        """Preallocate blocks for the write-ahead file, if the disk has them; returns whether it has now.

        Call it with a connection open, or SQLite may be removing the file; while it is open, the file is
        not shortened. SQLite ignores what follows its own last frame.
        """
        with suppress(OSError, StoreError):
            if self._wal.stat().st_size >= WAL_BYTES:
                return True
            if self._free_bytes() >= WAL_BYTES + ROOM_BYTES:
                file = os.open(self._wal, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    os.posix_fallocate(file, 0, WAL_BYTES)
                finally:
                    os.close(file)
                return True
        return False

    def is_due(self) -> bool:
        """Whether to try the allocation again: not with every write."""
        now = time.monotonic()
        is_due = now - self._tried_at >= RETRY_SECONDS
        if is_due:
            self._tried_at = now
        return is_due

    def allocate(self) -> bool:
        """Allocate the reserve if the disk has the space; returns whether it is whole now."""
        if not self.is_whole() and self._free_bytes() < RESERVE_BYTES + ROOM_BYTES:
            # Trying would take the last space from others for a moment.
            return False
        return self._resize(RESERVE_BYTES)

    def require(self) -> None:
        """Refuse an ordinary write on a full disk, so that it does not use up the reserve."""
        if not self.has_room():
            raise self.refusal()

    def refusal(self) -> StoreFull:
        return StoreFull(
            f"the disk of {self._store} is full: nothing new is written until "
            f"{RESERVE_BYTES + ROOM_BYTES >> 20} MiB are free; cancelling and deleting still work"
        )

    def shortage(self) -> str | None:
        """A sentence about the disk for reports, from any process."""
        try:
            if not self.has_room():
                return str(self.refusal())
            is_short = self._free_bytes() < RESERVE_BYTES
        except StoreError as error:
            return str(error)
        return f"the disk of {self._store} is almost full; free space on it" if is_short else None

    def _free_bytes(self) -> int:
        try:
            disk = os.statvfs(self._store.parent)
        except OSError as error:
            raise file_open_error(error, self._store) from None
        return disk.f_bavail * disk.f_frsize

    def _resize(self, size: int) -> bool:
        """False if there is no space for it; then it is empty."""
        try:
            file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            if error.errno in _FULL:
                return False
            raise file_open_error(error, self._path) from None
        try:
            if size:
                # Also where it has that size: a copied file may be sparse.
                os.posix_fallocate(file, 0, size)
            else:
                os.ftruncate(file, 0)
        except OSError as error:
            os.ftruncate(file, 0)
            if error.errno in _FULL:
                return False
            raise file_open_error(error, self._path) from None
        finally:
            os.close(file)
        return True


_FULL = {errno.ENOSPC, errno.EDQUOT}
