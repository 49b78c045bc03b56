"""Files kept for sessions, each in its session's directory; the oldest make room for new ones.

So are earlier versions of files, the output of commands and sealed arguments.
"""

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from interlock.core.files import UNFINISHED, fsync_path
from interlock.core.logging import StructuredLogger
from interlock.core.remove_tree import remove_tree

_log = StructuredLogger(__name__)

# What even the smallest file takes on a disk.
BLOCK_BYTES = 4096

# After this time the writer of an unfinished file has died.
_UNFINISHED_SECONDS = 3600

# Ids that are their own directory name: none that looks like a generated one.
_PLAIN_ID = re.compile(r"(?!_[0-9A-Fa-f]{64}$)[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


class SessionFiles:
    """The files below one directory. Beyond `max_bytes` in total, the oldest are deleted."""

    def __init__(self, directory: Path, *, max_bytes: int | None = None) -> None:
        self.directory = directory
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        # What all files take, as far as this process knows, and what it added since it last looked.
        self._estimate = max_bytes or 0
        self._added = 0

    def directory_of(self, session_id: str) -> Path:
        # Session ids are arbitrary text; directory names are not.
        if _PLAIN_ID.fullmatch(session_id):
            return self.directory / session_id
        return self.directory / f"_{sha256(session_id.encode('utf-8', 'surrogatepass')).hexdigest()}"

    def make_directory(self, session_id: str | None = None) -> Path:
        """The session's directory, made durably; without a session, the one that has them all."""
        made = self.directory if session_id is None else self.directory_of(session_id)
        for each in dict.fromkeys((self.directory, made)):
            with suppress(FileExistsError):
                each.mkdir(mode=0o700, parents=True)
                fsync_path(each.parent)
        return made

    def directories(self) -> list[Path]:
        try:
            return [path for path in self.directory.iterdir() if path.is_dir()]
        except OSError:
            return []

    def files(self) -> Iterator[tuple[Path, os.stat_result]]:
        for directory in self.directories():
            with suppress(OSError), os.scandir(directory) as found:
                for entry in found:
                    with suppress(OSError):
                        yield Path(entry.path), entry.stat(follow_symlinks=False)

    def make_room(self, added_bytes: int, *, spare: frozenset[Path]) -> None:
        """Delete the oldest files but those just written, of that size.

        Other processes add files too: the real size is looked up now and then.
        """
        if self._max_bytes is None:
            return
        with self._lock:
            added = blocks(added_bytes)
            self._estimate += added
            self._added += added
            if self._estimate <= self._max_bytes and self._added <= self._max_bytes // 16:
                return
            self._estimate, self._added = self._trim(self._max_bytes, spare), 0

    def _trim(self, max_bytes: int, spare: frozenset[Path]) -> int:
        """What is left."""
        found = [(status.st_mtime_ns, path.name, path, status) for path, status in self.files()]
        total = sum(blocks(status.st_size) for *_, status in found)
        # A little more than needed, so that it is not looked at again for every file.
        wanted = max_bytes - max_bytes // 16 if total > max_bytes else total
        for _, _, path, status in sorted(found, key=lambda each: each[:2]):
            if total <= wanted:
                break
            if path in spare or _is_being_written(path, status):
                continue
            with suppress(OSError):
                path.unlink()
            total -= blocks(status.st_size)
        return total

    def delete_before(self, time_us: int) -> None:
        """Delete older files, as the content of events is."""
        for path, status in self.files():
            if status.st_mtime_ns // 1000 < time_us:
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    _log.error("session_file_not_erased", path=str(path), error=error.strerror)

    def delete_session(self, session_id: str) -> None:
        """Erase everything kept of a deleted session. Raises `OSError`."""
        remove_tree(self.directory_of(session_id))


def blocks(size: int) -> int:
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


def _is_being_written(path: Path, status: os.stat_result) -> bool:
    return path.suffix == UNFINISHED and status.st_mtime > time.time() - _UNFINISHED_SECONDS
