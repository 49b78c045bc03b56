"""Landlock by its system calls: which version the kernel has, rulesets, and entering one for good.

Below it is the kernel, above it `launcher.py` and `supervisor.py`. It imports nothing of Interlock and
little of Python, because it is loaded into the small process that every sandboxed child is forked from.

Rights are masked by the kernel's version: what an old kernel does not know cannot be handled, and what is
not handled is not stopped. `OPEN_BEFORE` says what that means.
"""

import ctypes
import os
import stat

# The numbers are the same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH, _NET_PORT = 1, 2

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
REMOVE_DIR = 1 << 4
REMOVE_FILE = 1 << 5
MAKE_CHAR = 1 << 6
MAKE_DIR = 1 << 7
MAKE_REG = 1 << 8
MAKE_SOCK = 1 << 9
MAKE_FIFO = 1 << 10
MAKE_BLOCK = 1 << 11
MAKE_SYM = 1 << 12
REFER = 1 << 13
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15

BIND_TCP, CONNECT_TCP = 1, 2
SCOPE_ABSTRACT_UNIX, SCOPE_SIGNAL = 1, 2

READING = EXECUTE | READ_FILE | READ_DIR
# Devices and sockets cannot be made: the first would need a capability, the second could be connected to.
WRITING = READING | WRITE_FILE | TRUNCATE | REFER | REMOVE_DIR | REMOVE_FILE
WRITING |= MAKE_DIR | MAKE_REG | MAKE_FIFO | MAKE_SYM
# A harmless device: what it answers to an ioctl is its own business.
DEVICE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV
# What a rule on something that is no folder may name; the kernel refuses the rest.
_OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

NETWORK_ABI, SCOPE_ABI, TRUNCATE_ABI = 4, 6, 3

OPEN_BEFORE = {
    2: "files cannot be moved between folders at all",
    3: "truncate() of files outside is stopped by seccomp alone",
    4: "no port can be opened: a profile with network has none",
    5: "ioctl on devices is bounded only by which devices can be opened",
    6: "the job can signal processes of its own account, the server among them",
}


class _RulesetAttr(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathAttr(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _PortAttr(ctypes.Structure):
    _fields_ = (("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64))


# PyDLL keeps the interpreter's lock: these calls are short, and the launcher has only one thread.
_syscall = ctypes.PyDLL(None, use_errno=True).syscall


def _call(number: int, *arguments: object) -> int:
    result: int = _syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"landlock: {os.strerror(code)}")
    return result


def abi_version() -> int:
    """The version of this kernel, 0 where it has no Landlock, or it is off, or a container forbids it."""
    try:
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))
    except OSError:
        return 0


def file_rights(abi: int) -> int:
    """Every right to files that this version can take away."""
    known = {1: 13, 2: 14, 3: 15, 4: 15}.get(abi, 16)
    return (1 << known) - 1


def new_ruleset(abi: int) -> int:
    """A descriptor of a ruleset that takes away everything this version can take away."""
    attr = _RulesetAttr(file_rights(abi), 0, 0)
    size = 8
    if abi >= NETWORK_ABI:
        attr.net, size = BIND_TCP | CONNECT_TCP, 16
    if abi >= SCOPE_ABI:
        attr.scoped, size = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL, 24
    return _call(_CREATE_RULESET, ctypes.byref(attr), ctypes.c_size_t(size), ctypes.c_uint32(0))


def scope_self() -> None:
    """Bind this process to signal nothing but its own descendants, whatever number it may mistake."""
    attr = _RulesetAttr(0, 0, SCOPE_SIGNAL)
    ruleset = _call(_CREATE_RULESET, ctypes.byref(attr), ctypes.c_size_t(24), ctypes.c_uint32(0))
    restrict_self(ruleset)
    os.close(ruleset)


def allow_path(ruleset: int, path: int, rights: int) -> None:
    """Give rights (as `masked` made them) back on what an open descriptor names, and below it."""
    attr = _PathAttr(rights, path)
    _call(
        *(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH)),
        *(ctypes.byref(attr), ctypes.c_uint32(0)),
    )


def allow_port(ruleset: int, port: int) -> None:
    """Let TCP connections out to a port, wherever it is: Landlock knows ports, not addresses."""
    attr = _PortAttr(CONNECT_TCP, port)
    _call(
        *(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_NET_PORT)),
        *(ctypes.byref(attr), ctypes.c_uint32(0)),
    )


def masked(abi: int, path: int, rights: int) -> int:
    """The rights that a rule on this descriptor may name."""
    if not stat.S_ISDIR(os.fstat(path).st_mode):
        rights &= _OF_A_FILE
    return rights & file_rights(abi)


def restrict_self(ruleset: int) -> None:
    """Enter it, for good. Each call makes a new domain: siblings cannot signal or trace each other."""
    _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
