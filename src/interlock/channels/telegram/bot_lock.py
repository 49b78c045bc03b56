"""A file lock that the kernel releases with its process: it shows that the earlier holder has ended.

The file is next to an SQLite store, whose processes are all on one machine. The lease alone decides who
serves the bot; the lock only proves that a lease taken under it has no holder any more.
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
        self._is_logged = False

    def take(self) -> str | None:
        """Take the lock and return its name; None if another process holds it, or locking fails.

        The name is the inode of the file, which is unique while the lock is held: if the file is deleted
        and created anew, the new lock has another name.
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
            self._log_once(error)
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as error:
            os.close(descriptor)
            self._log_once(error)
            return None
        return descriptor

    def let_go(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _log_once(self, error: OSError) -> None:
        """Log the error once: locking is retried often, and the lease works without it."""
        if not self._is_logged:
            self._is_logged = True
            _log.warning("telegram_lock_not_taken", path=str(self._path), error=error.strerror)
