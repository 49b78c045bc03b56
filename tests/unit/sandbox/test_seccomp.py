"""The system call filters, run by a small interpreter of the kernel's language: for both architectures."""

import errno
import re
from pathlib import Path

import pytest

from interlock.sandbox.child import seccomp
from interlock.sandbox.child.syscall_numbers import AUDIT_ARCH, SYSCALL_NUMBERS
from tests.harness.case_tables import each_row

MACHINES = ("x86_64", "aarch64")
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
# Newer than the headers of some distributions; the number is the same everywhere since 424.
NEW = {
    "fchmodat2": 452,
    "setxattrat": 463,
    "getxattrat": 464,
    "listxattrat": 465,
    "removexattrat": 466,
    "open_tree_attr": 467,
    "file_setattr": 469,
}
ALLOW, KILL, ERRNO, ASK = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000


# What must stay refused, whatever is added: to take one off the product's list is to take it off here too.
NEVER = """
ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd process_madvise perf_event_open bpf userfaultfd
setns mount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick
mount_setattr open_by_handle_at fanotify_init kexec_load kexec_file_load reboot swapon swapoff init_module
finit_module delete_module acct quotactl quotactl_fd syslog vhangup iopl ioperm modify_ldt settimeofday
clock_settime clock_adjtime adjtimex sethostname setdomainname nfsservctl lookup_dcookie uselib ustat sysfs
add_key request_key keyctl shmget shmat shmctl msgget msgsnd msgrcv msgctl semget semop semctl semtimedop
mq_open mq_unlink file_setattr clone3 io_uring_setup io_uring_enter io_uring_register openat2 listen
setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat
"""


def judge(code, machine: str, number: int, *arguments: int, arch: int | None = None) -> int | str:
    """0 if allowed, the error if refused, "killed"."""
    words = {0: number, 4: AUDIT_ARCH[machine] if arch is None else arch}
    for index, argument in enumerate(arguments + (0,) * (6 - len(arguments))):
        words[16 + 8 * index] = argument & 0xFFFFFFFF
        words[20 + 8 * index] = (argument >> 32) & 0xFFFFFFFF
    value, at = 0, 0
    while True:
        operation, if_true, if_false, constant = code[at]
        at += 1
        match operation:
            case 0x20:
                value = words[constant]
            case 0x54:
                value &= constant
            case 0x15:
                at += if_true if value == constant else if_false
            case 0x45:
                at += if_true if value & constant else if_false
            case 0x35:
                at += if_true if value >= constant else if_false
            case 0x06:
                return {ALLOW: 0, KILL: "killed", ASK: "asks"}.get(constant, constant & ~ERRNO)
            case _:
                raise AssertionError(operation)


def every_filter(machine: str):
    yield seccomp.static_filter(machine)
    for yes in (False, True):
        for metadata in (seccomp.REFUSE, seccomp.JUDGE, seccomp.LET):
            yield seccomp.job_filter(machine, has_network=yes, metadata=metadata)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_kernels_own_header(machine):
    header = HEADERS[machine]
    if not header.exists():
        pytest.skip("the kernel's headers are not installed")
    found = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text()))
    known = {name: int(number) for name, number in found.items()} | NEW
    ours = {
        name: numbers[machine] for name, numbers in SYSCALL_NUMBERS.items() if numbers[machine] is not None
    }
    assert {name: known.get(name) for name in ours} == ours
    absent = [name for name, numbers in SYSCALL_NUMBERS.items() if numbers[machine] is None]
    assert [name for name in absent if name in known] == []


@pytest.mark.parametrize("machine", MACHINES)
def test_every_jump_lands_and_every_path_returns(machine):
    for code in every_filter(machine):
        assert len(code) < 4096
        for at, (operation, if_true, if_false, _constant) in enumerate(code):
            assert 0 <= if_true < 256
            assert 0 <= if_false < 256
            if operation in (0x15, 0x45, 0x35):
                assert at + 1 + max(if_true, if_false) < len(code)
        assert code[-1] == (0x06, 0, 0, ALLOW)
        assert len(seccomp.assemble(code)) == 8 * len(code)


@pytest.mark.parametrize("machine", MACHINES)
def test_another_architectures_calls_end_the_process(machine):
    other = AUDIT_ARCH["aarch64" if machine == "x86_64" else "x86_64"]
    for code in every_filter(machine):
        assert judge(code, machine, 0, arch=other) == "killed"
        assert judge(code, machine, 0, arch=0x40000003) == "killed"


def test_calls_of_x32_are_absent():
    for code in every_filter("x86_64"):
        assert judge(code, "x86_64", 0x40000000 + 1) == errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_not_named_is_allowed(machine):
    code = seccomp.static_filter(machine)
    named = {numbers[machine] for numbers in SYSCALL_NUMBERS.values()}
    assert [number for number in range(470) if number not in named and judge(code, machine, number)] == []


@each_row(
    ("machine", "name"),
    [
        (machine, name)
        for name in NEVER.split()
        for machine in MACHINES
        if SYSCALL_NUMBERS[name][machine] is not None
    ],
)
def test_no_call_is_taken_off_the_list(machine, name):
    refusals = {errno.EPERM, errno.ENOSYS, errno.EACCES, errno.EOPNOTSUPP}
    assert judge(seccomp.static_filter(machine), machine, SYSCALL_NUMBERS[name][machine]) in refusals


@pytest.mark.parametrize("machine", MACHINES)
def test_every_refused_call_is_refused_whatever_its_arguments(machine):
    code = seccomp.static_filter(machine)
    for names, error in (
        (seccomp.REFUSED, errno.EPERM),
        (seccomp.ABSENT, errno.ENOSYS),
        (seccomp.ATTRIBUTES, errno.EOPNOTSUPP),
    ):
        for name in names:
            number = SYSCALL_NUMBERS[name][machine]
            if number is not None:
                for arguments in ((), (1, 2, 3, 4, 5, 6), (2**64 - 1,) * 6):
                    assert judge(code, machine, number, *arguments) == error, name


CASES = [
    # call, arguments, error
    ("socket", (2, 1, 0), 0),
    ("socket", (10, 1 | 0o2000000 | 0o4000, 6), 0),
    ("socket", (2, 2, 0), errno.EACCES),
    ("socket", (2, 3, 1), errno.EACCES),
    ("socket", (2, 1, 262), errno.EACCES),
    ("socket", (2, 5, 132), errno.EACCES),
    *(("socket", (family, 1, 0), errno.EACCES) for family in (0, 1, 3, 16, 17, 38, 40, 43, 44)),
    ("socketpair", (1, 1, 0), 0),
    ("socketpair", (1, 1 | 0o2000000, 0), 0),
    ("socketpair", (1, 2, 0), errno.EACCES),
    ("socketpair", (1, 5, 0), errno.EACCES),
    ("socketpair", (30, 1, 0), errno.EACCES),
    ("listen", (3, 5), errno.EACCES),
    ("sendto", (3, 0, 0, 0x4000), 0),
    ("sendto", (3, 0, 0, 0x20000000), errno.EACCES),
    ("sendmsg", (3, 0, 0x20004000), errno.EACCES),
    ("sendmsg", (3, 0, 0), 0),
    ("sendmmsg", (3, 0, 1, 0x20000000), errno.EACCES),
    ("clone", (17,), 0),
    ("clone", (0x003D0F00,), 0),
    *(("clone", (1 << bit | 17,), errno.EPERM) for bit in (17, 25, 26, 27, 28, 29, 30)),
    ("unshare", (0x400,), 0),
    *(("unshare", (1 << bit,), errno.EPERM) for bit in (7, 17, 25, 26, 27, 28, 29, 30)),
    *((name, (0, 1), 0) for name in ("prlimit64", "sched_setaffinity", "sched_setattr", "move_pages")),
    *((name, (4711, 1), errno.EPERM) for name in ("prlimit64", "sched_setaffinity", "sched_setattr")),
    ("setpriority", (0, 0, 5), 0),
    ("setpriority", (1, 0, 5), 0),
    ("setpriority", (2, 0, 5), errno.EPERM),
    ("setpriority", (0, 4711, 5), errno.EPERM),
    ("ioprio_set", (1, 0, 5), 0),
    ("ioprio_set", (3, 0, 5), errno.EPERM),
    ("ioprio_set", (1, 4711, 5), errno.EPERM),
    ("personality", (0xFFFFFFFF,), 0),
    ("personality", (0,), 0),
    ("personality", (0x40000,), errno.EPERM),
    ("fcntl", (3, 2, 1), 0),
    ("fcntl", (3, 1024, 0), errno.EPERM),
    ("fcntl", (3, 1026, 0), errno.EPERM),
    ("ioctl", (0, 0x5401, 0), 0),
    ("ioctl", (0, 0x541B, 0), 0),
    ("ioctl", (0, 0x5412, 0), errno.EPERM),
    ("ioctl", (0, 0x1_0000_5412, 0), errno.EPERM),
    ("ioctl", (0, 0x541C, 0), errno.EPERM),
    ("ioctl", (3, 0x80086601, 0), 0),
    ("ioctl", (3, 0x40049409, 0), 0),
    ("ioctl", (3, 0x40086602, 0), errno.EPERM),
    ("ioctl", (3, 0x5000940E, 0), errno.EPERM),
    ("ioctl", (3, 0x401C5820, 0), errno.EPERM),
    ("kill", (-1, 9), 0),
    ("openat", (-100, 0, 0o101, 0o644), 0),
    ("openat", (-100, 0, 0o101, 0o4755), errno.EPERM),
    ("openat", (-100, 0, 0o101, 0o2755), errno.EPERM),
    ("openat", (-100, 0, 0o20200002, 0o4755), errno.EPERM),
    ("openat", (-100, 0, 0, 0o4755), 0),
    ("openat2", (-100, 0, 0, 24), errno.ENOSYS),
    ("mknodat", (-100, 0, 0o104755, 0), errno.EPERM),
    ("mknodat", (-100, 0, 0o010644, 0), 0),
    ("openat", (-100, 0, 0o1000), 0),
    ("truncate", (0, 0), 0),
]


@each_row("machine", MACHINES)
@each_row(("name", "arguments", "error"), CASES)
def test_calls_are_judged_by_their_arguments(machine, name, arguments, error):
    assert (
        judge(seccomp.static_filter(machine), machine, SYSCALL_NUMBERS[name][machine], *arguments) == error
    )


@each_row("machine", MACHINES)
@each_row("has_network", [False, True])
@each_row("metadata", [seccomp.REFUSE, seccomp.JUDGE, seccomp.LET])
def test_a_profile_adds_no_sockets_and_no_metadata(machine, has_network, metadata):
    code = seccomp.job_filter(machine, has_network=has_network, metadata=metadata)
    answer = {seccomp.REFUSE: errno.EPERM, seccomp.JUDGE: "asks", seccomp.LET: 0}[metadata]
    assert judge(code, machine, SYSCALL_NUMBERS["socket"][machine], 2, 1, 0) == (
        0 if has_network else errno.EACCES
    )
    for name in seccomp.METADATA:
        if (number := SYSCALL_NUMBERS[name][machine]) is not None:
            assert judge(code, machine, number, 1, 2, 3) == answer
