"""Landlock by its system calls: which version the kernel has, rulesets, and entering one for good.

Below it is the kernel, above it `launcher.py` and `supervisor.py`. It imports nothing of Interlock and
little of Python, because it is loaded into the small process that every sandboxed child is forked from.

What an old kernel does not know is not stopped. Before `CONFINING_ABI` a job could signal the server, so
nothing is confined there; rules for ports alone, for which bubblewrap has no wall, need `NETWORK_ABI`.
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

_EVERY_RIGHT = (1 << 16) - 1
READING = EXECUTE | READ_FILE | READ_DIR
# Devices and sockets cannot be made: the first would need a capability, the second could be connected to.
WRITING = READING | WRITE_FILE | TRUNCATE | REFER | REMOVE_DIR | REMOVE_FILE
WRITING |= MAKE_DIR | MAKE_REG | MAKE_FIFO | MAKE_SYM
# A harmless device: what it answers to an ioctl is its own business.
DEVICE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV
# Rights that a rule on a non-directory may name; the kernel refuses the others.
_OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

NETWORK_ABI, CONFINING_ABI = 4, 6


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


def new_ruleset() -> int:
    """A descriptor of a ruleset that denies everything."""
    return _ruleset(_EVERY_RIGHT, BIND_TCP | CONNECT_TCP, SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL)


def port_ruleset() -> int:
    """A ruleset that denies ports, and other processes if the kernel has scopes."""
    has_scopes = abi_version() >= CONFINING_ABI
    # Every ruleset forbids moving files between directories, unless it allows REFER.
    ruleset = _ruleset(
        REFER, BIND_TCP | CONNECT_TCP, SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL if has_scopes else 0
    )
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    allow_path(ruleset, root, REFER)
    os.close(root)
    return ruleset


def scope_self() -> None:
    """Restrict this process to signal only its descendants, even if a PID was reused."""
    ruleset = _ruleset(0, 0, SCOPE_SIGNAL)
    restrict_self(ruleset)
    os.close(ruleset)


def _ruleset(files: int, ports: int, scopes: int) -> int:
    """An older kernel accepts the unknown last field while it is zero."""
    attr = _RulesetAttr(files, ports, scopes)
    return _call(
        _CREATE_RULESET, ctypes.byref(attr), ctypes.c_size_t(ctypes.sizeof(attr)), ctypes.c_uint32(0)
    )


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


def masked(path: int, rights: int) -> int:
    """The rights that a rule on this descriptor may name."""
    return rights if stat.S_ISDIR(os.fstat(path).st_mode) else rights & _OF_A_FILE


def restrict_self(ruleset: int) -> None:
    """Enter it, for good. Each call makes a new domain: siblings cannot signal or trace each other."""
    _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
