"""System call filters for what Landlock does not restrict, assembled for x86_64 and aarch64.

A filter is a small classic BPF program that sees a call's number and its plain arguments, never what a
pointer leads to. Everything not named here is allowed. The launcher enters `static_filter` once and every
job inherits it; a job then enters `job_filter`, which depends on its profile.

It imports nothing of Interlock: it is loaded into the launcher. aarch64 was never run: its numbers are only
checked against the kernel's header by a test.
"""

import ctypes
import errno
import os

from interlock.sandbox.child.syscall_numbers import AUDIT_ARCH, SYSCALL_NUMBERS

_ALLOW, _ERRNO, _KILL_PROCESS, _ASK = 0x7FFF0000, 0x00050000, 0x80000000, 0x7FC00000

# load a word; jump if equal, if any bit, if greater or equal; and; return
_LD, _JEQ, _JSET, _JGE, _AND, _RET = 0x20, 0x15, 0x45, 0x35, 0x54, 0x06
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
_X32_BIT = 0x40000000

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8

_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOCK_STREAM, _SOCK_TYPE_MASK = 1, 0xF
_IPPROTO_TCP = 6
_MSG_FASTOPEN = 0x20000000
# mnt, cgroup, uts, ipc, user, pid, net; `unshare` also knows time, by a bit that is a signal's in `clone`.
_NAMESPACES, _NAMESPACE_TIME = 0x7E020000, 0x80
_F_SETLEASE, _F_NOTIFY = 1024, 1026
_RENAME_WHITEOUT = 4
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_O_CREAT, _O_TMPFILE = 0o100, 0o20000000
_SET_ID = 0o6000
_KIND_MASK, _MADE_BY_NODE = 0o170000, (0, 0o010000, 0o100000)
_ANY_PERSONALITY = 0xFFFFFFFF

# Requests to file systems (types f, X, v; btrfs's, f2fs's, bcachefs's, cifs's, ceph's) work on files opened
# for reading: they can set flags, seal a file or make a subvolume where nothing may be written. Those that
# read or clone remain.
_FS_REQUEST_TYPES = (0x66, 0x58, 0x76, 0x94, 0xF5, 0xBC, 0xCF, 0x97)
_FS_REQUESTS = (
    *(0x80086601, 0x80046601, 0xC020660B, 0x801C581F, 0x80087601),  # flags, extents, attributes, version
    *(0x40049409, 0x4020940D, 0xC0189436),  # clone, clone a range, share equal ranges
)

REFUSED = (
    # other processes
    *("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "process_madvise"),
    *("perf_event_open", "bpf", "userfaultfd"),
    # namespaces, roots, mounts
    *("setns", "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "open_by_handle_at", "fanotify_init"),
    # the machine
    *("kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff", "init_module", "finit_module"),
    *("delete_module", "acct", "quotactl", "quotactl_fd", "syslog", "vhangup", "iopl", "ioperm"),
    *("modify_ldt", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex"),
    *("sethostname", "setdomainname", "nfsservctl", "lookup_dcookie", "uselib", "ustat", "sysfs"),
    # objects shared by name or number among all processes of the account
    *("add_key", "request_key", "keyctl"),
    *("shmget", "shmat", "shmctl", "msgget", "msgsnd", "msgrcv", "msgctl", "semget", "semop", "semctl"),
    *("semtimedop", "mq_open", "mq_unlink"),
    # flags of files, by a new call
    "file_setattr",
)

# Reported as absent, so that programs fall back to calls that are filtered.
ABSENT = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register")

# Landlock has no right for these: the owner of a file may use them wherever the file is.
METADATA = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat"),
    *("utime", "utimes", "futimesat", "utimensat"),
)
# How they are handled: refused if nothing is written, judged by the supervisor, or allowed.
REFUSE, JUDGE, LET = "refuse", "judge", "let"
ATTRIBUTES = (
    *("setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
    *("removexattr", "lremovexattr", "fremovexattr", "removexattrat"),
    # Read by path, they hold words of files that cannot be opened.
    *("getxattr", "lgetxattr", "getxattrat", "listxattr", "llistxattr", "listxattrat"),
)

Instruction = tuple[int, int, int, int]


def static_filter(machine: str) -> list[Instruction]:
    """The filter that is the same for every job."""
    # The commonest first.
    code = _head(machine) + _files(machine)
    for name, body in _judged_calls():
        code += _call(machine, name, body)
    for name in REFUSED:
        code += _call(machine, name, _refuse(errno.EPERM))
    for name in ABSENT:
        code += _call(machine, name, _refuse(errno.ENOSYS))
    for name in ATTRIBUTES:
        # As if the file system had none, which copying programs put up with.
        code += _call(machine, name, _refuse(errno.EOPNOTSUPP))
    return [*code, (_RET, 0, 0, _ALLOW)]


def job_filter(machine: str, *, has_network: bool, metadata: str) -> list[Instruction]:
    """What a profile adds: no sockets without a network, no metadata changes if nothing is written."""
    code = _head(machine)
    if not has_network:
        code += _call(machine, "socket", _refuse(errno.EACCES))
    if metadata != LET:
        answer = (_RET, 0, 0, _ASK) if metadata == JUDGE else (_RET, 0, 0, _ERRNO | errno.EPERM)
        for name in METADATA:
            code += _call(machine, name, [answer])
    if metadata == REFUSE:
        for name in ("inotify_init", "inotify_init1"):
            code += _call(machine, name, _refuse(errno.ENOSYS))
    return [*code, (_RET, 0, 0, _ALLOW)]


def prepare_filter(instructions: list[Instruction]) -> "PreparedFilter":
    """A filter in the form the kernel takes it, made once."""
    program = assemble(instructions)
    buffer = ctypes.create_string_buffer(program, len(program))
    return PreparedFilter(len(instructions), ctypes.cast(buffer, ctypes.c_void_p))


def enter(program: "PreparedFilter") -> None:
    """Put this process and all it will start under a filter, for good."""
    if _prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or _prctl(
        *(_PR_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), ctypes.byref(program), 0, 0)
    ):
        code = ctypes.get_errno()
        raise OSError(code, f"seccomp: {os.strerror(code)}")


def enter_with_listener(program: "PreparedFilter") -> int:
    """The same for a filter with notifications. Returns the listener."""
    listener: int = _syscall(
        *(
            ctypes.c_long(SYSCALL_NUMBERS["seccomp"][os.uname().machine] or 0),
            ctypes.c_uint(_SET_MODE_FILTER),
        ),
        *(ctypes.c_uint(_NEW_LISTENER), ctypes.byref(program)),
    )
    if listener < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"seccomp: {os.strerror(code)}")
    return listener


def assemble(instructions: list[Instruction]) -> bytes:
    """As the kernel reads it: struct sock_filter, eight bytes each."""
    return b"".join(
        code.to_bytes(2, "little") + bytes((if_true, if_false)) + constant.to_bytes(4, "little")
        for code, if_true, if_false, constant in instructions
    )


class PreparedFilter(ctypes.Structure):
    # The cast pointer keeps its buffer alive: ctypes stores what a field was set from.
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


_libc = ctypes.PyDLL(None, use_errno=True)
_prctl, _syscall = _libc.prctl, _libc.syscall


def _head(machine: str) -> list[Instruction]:
    """Another architecture's numbers mean other calls: such a program is killed, x32's calls are absent."""
    code = [(_LD, 0, 0, _ARCH_AT), (_JEQ, 1, 0, AUDIT_ARCH[machine]), (_RET, 0, 0, _KILL_PROCESS)]
    code.append((_LD, 0, 0, _NUMBER_AT))
    if machine == "x86_64":
        code += [(_JGE, 0, 1, _X32_BIT), (_RET, 0, 0, _ERRNO | errno.ENOSYS)]
    return code


def _call(machine: str, name: str, body: list[Instruction]) -> list[Instruction]:
    """A call and its judgement, which always ends in a return, so that the number stays loaded."""
    number = SYSCALL_NUMBERS[name][machine]
    return [] if number is None else [(_JEQ, 0, len(body), number), *body]


def _refuse(code: int) -> list[Instruction]:
    return [(_RET, 0, 0, _ERRNO | code)]


def _argument(index: int) -> Instruction:
    """The low half: the kernel reads no more of these arguments either."""
    return (_LD, 0, 0, _ARGUMENTS_AT + 8 * index)


def _either(code: int) -> list[Instruction]:
    """The end of a judgement: falling in refuses, jumping over one allows."""
    return [(_RET, 0, 0, _ERRNO | code), (_RET, 0, 0, _ALLOW)]


def _only(index: int, values: tuple[int, ...], code: int) -> list[Instruction]:
    """Allowed with these values of an argument alone."""
    tests = [(_JEQ, len(values) - at, 0, value) for at, value in enumerate(values)]
    return [_argument(index), *tests, *_either(code)]


def _unless(index: int, values: tuple[int, ...], code: int) -> list[Instruction]:
    """Refused with these values of an argument."""
    count = len(values)
    tests = [(_JEQ, count - 1 - at, 1 if at == count - 1 else 0, value) for at, value in enumerate(values)]
    return [_argument(index), *tests, *_either(code)]


def _without(index: int, bits: int, code: int) -> list[Instruction]:
    """Refused with any of these bits in an argument."""
    return [_argument(index), (_JSET, 0, 1, bits), *_either(code)]


def _only_own(kinds: tuple[int, ...]) -> list[Instruction]:
    """setpriority and its like: of these kinds, and of oneself."""
    tests = [(_JEQ, len(kinds) - at, 0, kind) for at, kind in enumerate(kinds)]
    return [_argument(0), *tests, *_refuse(errno.EPERM), *_only(1, (0,), errno.EPERM)]


def _judged_calls() -> list[tuple[str, list[Instruction]]]:
    return [
        ("ioctl", _ioctl()),
        ("fcntl", _unless(1, (_F_SETLEASE, _F_NOTIFY), errno.EPERM)),
        ("clone", _without(0, _NAMESPACES, errno.EPERM)),
        ("unshare", _without(0, _NAMESPACES | _NAMESPACE_TIME, errno.EPERM)),
        ("socket", _socket()),
        ("socketpair", _socketpair()),
        # It would autobind: a port that Landlock was never asked about.
        ("listen", _refuse(errno.EACCES)),
        # No port may be bound, and an abstract name would be taken from the whole machine.
        ("bind", _refuse(errno.EACCES)),
        # It would leave a device in the old place.
        ("renameat2", _without(4, _RENAME_WHITEOUT, errno.EPERM)),
        # Data in the first packet connects without asking Landlock.
        ("sendto", _without(3, _MSG_FASTOPEN, errno.EACCES)),
        ("sendmsg", _without(2, _MSG_FASTOPEN, errno.EACCES)),
        ("sendmmsg", _without(3, _MSG_FASTOPEN, errno.EACCES)),
        # The server is of the same account: its limits and priorities are out of bounds.
        *((name, _only(0, (0,), errno.EPERM)) for name in _OF_ONESELF),
        ("setpriority", _only_own((0, 1))),
        ("ioprio_set", _only_own((1, 2))),
        ("personality", _only(0, (0, _ANY_PERSONALITY), errno.EPERM)),
    ]


_OF_ONESELF = (
    *("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"),
    *("migrate_pages", "move_pages"),
)


def _socket() -> list[Instruction]:
    """TCP over IPv4 or IPv6 and nothing else: Landlock judges where it connects to.

    Unix sockets reach services by path, which Landlock does not judge; datagrams and MPTCP it does not see.
    """
    refuse = _refuse(errno.EACCES)
    return [
        *(_argument(0), (_JEQ, 2, 0, _AF_INET), (_JEQ, 1, 0, _AF_INET6), *refuse),
        *(_argument(1), (_AND, 0, 0, _SOCK_TYPE_MASK), (_JEQ, 1, 0, _SOCK_STREAM), *refuse),
        *_only(2, (0, _IPPROTO_TCP), errno.EACCES),
    ]


def _socketpair() -> list[Instruction]:
    """Connected streams only: one end of a datagram pair could be connected to another process's path."""
    refuse = _refuse(errno.EACCES)
    return [
        *(_argument(0), (_JEQ, 1, 0, _AF_UNIX), *refuse),
        *(_argument(1), (_AND, 0, 0, _SOCK_TYPE_MASK), (_JEQ, 1, 0, _SOCK_STREAM), *refuse),
        (_RET, 0, 0, _ALLOW),
    ]


def _ioctl() -> list[Instruction]:
    refuse, allow = (_RET, 0, 0, _ERRNO | errno.EPERM), (_RET, 0, 0, _ALLOW)
    typed_keys = [(_JEQ, 0, 1, request) for request in (_TIOCSTI, _TIOCLINUX)]
    code = [_argument(1), *(step for test in typed_keys for step in (test, refuse))]
    code += [step for request in _FS_REQUESTS for step in ((_JEQ, 0, 1, request), allow)]
    code.append((_AND, 0, 0, 0xFF00))
    code += [step for kind in _FS_REQUEST_TYPES for step in ((_JEQ, 0, 1, kind << 8), refuse)]
    return [*code, allow]


def _files(machine: str) -> list[Instruction]:
    """Refuse creating set-id files: other accounts of the machine could run them.

    The flags of `openat2` are behind a pointer, so it is reported as absent.
    """
    code = []
    for name, index in (("openat", 2), ("open", 1)):
        body = [_argument(index), (_JSET, 0, 3, _O_CREAT | _O_TMPFILE)]
        body += [_argument(index + 1), (_JSET, 0, 1, _SET_ID), *_refuse(errno.EPERM)]
        code += _call(machine, name, [*body, (_RET, 0, 0, _ALLOW)])
    code += _call(machine, "creat", _without(1, _SET_ID, errno.EPERM))
    for name, index in (("mknod", 1), ("mknodat", 2)):
        # Files and pipes. A device that hides a file needs no capability, and nothing listens on a socket.
        body = [_argument(index), (_JSET, 0, 1, _SET_ID), *_refuse(errno.EPERM)]
        body += [_argument(index), (_AND, 0, 0, _KIND_MASK)]
        body += [(_JEQ, 3 - at, 0, kind) for at, kind in enumerate(_MADE_BY_NODE)]
        code += _call(machine, name, [*body, *_either(errno.EPERM)])
    return code + _call(machine, "openat2", _refuse(errno.ENOSYS))
