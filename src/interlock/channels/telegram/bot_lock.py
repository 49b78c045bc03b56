"""A lock that the kernel lets go with its process: by it the next one knows that nobody speaks any more.

It stands beside an SQLite store, whose processes are all on one machine. The lease alone decides who
speaks; the lock only tells that whoever had taken it under the same lock has gone.
"""

import fcntl
import os
from pathlib import Path

from interlock.core.logging import StructuredLogger

_log = StructuredLogger(__name__)


class BotFileLock:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._is_told = False

    def take(self) -> str | None:
        """The name of the lock, which is held then; None where another process holds it, or none can be.

        The name is the file's own number. While it is held no other file has that, so that somebody who
        finds the file removed, and makes another, holds a lock of another name.
        """
        if self._descriptor is None:
            self._descriptor = self._locked()
        if self._descriptor is None:
            return None
        status = os.fstat(self._descriptor)
        return f"{status.st_dev}:{status.st_ino}"

    def _locked(self) -> int | None:
        try:
            flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._path, flags, 0o600)
        except OSError as error:
            self._tell(error)
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as error:
            os.close(descriptor)
            self._tell(error)
            return None
        return descriptor

    def let_go(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _tell(self, error: OSError) -> None:
        """Once: it is tried again and again, and the lease does without."""
        if not self._is_told:
            self._is_told = True
            _log.warning("telegram_lock_not_taken", path=str(self._path), error=error.strerror)
