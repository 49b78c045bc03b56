"""Which processes that share an SQLite store are alive, according to the kernel.

Each process locks a byte of its own in one file, and the kernel releases the lock with the process, however
that ended. Only the rows of leases decide who holds what. A row names its holder's lock, so that others can
see that the holder has gone, and need not wait for the lease's end.
"""

import fcntl
import os
import secrets
import struct
import threading
from pathlib import Path

from interlock.core.file_lock import open_lock_file
from interlock.core.logging import StructuredLogger

_log = StructuredLogger(__name__)

# struct flock: type, whence, start, length, pid.
_FLOCK = struct.Struct("@hhqqi4x")
_PLACES = 2**62


class ProcessLocks:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._opening = threading.Lock()
        self._descriptor: int | None = None
        self._name: str | None = None
        self._is_logged = False

    def acquire(self) -> str | None:
        """The name of this process's lock, which is held from now on; None if locking fails."""
        with self._opening:
            if self._name is None and (descriptor := self._opened()) is not None:
                self._name = self._locked(descriptor)
            return self._name

    def is_gone(self, name: str) -> bool:
        """Whether the process that held that lock has ended. Thread-safe.

        A lock in another file proves nothing: the file was replaced. While a file is open anywhere, no
        other has its inode.
        """
        file, _, place = name.rpartition(":")
        with self._opening:
            descriptor = self._opened()
            if descriptor is None or name == self._name or file != _number(descriptor):
                return False
            try:
                asked = _flock(fcntl.F_WRLCK, int(place))
                found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked)
            except (OSError, ValueError, struct.error):
                return False
        return bool(_FLOCK.unpack(found)[0] == fcntl.F_UNLCK)

    def close(self) -> None:
        with self._opening:
            if self._descriptor is not None:
                os.close(self._descriptor)
            self._descriptor = self._name = None

    def _opened(self) -> int | None:
        if self._descriptor is None:
            try:
                self._descriptor = open_lock_file(self._path)
            except OSError as error:
                self._log_once(error)
        return self._descriptor

    def _locked(self, descriptor: int) -> str | None:
        place = secrets.randbelow(_PLACES)
        try:
            # The lock belongs to the descriptor: a thread of this process that opens the file anew sees it
            # too.
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _flock(fcntl.F_WRLCK, place))
        except OSError as error:
            self._log_once(error)
            return None
        return f"{_number(descriptor)}:{place}"

    def _log_once(self, error: OSError) -> None:
        """Log once: it is tried again and again, and leases work without it."""
        if not self._is_logged:
            self._is_logged = True
            _log.warning("lives_not_known", path=str(self._path), error=error.strerror)


def _flock(kind: int, place: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, place, 1, 0)


def _number(descriptor: int) -> str:
    status = os.fstat(descriptor)
    return f"{status.st_dev}:{status.st_ino}"
