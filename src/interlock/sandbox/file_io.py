"""Reads and atomically writes single files inside open directories."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.files import fsync_directory, new_file, open_beneath
from interlock.sandbox.paths import OpenParent, PathResolver, ResolvedPath

CHUNK_BYTES = 1024 * 1024

# Non-blocking: a pipe without a writer must not block the open.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY

_ACCESS_LIST = "system.posix_acl_access"

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
        """Changes whenever the file does, as far as the file system shows."""
        was = self.status
        numbers = (was.st_dev, was.st_ino, was.st_size, was.st_mtime_ns, was.st_ctime_ns)
        return ".".join(f"{number:x}" for number in numbers)

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
def open_file(resolver: PathResolver, place: ResolvedPath) -> Iterator[OpenFile]:
    with _opened_regular(lambda flags: resolver.open(place, flags), resolver.shown(place)) as file:
        yield file


@contextmanager
def open_file_in(folder: int, name: str, shown: str) -> Iterator[OpenFile]:
    """The file of that name in an open directory; never the target of a symlink."""
    with _opened_regular(lambda flags: open_beneath(folder, name, flags), shown) as file:
        yield file


@contextmanager
def _opened_regular(opening: Callable[[int], int], shown: str) -> Iterator[OpenFile]:
    # To open a device or a pipe is an act of its own, so it is looked at first. It may change in between.
    with _closing(opening(os.O_PATH)) as descriptor:
        _regular(descriptor, shown)
    with _closing(opening(_READ)) as descriptor:
        yield _regular(descriptor, shown)


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
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
            is_an_answer=True,
        )
    return OpenFile(descriptor, status)


def lstat_entry(parent: OpenParent) -> os.stat_result | None:
    """The status of the entry, of a symlink itself; None if missing."""
    try:
        return os.stat(parent.name, dir_fd=parent.descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return None


@contextmanager
def staged_file(
    parent: OpenParent, pieces: Iterable[bytes], *, like: OpenFile | None
) -> Iterator[Callable[[], None]]:
    """A complete file, on disk and not visible yet; calling what is yielded puts it in its place.

    `like` is the file it replaces, whose owner, permissions and attributes it takes over; without one it is
    a new file, and a file created in the meantime is kept.
    """
    with new_file(parent.descriptor, 0o666 if like is None else 0o600) as new:
        for piece in pieces:
            new.write(piece)
        if like is not None:
            _take_over(new.descriptor, like)
        os.fsync(new.descriptor)

        def put() -> None:
            (new.appear_as if like is None else new.replace)(parent.name)
            fsync_directory(parent.descriptor)

        yield put


def create_file(parent: OpenParent, pieces: Iterable[bytes]) -> None:
    """A new file, completely or not at all."""
    with staged_file(parent, pieces, like=None) as put:
        put()


def _take_over(descriptor: int, like: OpenFile) -> None:
    # As with a write in place, new content does not inherit set-id bits.
    mode = stat.S_IMODE(like.status.st_mode) & 0o1777
    has_group = _give_to(descriptor, like.status)
    if not (_copy_attributes(descriptor, like.descriptor) and has_group):
        # The group's permissions were meant for another group, or were limited by the missing ACL.
        mode &= ~0o070 | (mode & 0o007) << 3
    os.fchmod(descriptor, mode)


def _give_to(descriptor: int, status: os.stat_result) -> bool:
    """Whether it has the right group; a file of another owner may become one of this account."""
    for owner in (status.st_uid, -1):
        with suppress(OSError):
            os.fchown(descriptor, owner, status.st_gid)
            return True
    return os.fstat(descriptor).st_gid == status.st_gid


def _copy_attributes(descriptor: int, source: int) -> bool:
    """Whether its access list is that of the source."""
    names = _attributes(source)
    if _ACCESS_LIST not in names and _ACCESS_LIST in _attributes(descriptor):
        # The directory's default ACL, which the replaced file did not have.
        os.removexattr(descriptor, _ACCESS_LIST)
    failed = set()
    for name in names:
        if name.startswith("user.") or name == _ACCESS_LIST:
            try:
                os.setxattr(descriptor, name, os.getxattr(source, name))
            except OSError:
                failed.add(name)
    return _ACCESS_LIST not in failed


def _attributes(descriptor: int) -> list[str]:
    try:
        return os.listxattr(descriptor)
    except OSError:
        return []
