"""What one job leaves with its supervisor, the next one does not find; and what it has is measured."""

import _thread
import os
import socket
from pathlib import Path

import pytest

from interlock.sandbox.child import process_tree
from interlock.sandbox.child.job_monitor import JobMonitor
from tests.unit.sandbox.conftest import open_descriptors


def test_a_question_that_nobody_looked_at_is_gone_for_the_next_job():
    """As when a job is stopped in the moment in which it enters its filter."""
    questions, asking = socket.socketpair()
    channel, server = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    launcher = os.pidfd_open(os.getpid())
    with questions, asking, channel, server:
        questions.setblocking(False)
        before = open_descriptors()
        watch = JobMonitor(channel, launcher, questions, None, [])
        with Path(os.devnull).open() as listener:
            socket.send_fds(asking, [b"?"], [listener.fileno()])
        watch._forget_questions()
        with pytest.raises(BlockingIOError):
            questions.recv(1)
        assert open_descriptors() == before
    os.close(launcher)


def test_where_no_thread_can_be_had_memory_is_measured_at_a_later_look(monkeypatch):
    def refuse(*_given: object) -> None:
        raise RuntimeError("can't start new thread")

    questions, asking = socket.socketpair()
    channel, server = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    launcher = os.pidfd_open(os.getpid())
    with questions, asking, channel, server:
        watch = JobMonitor(channel, launcher, questions, None, [])
        with monkeypatch.context() as patch:
            patch.setattr(_thread, "start_new_thread", refuse)
            assert not watch._is_too_large([os.getpid()], 1)
            assert watch._measurement is None
        assert not watch._is_too_large([os.getpid()], 1)
        assert isinstance(watch._measurement, process_tree.MemoryMeasurement)
        watch._measurement.wait()
        assert watch._is_too_large([os.getpid()], 1)
    os.close(launcher)
