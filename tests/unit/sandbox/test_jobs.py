"""What every job may read, how an end is told, and how a job travels."""

import errno
import os
import signal
from pathlib import Path

import pytest

from interlock.sandbox.child.job_message import MAX_MESSAGE_BYTES, JobMessage, decode, encode
from interlock.sandbox.jobs import DEVICES, ExitReason, Job, JobExit, JobLimits, system_paths
from interlock.sandbox.profile import SandboxProfile
from tests.harness.case_tables import each_row


@each_row(
    "secret",
    [
        *("/", "/etc", "/etc/shadow", "/etc/gshadow", "/etc/ssl", "/etc/ssl/private", "/etc/sudoers"),
        *("/etc/ssh", "/etc/npmrc", "/etc/pip.conf", "/etc/environment", "/proc", "/proc/self", "/sys"),
        *("/dev", "/dev/pts", "/home", "/root", "/var", "/run", "/boot"),
    ],
)
def test_what_may_hold_a_secret_is_in_no_jobs_reach(secret):
    opened = [Path(path).resolve() for path in system_paths()]
    assert [path for path in opened if Path(secret) == path or Path(secret).is_relative_to(path)] == []


def test_programs_libraries_and_the_interpreter_are_in_every_jobs_reach():
    assert {Path("/usr"), Path("/etc/passwd")} <= set(system_paths())
    assert Path("/somewhere") not in system_paths(["/somewhere"])
    assert Path("/usr/share") in system_paths(["/usr/share"])


@pytest.mark.parametrize("name", ["hostname", "lsb-release", "manpath.config", "groff"])
def test_what_tells_the_machines_name_and_lets_man_work_can_be_read(name):
    path = Path("/etc", name)
    assert (path in system_paths()) is path.exists()


@pytest.mark.parametrize("prefix", ["/", str(Path.home()), str(Path.home().parent)])
def test_a_prefix_that_holds_a_home_is_not_opened(prefix):
    assert Path(prefix) not in system_paths([prefix])


def test_only_harmless_devices_are_written():
    assert {path.name for path in DEVICES} == {"null", "zero", "full", "random", "urandom"}


@pytest.mark.parametrize(
    ("ended", "text"),
    [
        (JobExit(ExitReason.exited, exit_code=3), "exit code 3"),
        (JobExit(ExitReason.signalled, signal=signal.SIGSEGV), "SIGSEGV"),
        (JobExit(ExitReason.signalled, signal=60), "signal 60"),
        (JobExit(ExitReason.not_started, error=errno.ENOENT, step="executing the program"), "No such file"),
        *((JobExit(reason), "it was") for reason in ExitReason if reason not in ("exited", "not_started")),
    ],
)
def test_every_end_is_told_in_words(ended, text):
    assert text in ended.text


@pytest.mark.parametrize("size", [10, MAX_MESSAGE_BYTES - 100, MAX_MESSAGE_BYTES + 100, 3_000_000])
def test_an_order_arrives_as_it_was_sent_however_long(size):
    message, file = encode({"argv": [b"/bin/true", b"x" * size], "ports": [80]})
    assert len(message) <= MAX_MESSAGE_BYTES
    packed, rest = decode(message, [7, 8, 9] if file is None else [7, 8, 9, file])
    order = JobMessage(packed)
    assert (order.argv, order.ports, rest) == ([b"/bin/true", b"x" * size], [80], [7, 8, 9])
    if file is not None:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(file)


def test_a_job_has_bounds_unless_somebody_lifts_them():
    limits = Job(("/bin/true",), 0, {}, SandboxProfile()).limits
    assert None not in (limits.processes, limits.memory_bytes, limits.file_bytes, limits.open_files)
    assert JobLimits(processes=None).processes is None
