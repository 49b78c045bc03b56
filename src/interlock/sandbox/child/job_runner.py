"""Runs one job for a backend that starts a process per job, and ends it with everything it started.

The server starts it in an isolated interpreter: plain (`unconfined_backend.py`), or as the first process of
new namespaces (`bubblewrap_backend.py`), where a job cannot signal it and everything dies with it. It
receives the job over a socket, checks that what was mounted is what was judged, runs and monitors it, and
reports how it ended. If the server dies, everything dies.
"""

import _socket
import ctypes
import errno
import os
import resource

from interlock.sandbox.child import landlock, pids_cgroup, seccomp
from interlock.sandbox.child.job_exec import Confinement, ExecFailure, JobFileDescriptors, exec_confined
from interlock.sandbox.child.job_message import STOP, JobMessage, decode, receive, send_exit, send_report
from interlock.sandbox.child.job_monitor import JobMonitor
from interlock.sandbox.child.job_supervisor import JobNotStarted, become_subreaper, fork, reset_signals

_PR_SET_DUMPABLE = 4
_FIRST_PROCESS = 1
_libc = ctypes.PyDLL(None, use_errno=True)

# (path, device, inode): what a path must be inside, as it was when judged.
FileIdentity = tuple[bytes, int, int]


class SubprocessJobMessage(JobMessage):
    """`folder` is the working directory, unless its descriptor is sent; `metadata` is the filter's part.

    Without `is_confined`, it enters no filter: the backend is the unconfined one.
    """

    is_confined: bool
    folder: FileIdentity | None
    has_group: bool
    mounted: list[FileIdentity]
    metadata: str


def main(descriptor: int) -> None:
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - its only form
    channel = _socket.socket(fileno=descriptor)
    message, descriptors = receive(channel)
    if not message or message == STOP:
        # The server cancelled the job, or has ended.
        return
    packed, descriptors = decode(message, descriptors)
    try:
        _JobRunner(channel, SubprocessJobMessage(packed), descriptors).run()
    except JobNotStarted as error:
        send_report(channel, "not_started", None, None, error.code, error.step)
    except OSError as error:
        send_report(channel, "not_started", None, None, error.errno or errno.EIO, "preparing it")


class _JobRunner:
    def __init__(
        self, channel: _socket.socket, order: SubprocessJobMessage, descriptors: list[int]
    ) -> None:
        self._channel = channel
        self._order = order
        self._outputs, self._processes, self._rest = descriptors[:2], descriptors[2], descriptors[3:]
        self._entry = self._rest.pop(0) if order.has_stdin else None
        # Of its control group: how to enter it, and its count of refused processes.
        self._entrance = self._rest.pop(0) if order.has_group else None
        self._refusals = self._rest.pop(0) if order.has_group else None
        self._fault = ExecFailure()
        self._null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        # From the job before exec: the listener of its filter.
        self._questions, self._asking = _socket.socketpair()
        self._questions.setblocking(False)  # noqa: FBT003 - its only form

    def run(self) -> None:
        order = self._order
        reset_signals()
        if self._entrance is not None:
            pids_cgroup.enter(self._entrance)
        _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if os.getpid() != _FIRST_PROCESS:
            become_subreaper()
        for identity in order.mounted:
            os.close(_make_sure(identity))
        folder = self._folder()
        alive = self._server()
        confinement = self._confinement()
        entry = self._null if self._entry is None else self._entry
        out, err = self._outputs
        start = JobFileDescriptors(folder, (entry, out, err), self._processes)
        parent = os.getpid()
        pid = fork()
        if pid == 0:
            exec_confined(order, start, confinement, self._fault, parent)
        for descriptor in (folder, self._processes, *self._outputs):
            os.close(descriptor)
        if self._entry is not None:
            os.close(self._entry)
        watch = JobMonitor(
            *(self._channel, alive, self._questions, order, order.writable),
            reaches_only_below=parent == _FIRST_PROCESS,
            refusals=self._refusals,
        )
        self._report(*watch.wait_for_exit(pid))

    def _folder(self) -> int:
        """The working directory. Never a descriptor from outside the namespaces: it would lead there."""
        if self._order.folder is None:
            return self._rest[0]
        return _make_sure(self._order.folder, os.O_RDONLY | os.O_DIRECTORY)

    def _server(self) -> int:
        """Readable when the server has died; in new namespaces the kernel ends everything by itself."""
        parent = os.getppid()
        return os.pidfd_open(parent) if parent > 0 else os.pidfd_open(os.getpid())

    def _report(self, reason: str, status: int) -> None:
        if self._fault.code:
            send_report(self._channel, "not_started", None, None, self._fault.code, self._fault.step)
        else:
            send_exit(self._channel, reason, status)

    def _confinement(self) -> Confinement:
        order = self._order
        if not order.is_confined:
            return Confinement(None, None, None)
        ruleset = _ports_only(order) if order.ports else None
        if order.metadata != seccomp.JUDGE:
            return Confinement(ruleset, _job_filter(order, order.metadata), None)
        # If the kernel cannot ask, metadata changes are allowed: mounts limit them as well.
        let = _job_filter(order, seccomp.LET)
        return Confinement(ruleset, _job_filter(order, seccomp.JUDGE), self._asking, let)


def _job_filter(order: SubprocessJobMessage, metadata: str) -> seccomp.PreparedFilter:
    code = seccomp.job_filter(os.uname().machine, has_network=bool(order.ports), metadata=metadata)
    return seccomp.prepare_filter(code)


def _make_sure(identity: FileIdentity, flags: int = os.O_PATH) -> int:
    """Open a mounted path; raise unless it is what was judged."""
    path, device, inode = identity
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC)
    except OSError as error:
        raise JobNotStarted(error.errno or errno.EIO, f"opening {os.fsdecode(path)}") from None
    found = os.fstat(descriptor)
    if (found.st_dev, found.st_ino) != (device, inode):
        raise JobNotStarted(errno.ESTALE, f"opening {os.fsdecode(path)}, which was replaced")
    return descriptor


def _ports_only(order: SubprocessJobMessage) -> int:
    """A ruleset for ports only: mounts confine files, but ports of the machine's network need Landlock."""
    ruleset = landlock.port_ruleset()
    for port in order.ports:
        landlock.allow_port(ruleset, port)
    return ruleset
