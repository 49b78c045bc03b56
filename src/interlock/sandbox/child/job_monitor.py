"""Monitors one job until nothing of it is left: its end, limits, metadata calls and stop requests.

It imports nothing of Interlock but what the launcher loads.
"""

import _socket
import os
import select
import time

from interlock.sandbox.child import pids_cgroup, process_tree
from interlock.sandbox.child.job_message import JobMessage, receive
from interlock.sandbox.child.metadata_syscall_handler import MetadataSyscallHandler

_LOOK_SECONDS = 0.05
_LINGER_LOOK_SECONDS = 0.005


class JobMonitor:
    """`questions` brings the listener by which the job's filter asks about metadata, if it does.

    `reaches_only_below`: this process can signal only what the job started. `refusals` is a descriptor of
    the job's control group, if any.
    """

    def __init__(
        self,
        channel: _socket.socket,
        launcher: int,
        questions: _socket.socket,
        order: JobMessage,
        folders: list[bytes],
        *,
        reaches_only_below: bool = False,
        refusals: int | None = None,
    ) -> None:
        self.is_the_last = False
        self._reaches_only_below = reaches_only_below
        self._refusals = refusals
        self._refused_before = pids_cgroup.count_refused_forks(refusals)
        self._channel = channel
        self._launcher = launcher
        self._questions = questions
        self._order = order
        self._folders = folders
        self._judge: MetadataSyscallHandler | None = None
        self._measurement: process_tree.MemoryMeasurement | None = None
        self._message_poll = select.poll()
        self._poll = select.poll()
        for descriptor in (channel.fileno(), launcher, questions.fileno()):
            self._poll.register(descriptor, select.POLLIN)
        for descriptor in (channel.fileno(), launcher):
            self._message_poll.register(descriptor, select.POLLIN)

    def wait_for_exit(self, main: int) -> tuple[str, int]:
        """Why it ended, empty if by itself, and the main process's status."""
        statuses: dict[int, int] = {}
        end = os.pidfd_open(main)
        self._poll.register(end, select.POLLIN)
        try:
            reason = self._wait(end, statuses)
        finally:
            os.close(end)
        process_tree.kill_descendants(set(), statuses, reaches_only_below=self._reaches_only_below)
        if self._measurement is not None:
            self._measurement.wait()
        self._forget_questions()
        if not reason and self._was_refused_more():
            reason = "too_many_processes"
        return reason, statuses[main]

    def _wait(self, end: int, statuses: dict[int, int]) -> str:
        linger_until = 0.0
        look_at = time.monotonic() + _LOOK_SECONDS
        while True:
            pause = _LINGER_LOOK_SECONDS if linger_until else look_at - time.monotonic()
            ready = dict(self._poll.poll(max(0.0, pause) * 1000))
            if reason := self._stop_requested(ready):
                return reason
            self._hear_questions(ready)
            now = time.monotonic()
            if end in ready:
                self._poll.unregister(end)
                linger_until = now + self._order.linger_seconds
            if linger_until and (not process_tree.reap(statuses) or now >= linger_until):
                return ""
            if now >= look_at:
                if reason := self._over_limit():
                    return reason
                look_at = time.monotonic() + _LOOK_SECONDS

    def _stop_requested(self, ready: dict[int, int]) -> str:
        if self._channel.fileno() in ready:
            message, _descriptors = receive(self._channel)
            self.is_the_last = not message
            return "stopped"
        if self._launcher in ready:
            self.is_the_last = True
            return "launcher_lost"
        return ""

    def _over_limit(self) -> str:
        order = self._order
        if self._was_refused_more():
            return "too_many_processes"
        tasks, pids = process_tree.count_tasks(order.max_tasks, self._has_message)
        if order.max_tasks is not None and tasks > order.max_tasks:
            return "too_many_processes"
        return "too_much_memory" if self._is_too_large(pids, order.max_memory_bytes) else ""

    def _is_too_large(self, pids: list[int], limit: int | None) -> bool:
        """Whether memory exceeds the limit; a suspected excess is measured exactly first."""
        if limit is None:
            return False
        if self._measurement is None:
            if process_tree.private_memory_bytes(pids, self._has_message) > limit:
                self._measurement = process_tree.start_measurement(pids)
            return False
        if not self._measurement.is_done:
            return False
        used, self._measurement = self._measurement.used_bytes, None
        return used > limit

    def _was_refused_more(self) -> bool:
        """Whether the kernel refused the job a process: one read, however many processes it has."""
        return pids_cgroup.count_refused_forks(self._refusals) > self._refused_before

    def _has_message(self) -> bool:
        """Whether the server sent a message, or has ended."""
        return bool(self._message_poll.poll(0))

    # -- metadata calls --

    def _hear_questions(self, ready: dict[int, int]) -> None:
        if self._questions.fileno() in ready:
            for listener in receive(self._questions)[1]:
                self._judge = MetadataSyscallHandler(listener, self._folders)
                self._poll.register(listener, select.POLLIN)
        judge = self._judge
        if judge is not None and judge.listener in ready:
            if ready[judge.listener] & select.POLLIN:
                judge.answer()
            else:
                # No process is left that could ask.
                self._poll.unregister(judge.listener)

    def _forget_questions(self) -> None:
        """Close the listener, also one sent but never read: the next job must not get it."""
        if self._judge is not None:
            os.close(self._judge.listener)
        try:
            for listener in receive(self._questions)[1]:
                os.close(listener)
        except BlockingIOError:
            return
