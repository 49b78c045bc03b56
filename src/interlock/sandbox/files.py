"""Reading and atomically writing single files inside open folders."""

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from interlock.infra.errors import ErrorCode, ToolError
from interlock.sandbox.kernel import open_beneath, rename_without_replacing
from interlock.sandbox.paths import Parent, Place, Territory

CHUNK_BYTES = 1024 * 1024

# A regular file is opened at once; a pipe nobody writes to must not be waited for.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY

_KEPT_ATTRIBUTES = ("user.", "system.posix_acl_access")

Check = Callable[[], None]


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A regular file, open for reading, and what it was when it was opened."""

    descriptor: int
    status: os.stat_result

    @property
    def size(self) -> int:
        return self.status.st_size

    @property
    def version(self) -> str:
        """Changes whenever the file does, as far as the file system tells."""
        status = self.status
        return f"{status.st_dev:x}.{status.st_ino:x}.{status.st_size:x}.{status.st_mtime_ns:x}"

    def read(self, offset: int, count: int) -> bytes:
        """At most `count` bytes from `offset`; fewer only at the end of the file."""
        data = os.pread(self.descriptor, count, offset)
        if len(data) == count or not data:
            return data
        pieces = [data]
        while (missing := count - sum(map(len, pieces))) > 0:
            more = os.pread(self.descriptor, missing, offset + count - missing)
            if not more:
                break
            pieces.append(more)
        return b"".join(pieces)

    def chunks(self, check: Check, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes from `start` to `end`, a piece at a time."""
        offset = start
        while end is None or offset < end:
            check()
            wanted = CHUNK_BYTES if end is None else min(CHUNK_BYTES, end - offset)
            data = os.pread(self.descriptor, wanted, offset)
            if not data:
                return
            yield data
            offset += len(data)

    def sha256(self, check: Check, start: int = 0, end: int | None = None) -> str:
        digest = hashlib.sha256()
        for piece in self.chunks(check, start, end):
            digest.update(piece)
        return digest.hexdigest()


@contextmanager
def opened_file(territory: Territory, place: Place) -> Iterator[OpenFile]:
    descriptor = territory.open(place, _READ)
    try:
        yield _regular(descriptor, territory.shown(place))
    finally:
        os.close(descriptor)


@contextmanager
def opened_in(folder: int, name: str, shown: str) -> Iterator[OpenFile]:
    """The file of that name in an open folder; never what a link points at."""
    descriptor = open_beneath(folder, name, _READ)
    try:
        yield _regular(descriptor, shown)
    finally:
        os.close(descriptor)


def _regular(descriptor: int, shown: str) -> OpenFile:
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), shown)
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(
            ErrorCode.EXECUTION_ERROR,
            f"{shown} is not a regular file (a pipe, a socket or a device)",
            "Choose a regular file.",
        )
    return OpenFile(descriptor, status)


def look(parent: Parent) -> os.stat_result | None:
    """What stands at the place now, itself if it is a link; None where nothing does."""
    try:
        return os.stat(parent.name, dir_fd=parent.descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return None


def put(
    parent: Parent,
    pieces: Iterator[bytes],
    *,
    like: OpenFile | None,
    before_commit: Check,
) -> None:
    """Write a file whole or not at all: beside its place first, and then in it with one rename.

    `like` is the file it replaces, whose owner, permissions and attributes it takes over; without one it
    is a new file, and one that appeared in the meantime stays.
    """
    temporary = f".{secrets.token_hex(8)}.interlock-new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=parent.descriptor)
    try:
        try:
            for piece in pieces:
                _write_all(descriptor, piece)
            if like is None:
                os.fchmod(descriptor, 0o666 & ~_umask())
            else:
                _take_over(descriptor, like)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        before_commit()
        if like is None:
            rename_without_replacing(parent.descriptor, temporary, parent.descriptor, parent.name)
        else:
            os.rename(temporary, parent.name, src_dir_fd=parent.descriptor, dst_dir_fd=parent.descriptor)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=parent.descriptor)
        raise
    settle(parent.descriptor)


def settle(folder: int) -> None:
    """Make the folder's own change durable. Some file systems cannot; then there is no more to do."""
    with suppress(OSError):
        descriptor = open_beneath(folder, ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _take_over(descriptor: int, like: OpenFile) -> None:
    status = like.status
    with suppress(PermissionError):
        os.fchown(descriptor, status.st_uid, status.st_gid)
    with suppress(OSError):
        for name in os.listxattr(like.descriptor):
            if name.startswith(_KEPT_ATTRIBUTES):
                os.setxattr(descriptor, name, os.getxattr(like.descriptor, name))
    # As when a file is written in place, new content does not inherit what the old was trusted with.
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & 0o1777)


def _umask() -> int:
    """Read from the kernel: asking the interpreter would change it for the whole process for a moment."""
    with suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii") as lines:  # noqa: PTH123
        for line in lines:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022
