"""The few system calls Python does not offer: `openat2`, and `renameat2` that never replaces."""

import ctypes
import errno
import os
import platform
import stat
from functools import cache

# The numbers are the kernel's own (asm-generic; x86_64 has an older one for renameat2).
_OPENAT2 = 437
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276}.get(platform.machine())

_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_RENAME_NOREPLACE = 1


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@cache
def has_openat2() -> bool:
    """Whether this kernel has it and nothing, such as an old container's filter, forbids it."""
    try:
        os.close(_openat2(-100, b".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, 0))
    except OSError as error:
        return error.errno not in {errno.ENOSYS, errno.EPERM, errno.EINVAL}
    return True


def open_beneath(folder: int, relative: str, flags: int, mode: int = 0) -> int:
    """A descriptor for a path below an open folder, without passing through a single link.

    `relative` has no `..`. Where the kernel has no `openat2`, every step is opened by itself and must
    not be a link, which proves the same.
    """
    flags |= os.O_CLOEXEC
    if not has_openat2():
        return _open_step_by_step(folder, relative.split("/"), flags, mode)
    while True:
        try:
            return _openat2(folder, os.fsencode(relative), flags, mode)
        except OSError as error:
            # EAGAIN: something on the way was renamed while the kernel looked, and it could not be sure.
            if error.errno not in {errno.EINTR, errno.EAGAIN}:
                raise


def rename_without_replacing(source_folder: int, source: str, folder: int, name: str) -> None:
    """Rename, unless there is something of that name already."""
    if _RENAMEAT2 is not None:
        done = _libc().syscall(
            *(_RENAMEAT2, source_folder, ctypes.c_char_p(os.fsencode(source))),
            *(folder, ctypes.c_char_p(os.fsencode(name)), _RENAME_NOREPLACE),
        )
        if done == 0:
            return
        code = ctypes.get_errno()
        if code not in {errno.ENOSYS, errno.EINVAL, errno.EPERM}:
            raise OSError(code, os.strerror(code), name)
    _link_then_unlink(source_folder, source, folder, name)


def _link_then_unlink(source_folder: int, source: str, folder: int, name: str) -> None:
    """For file systems without it. A second name is made first, which fails where one exists."""
    os.link(source, name, src_dir_fd=source_folder, dst_dir_fd=folder, follow_symlinks=False)
    os.unlink(source, dir_fd=source_folder)


def _openat2(folder: int, path: bytes, flags: int, mode: int) -> int:
    how = _OpenHow(flags, mode, _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS)
    descriptor: int = _libc().syscall(
        _OPENAT2, folder, ctypes.c_char_p(path), ctypes.byref(how), ctypes.sizeof(how)
    )
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fsdecode(path))
    return descriptor


def _open_step_by_step(folder: int, parts: list[str], flags: int, mode: int) -> int:
    current = os.dup(folder)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
            os.close(current)
            current = below
        return _open_last(current, parts[-1], flags, mode)
    finally:
        os.close(current)


def _open_last(folder: int, name: str, flags: int, mode: int) -> int:
    descriptor = os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=folder)
    if stat.S_ISLNK(os.fstat(descriptor).st_mode):
        # With O_PATH the kernel opens the link itself instead of refusing it.
        os.close(descriptor)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    return descriptor
