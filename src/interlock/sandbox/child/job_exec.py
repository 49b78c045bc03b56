"""The last steps of a child between fork and exec, after which it is the job.

The error of a failed step is left in memory shared with the supervisor, which reads it when the child has
ended. It imports nothing of Interlock but what the launcher loads.
"""

import _socket
import ctypes
import errno
import mmap
import os
import resource
import sys

from interlock.sandbox.child import landlock, seccomp
from interlock.sandbox.child.job_message import JobMessage

START_STEPS = (
    *("", "starting a session", "connecting its output", "changing to its folder", "entering the sandbox"),
    *("entering the filter", "setting its limits", "executing the program"),
)

_OOM_SCORE = b"800"
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _SIGKILL = 1, 4, 9
_CLOSE_RANGE = 436

_libc = ctypes.PyDLL(None, use_errno=True)


class ExecFailure:
    """Where a step leaves its number and the errno."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    def clear(self) -> None:
        self._page[:2] = b"\0\0"

    def set(self, step: int, code: int) -> None:
        self._page[:2] = bytes((step, code % 256))

    @property
    def step(self) -> str:
        return START_STEPS[self._page[0]]

    @property
    def code(self) -> int:
        return self._page[1]


class JobFileDescriptors:
    """Open descriptors of a job.

    Its working directory, its streams, and the machine's own /proc if the one it sees is read-only.
    """

    def __init__(self, folder: int, streams: tuple[int, int, int], processes: int | None = None) -> None:
        self.folder = folder
        self.streams = streams
        self.processes = processes


class Confinement:
    """The ruleset and filter that a child enters, if any.

    Over `asking` it passes on the listener of a filter that has calls judged; if that filter cannot be
    entered, it enters the `other` one.
    """

    def __init__(
        self,
        ruleset: int | None,
        program: seccomp.PreparedFilter | None,
        asking: _socket.socket | None,
        other: seccomp.PreparedFilter | None = None,
    ) -> None:
        self.ruleset = ruleset
        self._program = program
        self._asking = asking
        self._other = other

    def enter_filter(self) -> None:
        if self._program is None:
            return
        if self._asking is None:
            seccomp.enter(self._program)
            return
        try:
            listener = seccomp.enter_with_listener(self._program)
        except OSError:
            if self._other is None:
                raise
            seccomp.enter(self._other)
            return
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, listener.to_bytes(4, sys.byteorder))
        self._asking.sendmsg([b"?"], [rights])


def exec_confined(
    order: JobMessage, start: JobFileDescriptors, confinement: Confinement, fault: ExecFailure, parent: int
) -> None:
    """Never returns: executes the program, or records the error and exits."""
    step = 1
    try:
        _begin_session(parent)
        step = 2
        for number, descriptor in enumerate(start.streams):
            os.dup2(descriptor, number)
        step = 3
        os.fchdir(start.folder)
        _be_killed_first(start.processes)
        step = 4
        if confinement.ruleset is not None:
            landlock.restrict_self(confinement.ruleset)
        step = 5
        confinement.enter_filter()
        step = 6
        # Last: entering the filter takes a descriptor, and few may be allowed.
        _set_limits(order.limits)
        step = 7
        # All close on exec anyway; this does not rely on it.
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
    # If its supervisor is killed, this process dies at once; its children fall to the launcher, or end with
    # the namespace.
    _libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(127)


def _set_limits(limits: list[tuple[int, int]]) -> None:
    for kind, wanted in limits:
        _soft, hard = resource.getrlimit(kind)
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        # CPU time is announced by a signal that can be caught, and a second later by one that cannot.
        above = value + 1 if kind == resource.RLIMIT_CPU and hard == resource.RLIM_INFINITY else value
        resource.setrlimit(kind, (value, above))


def _be_killed_first(processes: int | None) -> None:
    """If memory runs out, the kernel should kill this process rather than the server.

    Nothing of the job has run yet, and the descriptors are closed before it does.
    """
    # Ordinary accounts own their files in /proc only while traceable. Exec sets this anyway.
    _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    path = "/proc/self/oom_score_adj" if processes is None else "self/oom_score_adj"
    try:
        score = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=processes)
    except OSError:
        return
    os.write(score, _OOM_SCORE)
