"""The launcher: the small confined process that forks all sandboxed children.

The server starts it early (`main`, in an isolated interpreter) and talks to it over one socket. What is the
same for every job it does once, to itself, and forks inherit it: no capabilities, no new privileges, not
traceable, static limits, the static filter. For each channel that the server sends it forks a supervisor
(`supervisor.py`), which runs jobs. If a supervisor dies, its orphans are reparented here and killed. If the
server dies, everything is killed.

As root it stays root without capabilities: directories that belong to root stay writable, and everything
that needs a capability is refused. Another account would prevent chmod and utime on files outside, but
could not write where a job must, and git refuses directories of other accounts.

It has one thread and imports nothing of Interlock but its own few modules, without dependencies.
"""

import _socket
import ctypes
import gc
import marshal
import os
import resource
import select

from interlock.sandbox.child import landlock, pids_cgroup, process_tree, seccomp
from interlock.sandbox.child.job_message import receive, send_report
from interlock.sandbox.child.job_supervisor import (
    JobSupervisor,
    SupervisorSetup,
    SystemRule,
    become_subreaper,
    fork,
    reset_signals,
    scope_signals,
)
from interlock.sandbox.child.syscall_numbers import AUDIT_ARCH

_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_SECUREBITS = 4, 24, 28
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL = 38, 47, 4
# root has no special rights, setuid restores nothing, capabilities are neither kept nor raised: all locked
_SECUREBITS = 0x1 | 0x2 | 0x4 | 0x8 | 0x20 | 0x40 | 0x80
_CAPABILITY_VERSION_3 = 0x20080522
_MOST_CAPABILITIES = 64
_CONFINED = 3

_libc = ctypes.PyDLL(None, use_errno=True)


class CannotConfine(Exception):
    """This machine cannot confine. The text is for the operator."""


def main(descriptor: int) -> None:
    """Serve until the server has ended. Nothing that was started here survives it."""
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - its only form
    channel = _socket.socket(fileno=descriptor)
    message, _ = receive(channel)
    try:
        # From the server, over its own socket.
        system, devices = marshal.loads(message)  # noqa: S302
        shared = _prepare(system, devices)
    except CannotConfine as error:
        send_report(channel, "unfit", str(error))
        return
    except OSError as error:
        send_report(channel, "unfit", f"the launcher could not confine itself: {error}")
        return
    send_report(channel, "ready")
    # No garbage collection, so that forks keep sharing memory; nothing here makes cycles.
    gc.disable()
    gc.freeze()
    LauncherLoop(channel, shared).serve()


class LauncherLoop:
    def __init__(self, channel: _socket.socket, shared: SupervisorSetup) -> None:
        self._channel = channel
        self._shared = shared
        # By the pidfd of the supervisor: its PID, key and group.
        self._supervisors: dict[int, tuple[int, int, pids_cgroup.PidsCgroup | None]] = {}
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)
        # The channel alone would not show it, if a fork of the server still held it.
        self._server = os.pidfd_open(os.getppid())
        self._poll.register(self._server, select.POLLIN)

    def serve(self) -> None:
        """Serve until the server has ended; then kill all descendants first."""
        try:
            while self._serve_some():
                pass
        finally:
            process_tree.kill_descendants(set(), {}, reaches_only_below=self._shared.reaches_only_below)
            pids_cgroup.remove_own_groups(self._shared.cgroups)

    def _serve_some(self) -> bool:
        for descriptor, _events in self._poll.poll():
            if descriptor == self._server:
                return False
            if descriptor != self._channel.fileno():
                self._bury(descriptor)
                continue
            message, descriptors = receive(self._channel)
            if not message:
                return False
            self._spawn_supervisor(marshal.loads(message), descriptors[0])  # noqa: S302 - from the server
        return True

    def _spawn_supervisor(self, key: int, channel: int) -> None:
        """Fork a supervisor for a channel. If that fails, the closed channel tells the server."""
        group = pids_cgroup.create_group(self._shared.cgroups)
        try:
            pid = fork()
        except OSError:
            os.close(channel)
            if group is not None:
                group.remove()
            send_report(self._channel, "gone", key)
            return
        if pid == 0:
            self._work(channel, group)
        os.close(channel)
        end = os.pidfd_open(pid)
        self._supervisors[end] = (pid, key, group)
        self._poll.register(end, select.POLLIN)

    def _work(self, channel: int, group: pids_cgroup.PidsCgroup | None) -> None:
        """The forked side: never returns."""
        try:
            self._channel.close()
            for end in self._supervisors:
                os.close(end)
            JobSupervisor(_socket.socket(fileno=channel), self._shared, group).serve()
        finally:
            os._exit(0)

    def _bury(self, end: int) -> None:
        """A supervisor has ended. If it was killed, its job's processes are now our children."""
        self._poll.unregister(end)
        os.close(end)
        _pid, key, group = self._supervisors.pop(end)
        process_tree.kill_descendants(
            {pid for pid, _key, _group in self._supervisors.values()},
            {},
            reaches_only_below=self._shared.reaches_only_below,
        )
        if group is not None:
            group.remove()
        send_report(self._channel, "gone", key)


# -- preparation --


def _prepare(system: list[bytes], devices: list[bytes]) -> SupervisorSetup:
    abi = landlock.abi_version()
    machine = os.uname().machine
    if not abi:
        raise CannotConfine(
            "this kernel has no Landlock, or Landlock is disabled or forbidden in this container"
        )
    if abi < landlock.CONFINING_ABI:
        raise CannotConfine(
            f"this kernel's Landlock has version {abi}; before version {landlock.CONFINING_ABI} "
            "(Linux 6.12), a command could signal the server"
        )
    if machine not in AUDIT_ARCH:
        raise CannotConfine(f"there is no system call filter for {machine}")
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):  # noqa: PTH110 - pathlib is large
        raise CannotConfine(
            "the children of a process cannot be listed: /proc is missing, or CONFIG_PROC_CHILDREN"
        )
    rules = _rules(system, landlock.READING) + _rules(devices, landlock.DEVICE)
    filters = {
        (has_network, metadata): seccomp.prepare_filter(
            seccomp.job_filter(machine, has_network=has_network, metadata=metadata)
        )
        for has_network in (False, True)
        for metadata in (seccomp.REFUSE, seccomp.JUDGE, seccomp.LET)
    }
    reset_signals()
    become_subreaper()
    _give_up_privileges()
    _lower_limits()
    seccomp.enter(seccomp.prepare_filter(seccomp.static_filter(machine)))
    _make_sure()
    reaches_only_below = scope_signals()
    can_ask = _can_ask(filters[False, seccomp.JUDGE])
    return SupervisorSetup(rules, filters, judges_metadata=can_ask, reaches_only_below=reaches_only_below)


def _rules(paths: list[bytes], rights: int) -> list[SystemRule]:
    found = []
    for path in paths:
        try:
            found.append(SystemRule(path, rights))
        except OSError:
            # Less can be read, which is no danger.
            continue
    return found


def _give_up_privileges() -> None:
    """Drop privileges, also as root, where exec would otherwise restore them."""
    _libc.prctl(_PR_SET_SECUREBITS, _SECUREBITS, 0, 0, 0)
    for capability in range(_MOST_CAPABILITIES):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _libc.prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    if _libc.capset(header, (ctypes.c_uint32 * 6)()):
        raise CannotConfine("the launcher could not drop its capabilities")
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise CannotConfine("the launcher could not set no_new_privs")
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _lower_limits() -> None:
    for kind in (
        resource.RLIMIT_CORE,
        resource.RLIMIT_MSGQUEUE,
        resource.RLIMIT_RTPRIO,
        resource.RLIMIT_NICE,
    ):
        resource.setrlimit(kind, (0, 0))


def _make_sure() -> None:
    """Detect a filter that a container emulates, or a kernel that accepts without enforcing."""
    pid = fork()
    if pid == 0:
        outcome = 0
        try:
            landlock.restrict_self(landlock.new_ruleset())
            outcome = 2
            os.close(os.open("/", os.O_RDONLY))
        except PermissionError:
            outcome += 1
        finally:
            os._exit(outcome)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != _CONFINED:
        raise CannotConfine("Landlock is available but does not confine")


def _can_ask(program: seccomp.PreparedFilter) -> bool:
    """Whether a filter may use notifications: not inside another sandbox that does so itself."""
    pid = fork()
    if pid == 0:
        outcome = 1
        try:
            seccomp.enter_with_listener(program)
            outcome = 0
        finally:
            os._exit(outcome)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
