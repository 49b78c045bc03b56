"""Judges a writing job's changes of modes, owners and times, for which Landlock has no right.

The owner of a file may change these anywhere, and root owns much. So in a job that writes, the filter
passes such calls to the supervisor (seccomp user notification). It finds the file that the caller means,
and makes the change itself if the file is in a directory that the job may write. The caller waits, and
nothing it changes meanwhile, in memory or in directories, can substitute another file: what is judged and
changed is one open descriptor.

It imports nothing of Interlock but what the launcher loads.
"""

import ctypes
import errno
import fcntl
import os
import stat
import struct

from interlock.sandbox.child.syscall_numbers import SYSCALL_NUMBERS

_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_QUESTION = struct.Struct("=QIIiIQ6Q")  # id, pid, flags, number, arch, instruction, six arguments
_ANSWER = struct.Struct("=QqiI")  # id, value, error, flags
_FOUR = struct.Struct("=4q")
_TWO = struct.Struct("=2q")

_AT_FDCWD, _NO_FOLLOW, _EMPTY_PATH = -100, 0x100, 0x1000
_PAGE_BYTES, _MAX_PATH_BYTES = 4096, 4096
_HIGHEST_ADDRESS = 1 << 62
_OWN_DESCRIPTORS = (b"/proc/self/fd/", b"/dev/fd/", b"/proc/thread-self/fd/")

# The argument positions of the descriptor, the path, the flags, and the first of the new values.
_CALLS: dict[str, tuple[int | None, int | None, int | None, int]] = {
    "chmod": (None, 0, None, 1),
    "fchmod": (0, None, None, 1),
    "fchmodat": (0, 1, None, 2),
    "fchmodat2": (0, 1, 3, 2),
    "chown": (None, 0, None, 1),
    "lchown": (None, 0, None, 1),
    "fchown": (0, None, None, 1),
    "fchownat": (0, 1, 4, 2),
    "utimensat": (0, 1, 3, 2),
    "utime": (None, 0, None, 1),
    "utimes": (None, 0, None, 1),
    "futimesat": (0, 1, None, 2),
}

_libc = ctypes.PyDLL(None, use_errno=True)


class MetadataSyscallHandler:
    """`listener` delivers the calls; `folders` are the real paths where a job may write."""

    def __init__(self, listener: int, folders: list[bytes]) -> None:
        self.listener = listener
        self._folders = [folder.rstrip(b"/") for folder in folders]
        machine = os.uname().machine
        self._names = {SYSCALL_NUMBERS[name][machine]: name for name in _CALLS}

    def answer(self) -> None:
        """Receive one call and answer it. The caller may be dead by now."""
        question = bytearray(_QUESTION.size)
        try:
            fcntl.ioctl(self.listener, _RECEIVE, question)
        except OSError:
            return
        identity, pid, _flags, number, _arch, _at, *arguments = _QUESTION.unpack(question)
        try:
            self._carry_out(identity, pid, self._names[number], arguments)
            error = 0
        except OSError as refusal:
            error = -(refusal.errno or errno.EPERM)
        except (KeyError, ValueError, OverflowError, struct.error):
            error = -errno.EFAULT
        try:
            fcntl.ioctl(self.listener, _SEND, _ANSWER.pack(identity, 0, error, 0))
        except OSError:
            return

    def _carry_out(self, identity: int, pid: int, name: str, arguments: list[int]) -> None:
        target = _target(pid, name, arguments)
        try:
            first = arguments[_CALLS[name][3] :]
            times = _times(pid, name, first[0]) if "utime" in name else None
            # Only now is it certain that all this was the caller's, and not a later process's.
            fcntl.ioctl(self.listener, _IS_VALID, struct.pack("=Q", identity))
            self._require_inside(target)
            if "chmod" in name:
                _refuse_set_id(target, first[0])
                os.chmod(f"/proc/self/fd/{target}", first[0] & 0o7777)  # noqa: PTH101 - pathlib is large
            elif "chown" in name:
                owner, group = (ctypes.c_uint(value & 0xFFFFFFFF) for value in first[:2])
                _checked(_libc.fchownat(target, b"", owner, group, _EMPTY_PATH))
            else:
                _checked(_libc.utimensat(target, b"", times, _EMPTY_PATH))
        finally:
            os.close(target)

    def _require_inside(self, target: int) -> None:
        path = os.readlink(b"/proc/self/fd/%d" % target)  # noqa: PTH115 - pathlib is large
        if not any(path == folder or path.startswith(folder + b"/") for folder in self._folders):
            raise OSError(errno.EPERM, "outside")


def _target(pid: int, name: str, arguments: list[int]) -> int:
    """A descriptor of the file that the caller means, opened with O_PATH."""
    at, where, how, _first = _CALLS[name]
    folder = _AT_FDCWD if at is None else _signed(arguments[at])
    flags = 0 if how is None else arguments[how] & 0xFFFFFFFF
    if where is None or (name == "utimensat" and not arguments[where]):
        return _open_theirs(pid, folder)
    path = _string(pid, arguments[where])
    if not path and flags & _EMPTY_PATH:
        return _open_theirs(pid, folder)
    for prefix in _OWN_DESCRIPTORS:
        if path.startswith(prefix) and path[len(prefix) :].isdigit():
            # For us, this name would mean one of our own.
            return _open_theirs(pid, int(path[len(prefix) :]))
    base = _open_theirs(pid, folder)
    try:
        no_follow = os.O_NOFOLLOW if flags & _NO_FOLLOW or name == "lchown" else 0
        return os.open(path, os.O_PATH | os.O_CLOEXEC | no_follow, dir_fd=base)
    finally:
        os.close(base)


def _open_theirs(pid: int, descriptor: int) -> int:
    name = "cwd" if descriptor == _AT_FDCWD else f"fd/{descriptor}"
    try:
        return os.open(f"/proc/{pid}/{name}", os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        raise OSError(errno.EBADF, "no such descriptor") from None


def _signed(argument: int) -> int:
    low = argument & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def _times(pid: int, name: str, address: int) -> "ctypes.Array[ctypes.c_char] | None":
    """As `utimensat` takes them; none means now."""
    if not address:
        return None
    if name == "utime":
        seconds = _TWO.unpack(_memory(pid, address, _TWO.size))
        values = (seconds[0], 0, seconds[1], 0)
    else:
        values = _FOUR.unpack(_memory(pid, address, _FOUR.size))
        if name != "utimensat":
            values = (values[0], values[1] * 1000, values[2], values[3] * 1000)
    return ctypes.create_string_buffer(_FOUR.pack(*values), _FOUR.size)


def _string(pid: int, address: int) -> bytes:
    """Read page by page: what follows the string may not be there."""
    found = b""
    while len(found) < _MAX_PATH_BYTES:
        piece = _memory(pid, address, _PAGE_BYTES - address % _PAGE_BYTES)
        end = piece.find(b"\0")
        if end >= 0:
            return found + piece[:end]
        found += piece
        address += len(piece)
    raise OSError(errno.ENAMETOOLONG, "path")


def _memory(pid: int, address: int, size: int) -> bytes:
    if address >= _HIGHEST_ADDRESS:
        raise OSError(errno.EFAULT, "address")
    descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.pread(descriptor, size, address)
    except OSError:
        found = b""
    finally:
        os.close(descriptor)
    if len(found) != size:
        raise OSError(errno.EFAULT, "address")
    return found


def _refuse_set_id(target: int, mode: int) -> None:
    """Refuse set-id files; on a directory, the group bit only controls inheritance."""
    is_folder = stat.S_ISDIR(os.fstat(target).st_mode)
    if mode & (stat.S_ISUID if is_folder else stat.S_ISUID | stat.S_ISGID):
        raise OSError(errno.EPERM, "set-id")


def _checked(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), "refused")
