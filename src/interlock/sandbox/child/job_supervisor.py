"""Runs one job after another, each in its own sandbox, and ends it with all it started.

The launcher forks it; it never executes anything itself, so it is as small as the launcher and as confined.
The server talks to it directly, over its own socket. As a subreaper, it is the parent of everything a job
leaves behind, and a job has ended only when no child is left: so the next job of the same supervisor starts
clean.

It imports nothing of Interlock but what the launcher loads.
"""

import _socket
import ctypes
import errno
import os
import select
import signal
import stat

from interlock.sandbox.child import landlock, pids_cgroup, seccomp
from interlock.sandbox.child.job_exec import Confinement, ExecFailure, JobFileDescriptors, exec_confined
from interlock.sandbox.child.job_message import STOP, JobMessage, decode, receive, send_exit, send_report
from interlock.sandbox.child.job_monitor import JobMonitor

_PR_SET_CHILD_SUBREAPER = 36
_FOLDER_AND_OUTPUTS = 3

# Without the interpreter's preparations for threads, of which there are none here; since Python 3.12
# `os.fork` reads a file to make sure of that, every time.
_libc = ctypes.PyDLL(None, use_errno=True)


class SystemRule:
    """Something that every job may use, held open: files of /proc keep their identity only that way."""

    def __init__(self, path: bytes, rights: int) -> None:
        self._path = path
        self._wanted = rights
        self._open()

    def renew(self) -> None:
        """Settings are replaced while a server runs (ldconfig, useradd), and a rule holds for a file."""
        if self._identity is None:
            return
        try:
            found = os.stat(self._path)  # noqa: PTH116 - pathlib is large
            if (found.st_dev, found.st_ino) != self._identity:
                old = self.descriptor
                self._open()
                os.close(old)
        except OSError:
            # Removed: keep the old one, which no path names any more.
            return

    def _open(self) -> None:
        self.descriptor = os.open(self._path, os.O_PATH | os.O_CLOEXEC)
        self.rights = landlock.masked(self.descriptor, self._wanted)
        found = os.fstat(self.descriptor)
        is_setting = stat.S_ISREG(found.st_mode) and not self._path.startswith((b"/proc/", b"/sys/"))
        self._identity = (found.st_dev, found.st_ino) if is_setting else None


class SupervisorSetup:
    """What the launcher prepared for all its supervisors: system rules, filters, descriptors.

    `reaches_only_below`: the launcher can signal only its descendants.
    """

    def __init__(
        self,
        rules: list["SystemRule"],
        filters: dict[tuple[bool, str], seccomp.PreparedFilter],
        *,
        judges_metadata: bool,
        reaches_only_below: bool,
    ) -> None:
        self.rules = rules
        self.filters = filters
        self.judges_metadata = judges_metadata
        self.reaches_only_below = reaches_only_below
        self.cgroups = pids_cgroup.find_writable_cgroup()
        self.null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        # Readable when the launcher has died.
        self.launcher = os.pidfd_open(os.getpid())


class JobNotStarted(Exception):
    def __init__(self, code: int, step: str) -> None:
        super().__init__(step)
        self.code = code
        self.step = step


def fork() -> int:
    pid: int = _libc.fork()
    if pid < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return pid


def reset_signals() -> None:
    """Reset signals: a job would inherit those that the server ignores. Python itself ignores two."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def scope_signals() -> bool:
    """Restrict this process to signal only its descendants; returns whether that is enforced.

    It is tested on the parent, which has the same account and could be signalled otherwise.
    """
    landlock.scope_self()
    try:
        os.kill(os.getppid(), 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return False


def become_subreaper() -> None:
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "subreaper")


class JobSupervisor:
    """`group` bounds the processes of its jobs, where the system allows one."""

    def __init__(
        self, channel: _socket.socket, shared: SupervisorSetup, group: pids_cgroup.PidsCgroup | None
    ) -> None:
        self._channel = channel
        self._shared = shared
        self._group = group
        self._refusals = None if group is None else group.refusals()
        self._fault = ExecFailure()
        self._pid = os.getpid()
        self._folders: list[bytes] = []
        self._is_over = False
        # From a child between fork and exec: the listener of its filter.
        self._questions, self._asking = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self._questions.setblocking(False)  # noqa: FBT003 - its only form

    def serve(self) -> None:
        """Until the server closes the channel, or the launcher dies."""
        become_subreaper()
        if self._group is not None:
            pids_cgroup.enter(self._group.entrance())
        # From here on it can signal only its jobs.
        self._reaches_only_below = scope_signals()
        idle = select.poll()
        idle.register(self._channel, select.POLLIN)
        idle.register(self._shared.launcher, select.POLLIN)
        while not self._is_over:
            if any(descriptor == self._shared.launcher for descriptor, _ in idle.poll()):
                return
            message, descriptors = receive(self._channel)
            if not message:
                return
            # A stop request may cross the report of an end.
            if message != STOP:
                self._serve_one(message, descriptors)

    def _serve_one(self, message: bytes, descriptors: list[int]) -> None:
        try:
            packed, descriptors = decode(message, descriptors)
            order = JobMessage(packed)
            main = self._start(order, descriptors)
        except JobNotStarted as error:
            send_report(self._channel, "not_started", None, None, error.code, error.step)
            return
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        watch = JobMonitor(
            *(self._channel, self._shared.launcher, self._questions, order, self._folders),
            reaches_only_below=self._reaches_only_below,
            refusals=self._refusals,
        )
        reason, status = watch.wait_for_exit(main)
        self._is_over = watch.is_the_last
        self._report(reason, status)

    def _report(self, reason: str, status: int) -> None:
        if self._fault.code:
            send_report(self._channel, "not_started", None, None, self._fault.code, self._fault.step)
        else:
            send_exit(self._channel, reason, status)

    # -- starting --

    def _start(self, order: JobMessage, descriptors: list[int]) -> int:
        if len(descriptors) != _FOLDER_AND_OUTPUTS + order.has_stdin:
            raise JobNotStarted(errno.EMFILE, "receiving its descriptors")
        self._fault.clear()
        if self._group is not None:
            self._group.bound(order.max_tasks)
        ruleset = self._ruleset(order)
        metadata = seccomp.REFUSE
        if order.writable:
            metadata = seccomp.JUDGE if self._shared.judges_metadata else seccomp.LET
        program = self._shared.filters[bool(order.ports), metadata]
        asking = self._asking if metadata == seccomp.JUDGE else None
        try:
            pid = fork()
            if pid == 0:
                folder, out, err = descriptors[:_FOLDER_AND_OUTPUTS]
                entry = descriptors[_FOLDER_AND_OUTPUTS] if order.has_stdin else self._shared.null
                confinement = Confinement(ruleset, program, asking)
                exec_confined(
                    order,
                    JobFileDescriptors(folder, (entry, out, err)),
                    confinement,
                    self._fault,
                    self._pid,
                )
        except OSError as error:
            raise JobNotStarted(error.errno or errno.EAGAIN, "starting a process") from None
        finally:
            os.close(ruleset)
        return pid

    def _ruleset(self, order: JobMessage) -> int:
        """A new ruleset for each job: a rule applies to the file that a path names now, not to the path."""
        ruleset = landlock.new_ruleset()
        self._folders = []
        try:
            for rule in self._shared.rules:
                rule.renew()
                landlock.allow_path(ruleset, rule.descriptor, rule.rights)
            for path in order.readable:
                _allow(ruleset, path, landlock.READING)
            for path in order.optional:
                _allow(ruleset, path, landlock.READING, may_miss=True)
            for path in order.writable:
                self._folders.append(_allow(ruleset, path, landlock.WRITING))
            for port in order.ports:
                landlock.allow_port(ruleset, port)
        except OSError as error:
            os.close(ruleset)
            name = os.fsdecode(error.filename or "its rules")
            since = ", which is a symlink now" if error.errno == errno.ELOOP else ""
            raise JobNotStarted(error.errno or errno.EIO, f"opening {name}{since}") from None
        return ruleset


def _allow(ruleset: int, path: bytes, rights: int, *, may_miss: bool = False) -> bytes:
    """Allow a path, which had no symlinks when it was judged, and must have none now.

    A job can move a directory inside an opened one, and leave a symlink to anywhere in its place.
    """
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        if may_miss:
            return b""
        raise
    try:
        if os.readlink(b"/proc/self/fd/%d" % descriptor) != path:  # noqa: PTH115 - pathlib is large
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        landlock.allow_path(ruleset, descriptor, landlock.masked(descriptor, rights))
        return path
    finally:
        os.close(descriptor)
