"""The last steps of a child between fork and execution, after which it is the job.

What a step failed with is left in memory shared with the supervisor, which reads it when the child is
gone. It imports nothing of Interlock but what the launcher loads.
"""

import _socket
import ctypes
import errno
import mmap
import os
import resource
import sys

from interlock.sandbox import landlock, seccomp
from interlock.sandbox.order import Order

STEPS = (
    *("", "beginning a session", "connecting its output", "entering its folder", "entering the sandbox"),
    *("entering the filter", "setting its limits", "executing the program"),
)

_OOM_SCORE = b"800"
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _SIGKILL = 1, 4, 9
_CLOSE_RANGE = 436

_libc = ctypes.PyDLL(None, use_errno=True)


class Fault:
    """Where a step leaves its number and the system's reason."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    def clear(self) -> None:
        self._page[:2] = b"\0\0"

    def set(self, step: int, code: int) -> None:
        self._page[:2] = bytes((step, code % 256))

    @property
    def step(self) -> str:
        return STEPS[self._page[0]]

    @property
    def code(self) -> int:
        return self._page[1]


class Confinement:
    """The open descriptors and the filter that a child enters."""

    def __init__(
        self, ruleset: int, program: seccomp.Prepared, asking: _socket.socket | None, null: int
    ) -> None:
        self.ruleset = ruleset
        self.program = program
        self.asking = asking
        self.null = null

    def enter_filter(self) -> None:
        if self.asking is None:
            seccomp.enter(self.program)
            return
        listener = seccomp.enter_asking(self.program)
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, listener.to_bytes(4, sys.byteorder))
        self.asking.sendmsg([b"?"], [rights])


def become(
    order: Order, descriptors: list[int], confinement: Confinement, fault: Fault, parent: int
) -> None:
    """Never returns: executes the program, or leaves why not and exits."""
    folder, *outputs = descriptors[:3]
    entry = descriptors[3] if order.has_stdin else confinement.null
    step = 1
    try:
        _begin_session(parent)
        step = 2
        for number, descriptor in enumerate((entry, *outputs)):
            os.dup2(descriptor, number)
        step = 3
        os.fchdir(folder)
        _be_killed_first()
        step = 4
        landlock.restrict_self(confinement.ruleset)
        step = 5
        confinement.enter_filter()
        step = 6
        # Last, for entering the filter takes a descriptor, and few may be allowed.
        _set_limits(order.limits)
        step = 7
        # All of them close on execution anyway; this does not rely on it.
        _libc.syscall(
            ctypes.c_long(_CLOSE_RANGE), ctypes.c_uint(3), ctypes.c_uint(0xFFFFFFFF), ctypes.c_uint(0)
        )
        os.execve(order.argv[0], order.argv, order.environment)  # noqa: S606 - a sandbox's whole purpose
    except OSError as error:
        fault.set(step, error.errno or errno.EIO)
    except (ValueError, MemoryError):
        fault.set(step, errno.ENOMEM)
    finally:
        os._exit(127)


def _begin_session(parent: int) -> None:
    os.setsid()
    # Should the supervisor be killed, this one dies at once; what it started falls to the launcher.
    _libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(127)


def _set_limits(limits: list[tuple[int, int]]) -> None:
    for kind, wanted in limits:
        _soft, hard = resource.getrlimit(kind)
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        # Processor time warns by a signal that can be caught, and a second later by one that cannot.
        above = value + 1 if kind == resource.RLIMIT_CPU and hard == resource.RLIM_INFINITY else value
        resource.setrlimit(kind, (value, above))


def _be_killed_first() -> None:
    """Where the machine runs out of memory, rather this one than the server."""
    # Ordinary accounts own their files in /proc only while they can be traced. Execution sets this anyway.
    _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    try:
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return
    os.write(score, _OOM_SCORE)
