"""Files without surprises: opened without symlinks, written whole or not at all, and durable.

The system calls that Python does not offer are here: `openat2`, `statx` and `renameat2`.
"""

import ctypes
import errno
import os
import platform
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

# The numbers are the kernel's own (asm-generic; x86_64 has an older one for renameat2).
_OPENAT2 = 437
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276}.get(platform.machine())
_STATX = {"x86_64": 332, "aarch64": 291, "riscv64": 291}.get(platform.machine())

_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_RESOLVE_CACHED = 0x20
_WITHOUT_LINKS = _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_AT_EMPTY_PATH = 0x1000
_AT_STATX_DONT_SYNC = 0x4000
_STATX_BASIC_STATS = 0x7FF

# A process with a lease on a file can make the kernel return EAGAIN for most of a minute.
_TRIES = 50


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class _Statx(ctypes.Structure):
    """The kernel's `struct statx`, as far as it is used here."""

    _fields_ = (
        ("_", ctypes.c_uint32 * 4),
        ("links", ctypes.c_uint32),
        ("_owners", ctypes.c_uint32 * 2),
        ("mode", ctypes.c_uint16),
        ("_inode", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("_times", ctypes.c_uint64 * 10),
        ("_special", ctypes.c_uint32 * 2),
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("_rest", ctypes.c_uint64 * 14),
    )


class CachedStat(NamedTuple):
    """What the kernel knows of a file from its caches alone."""

    mode: int
    size: int
    links: int
    device: tuple[int, int]


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@cache
def _system_call(*types: type) -> Callable[..., int]:
    """`syscall` for arguments of these types, behind its number. They need not be wrapped each time."""
    call = _libc()["syscall"]
    call.argtypes = (ctypes.c_long, *types)
    call.restype = ctypes.c_long
    return call


@cache
def has_openat2() -> bool:
    """Whether this kernel has it and nothing, such as an old container's filter, forbids it."""
    try:
        os.close(_openat2(-100, b".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno not in {errno.ENOSYS, errno.EPERM, errno.EINVAL}
    return True


def open_beneath(folder: int, relative: str, flags: int) -> int:
    """Open a path below an open directory, without following any symlink.

    It creates nothing. A `..` is refused, wherever it leads. If the kernel has no `openat2`, every part is
    opened by itself and must not be a symlink, which proves the same.
    """
    flags |= os.O_CLOEXEC
    parts = relative.split("/")
    if relative.startswith("/") or ".." in parts:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), relative)
    path = _c_string(relative)
    if not has_openat2():
        return _open_step_by_step(folder, parts, flags)
    for _ in range(_TRIES):
        try:
            return _openat2(folder, path, flags)
        except (InterruptedError, BlockingIOError) as error:
            last = error
    raise last


def open_cached(folder: int, relative: str, flags: int) -> int:
    """The same, if every name on the path is cached by the kernel; otherwise `BlockingIOError`.

    Only the names: with anything but O_PATH, opening the file itself may still block.
    """
    if relative.startswith("/") or ".." in relative.split("/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), relative)
    if not has_openat2():
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), relative)
    return _openat2(folder, _c_string(relative), flags | os.O_CLOEXEC, _WITHOUT_LINKS | _RESOLVE_CACHED)


def statx_cached(descriptor: int) -> CachedStat:
    """The cached status of an open file, without asking its disk, server or other processes."""
    if _STATX is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    found = _Statx()
    call = _system_call(
        *(ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(_Statx))
    )
    flags = _AT_EMPTY_PATH | _AT_STATX_DONT_SYNC
    if call(_STATX, descriptor, b"", flags, _STATX_BASIC_STATS, ctypes.byref(found)):
        raise _last_error("")
    return CachedStat(found.mode, found.size, found.links, (found.major, found.minor))


def rename_noreplace(source_folder: int, source: str, folder: int, name: str) -> None:
    """Rename, unless there is something of that name already."""
    if not _renameat2(source_folder, source, folder, name, _RENAME_NOREPLACE):
        _claim_then_rename(source_folder, source, folder, name)


def rename_exchange(folder: int, one: str, other: str) -> bool:
    """Exchange two names in one step; False where the kernel or the file system cannot."""
    return _renameat2(folder, one, folder, other, _RENAME_EXCHANGE)


# Also returned by file systems without the flag, and by containers' filters.
_NO_RENAMEAT2 = frozenset({errno.ENOSYS, errno.EINVAL, errno.EPERM})


def _renameat2(source_folder: int, source: str, folder: int, name: str, flag: int) -> bool:
    """False where it cannot be had."""
    old, new = _c_string(source), _c_string(name)
    if _RENAMEAT2 is None:
        return False
    call = _system_call(ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    if not call(_RENAMEAT2, source_folder, old, folder, new, flag):
        return True
    error = _last_error(name)
    if error.errno in _NO_RENAMEAT2:
        return False
    raise error


def _claim_then_rename(source_folder: int, source: str, folder: int, name: str) -> None:
    """Take the name first, which fails if it exists: by an empty directory, or by a hard link."""
    if stat.S_ISDIR(os.stat(source, dir_fd=source_folder, follow_symlinks=False).st_mode):
        os.mkdir(name, dir_fd=folder)
        try:
            os.rename(source, name, src_dir_fd=source_folder, dst_dir_fd=folder)
        except OSError:
            os.rmdir(name, dir_fd=folder)
            raise
        return
    os.link(source, name, src_dir_fd=source_folder, dst_dir_fd=folder, follow_symlinks=False)
    try:
        os.unlink(source, dir_fd=source_folder)
    except OSError:
        os.unlink(name, dir_fd=folder)
        raise


def _c_string(path: str) -> bytes:
    """Refused where C would see the end of it in its middle, and so another path."""
    if "\0" in path:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
    return os.fsencode(path)


def _openat2(folder: int, path: bytes, flags: int, resolve: int = _WITHOUT_LINKS) -> int:
    how = _OpenHow(flags, 0, resolve)
    call = _system_call(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_OpenHow), ctypes.c_size_t)
    descriptor = call(_OPENAT2, folder, path, ctypes.byref(how), ctypes.sizeof(how))
    if descriptor < 0:
        raise _last_error(os.fsdecode(path))
    return descriptor


def _last_error(path: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), path)


def _open_step_by_step(folder: int, parts: list[str], flags: int) -> int:
    current = os.dup(folder)
    try:
        for part in parts[:-1]:
            below = _open_one(current, part, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            os.close(current)
            current = below
        return _open_one(current, parts[-1], flags)
    finally:
        os.close(current)


def _open_one(folder: int, name: str, flags: int) -> int:
    try:
        descriptor = os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
    except NotADirectoryError:
        # O_DIRECTORY fails so for a symlink, before O_NOFOLLOW can report it.
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise _is_a_link(name) from None
        raise
    if stat.S_ISLNK(os.fstat(descriptor).st_mode):
        # With O_PATH, the kernel opens the symlink itself instead of refusing it.
        os.close(descriptor)
        raise _is_a_link(name)
    return descriptor


def _is_a_link(name: str) -> OSError:
    return OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)


@dataclass(slots=True)
class NewFile:
    """A file not visible yet: without a name or, if unsupported, with a temporary one."""

    folder: int
    descriptor: int
    temporary_name: str | None

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.descriptor, view) :]

    def appear_as(self, name: str) -> None:
        """Under a name that nothing else has."""
        if self.temporary_name is not None:
            rename_noreplace(self.folder, self.temporary_name, self.folder, name)
            self.temporary_name = None
            return
        os.link(f"/proc/self/fd/{self.descriptor}", name, dst_dir_fd=self.folder, follow_symlinks=True)

    def replace(self, name: str) -> None:
        os.rename(self.named(), name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        self.temporary_name = None

    def named(self) -> str:
        """Its temporary name, hidden; it goes with the file unless the file was renamed."""
        if self.temporary_name is None:
            temporary_name = _temporary_name()
            self.appear_as(temporary_name)
            self.temporary_name = temporary_name
        return self.temporary_name


@contextmanager
def new_file(folder: int, mode: int) -> Iterator[NewFile]:
    """A file in an open directory, which is gone afterwards unless it was given a name."""
    descriptor, name = _open_unnamed(folder, mode), None
    if descriptor is None:
        name = _temporary_name()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, mode, dir_fd=folder)
    new = NewFile(folder, descriptor, name)
    try:
        yield new
    finally:
        os.close(descriptor)
        if new.temporary_name is not None:
            with suppress(OSError):
                os.unlink(new.temporary_name, dir_fd=folder)


def _open_unnamed(folder: int, mode: int) -> int | None:
    """None where the file system has no files without a name, or the system no way to give them one."""
    if not Path("/proc/self/fd").exists():
        return None
    try:
        return os.open(".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, mode, dir_fd=folder)
    except OSError:
        return None


# The end of the name of a file that is being written where it cannot be without one.
UNFINISHED = ".interlock-new"


def _temporary_name() -> str:
    return f".{secrets.token_hex(8)}{UNFINISHED}"


@contextmanager
def durable_file(path: Path, *, replace: bool = False) -> Iterator[BinaryIO]:
    """A new file of this account, to be written; it appears under its name, on disk, when the block ends.

    If the block raises, nothing is left of it. Unless it may `replace`, an existing file is kept.
    """
    with _directory(path.parent) as folder, new_file(folder, 0o600) as new:
        with os.fdopen(os.dup(new.descriptor), "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if replace:
            new.replace(path.name)
        else:
            new.appear_as(path.name)
        os.fsync(folder)


def write_durably(path: Path, pieces: Iterable[bytes], *, replace: bool = False) -> None:
    with durable_file(path, replace=replace) as stream:
        stream.writelines(pieces)


def fsync_path(directory: Path) -> None:
    """Make the names in a directory durable, or raise `OSError`."""
    with _directory(directory) as folder:
        os.fsync(folder)


@contextmanager
def _directory(path: Path) -> Iterator[int]:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


def fsync_directory(folder: int) -> None:
    """Make a change of a directory durable, which was made already: where that fails, it is ignored."""
    with suppress(OSError):
        descriptor = open_beneath(folder, ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_bounded(descriptor: int, count: int) -> bytes:
    """At most `count` bytes from where it is; fewer only at the end of the file."""
    pieces: list[bytes] = []
    while count > 0 and (piece := os.read(descriptor, count)):
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)
