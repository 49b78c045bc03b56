"""Runs one job after another, each in a sandbox of its own, and ends it with all it started.

The launcher forks it; it never executes anything itself, so it is as small as the launcher and as confined.
The server talks to it directly, over a socket of its own. Being a subreaper, it is the parent of
everything a job leaves behind, and a job has ended only when there is no child any more: so the next job
of the same supervisor begins with nothing.

It imports nothing of Interlock but what the launcher loads.
"""

import _socket
import ctypes
import errno
import os
import select
import time

from interlock.sandbox import landlock, process_tree, seccomp
from interlock.sandbox.confined import Confinement, Fault, become
from interlock.sandbox.order import STOP, Order, receive, tell, unpack

_LOOK_SECONDS = 0.05
_LINGER_LOOK_SECONDS = 0.005
_PR_SET_CHILD_SUBREAPER = 36
_FOLDER_AND_OUTPUTS = 3

# Without the interpreter's preparations for threads, of which there are none here; since Python 3.12
# `os.fork` reads a file to make sure of that, every time.
_libc = ctypes.PyDLL(None, use_errno=True)


class Shared:
    """What the launcher prepared once, for all its supervisors: system rules, filters, descriptors."""

    def __init__(
        self, abi: int, rules: list[tuple[int, int]], filters: dict[tuple[bool, bool], seccomp.Prepared]
    ) -> None:
        self.abi = abi
        self.rules = rules
        self.filters = filters
        self.null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        # Readable when the launcher has died.
        self.launcher = os.pidfd_open(os.getpid())


class NotStarted(Exception):
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


def become_subreaper() -> None:
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "subreaper")


class Supervisor:
    def __init__(self, channel: _socket.socket, shared: Shared) -> None:
        self._channel = channel
        self._shared = shared
        self._fault = Fault()
        self._pid = os.getpid()
        self._server_is_gone = False

    def serve(self) -> None:
        """Until the server closes the channel, or the launcher dies."""
        become_subreaper()
        if self._shared.abi >= landlock.SCOPE_ABI:
            # From here on it can signal its jobs and nobody else.
            landlock.scope_self()
        idle = select.poll()
        idle.register(self._channel, select.POLLIN)
        idle.register(self._shared.launcher, select.POLLIN)
        while not self._server_is_gone:
            if any(descriptor == self._shared.launcher for descriptor, _ in idle.poll()):
                return
            message, descriptors = receive(self._channel)
            if not message:
                return
            # A stop may cross the report of an end.
            if message != STOP:
                self._serve_one(message, descriptors)

    def _serve_one(self, message: bytes, descriptors: list[int]) -> None:
        try:
            order, descriptors = unpack(message, descriptors)
            main = self._start(order, descriptors)
        except NotStarted as error:
            tell(self._channel, "not_started", None, None, error.code, error.step)
            return
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        reason, status = self._watch(order, main)
        self._report(reason, status)

    def _report(self, reason: str, status: int) -> None:
        if self._fault.code:
            tell(self._channel, "not_started", None, None, self._fault.code, self._fault.step)
            return
        if not reason:
            reason = "signalled" if os.WIFSIGNALED(status) else "exited"
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
        signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        tell(self._channel, reason, code, signal, 0, "")

    # -- starting --

    def _start(self, order: Order, descriptors: list[int]) -> int:
        if len(descriptors) != _FOLDER_AND_OUTPUTS:
            raise NotStarted(errno.EMFILE, "receiving its descriptors")
        self._fault.clear()
        ruleset = self._ruleset(order)
        has_network = bool(order.ports) and self._shared.abi >= landlock.NETWORK_ABI
        program = self._shared.filters[has_network, bool(order.writable)]
        try:
            pid = fork()
            if pid == 0:
                confinement = Confinement(ruleset, program, self._shared.null)
                become(order, descriptors, confinement, self._fault, self._pid)
        except OSError as error:
            raise NotStarted(error.errno or errno.EAGAIN, "starting a process") from None
        finally:
            os.close(ruleset)
        return pid

    def _ruleset(self, order: Order) -> int:
        """Made anew for each job: a rule holds for what a path names now, not for the path."""
        abi = self._shared.abi
        ruleset = landlock.new_ruleset(abi)
        try:
            for descriptor, rights in self._shared.rules:
                landlock.allow_path(ruleset, descriptor, rights)
            for path in order.readable:
                _allow(ruleset, abi, path, landlock.READING)
            for path in order.optional:
                _allow(ruleset, abi, path, landlock.READING, may_miss=True)
            for path in order.writable:
                _allow(ruleset, abi, path, landlock.WRITING)
            if abi >= landlock.NETWORK_ABI:
                for port in order.ports:
                    landlock.allow_port(ruleset, port)
        except OSError as error:
            os.close(ruleset)
            name = os.fsdecode(error.filename or "its rules")
            raise NotStarted(error.errno or errno.EIO, f"opening {name}") from None
        return ruleset

    # -- watching --

    def _watch(self, order: Order, main: int) -> tuple[str, int]:
        """Why it ended, empty if by itself, and the main process's status. Nothing of it is left then."""
        statuses: dict[int, int] = {}
        end = os.pidfd_open(main)
        watched = select.poll()
        for descriptor in (self._channel.fileno(), self._shared.launcher, end):
            watched.register(descriptor, select.POLLIN)
        reason = ""
        linger_until = 0.0
        look_at = time.monotonic() + _LOOK_SECONDS
        try:
            while not reason:
                pause = _LINGER_LOOK_SECONDS if linger_until else look_at - time.monotonic()
                ready = {descriptor for descriptor, _ in watched.poll(max(0.0, pause) * 1000)}
                reason = self._told_to_end(ready)
                if end in ready:
                    watched.unregister(end)
                    linger_until = time.monotonic() + order.linger_seconds
                now = time.monotonic()
                if linger_until and (not process_tree.reap(statuses) or now >= linger_until):
                    break
                if not reason and now >= look_at:
                    reason = _over_limit(order)
                    look_at = time.monotonic() + _LOOK_SECONDS
        finally:
            os.close(end)
        process_tree.kill_all(set(), statuses)
        return reason, statuses[main]

    def _told_to_end(self, ready: set[int]) -> str:
        if self._channel.fileno() in ready:
            message, _descriptors = receive(self._channel)
            self._server_is_gone = not message
            return "stopped"
        if self._shared.launcher in ready:
            self._server_is_gone = True
            return "launcher_lost"
        return ""


def _allow(ruleset: int, abi: int, path: bytes, rights: int, *, may_miss: bool = False) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        if may_miss:
            return
        raise
    try:
        landlock.allow_path(ruleset, descriptor, landlock.masked(abi, descriptor, rights))
    finally:
        os.close(descriptor)


def _over_limit(order: Order) -> str:
    tasks, used_bytes = process_tree.count_tasks(order.max_tasks, order.max_memory_bytes)
    if order.max_tasks is not None and tasks > order.max_tasks:
        return "too_many_processes"
    if order.max_memory_bytes is not None and used_bytes > order.max_memory_bytes:
        return "too_much_memory"
    return ""
