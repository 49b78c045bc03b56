"""Runs jobs under bubblewrap: in namespaces of their own, where only opened paths exist.

Each job is the child of a first process of ours (`job_runner.py`) in a new PID namespace. It sees the files
that its profile opens, mounted read-only or not, its own processes, and no network; or, if its profile
opens ports, the machine's network through Landlock's port rules. Existing protected names are read-only.
The filters, and the handling of metadata changes, are those of the Landlock backend, and capabilities are
dropped.

If a profile opens ports and the kernel has no rules for them, the job has no network.
"""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path

from interlock.sandbox.bubblewrap_mounts import (
    READ_ONLY_BIND,
    READ_WRITE_BIND,
    MountArguments,
    file_identity,
    system_mount_arguments,
)
from interlock.sandbox.child import landlock, seccomp
from interlock.sandbox.child.syscall_numbers import AUDIT_ARCH
from interlock.sandbox.jobs import Job, SandboxUnavailable, system_paths
from interlock.sandbox.programs import Program, locate
from interlock.sandbox.subprocess_backend import CannotStart, LaunchSpec, SubprocessBackend, package

BWRAP = Program("program:bwrap", ("bwrap",), "install bubblewrap (apt install bubblewrap)", "bubblewrap")

_CAP_SYS_ADMIN = 1 << 21
_ALWAYS = (
    *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session", "--as-pid-1"),
    *("--cap-drop", "ALL", "--clearenv"),
)


class BubblewrapBackend(SubprocessBackend):
    def __init__(self, program: Path) -> None:
        super().__init__()
        self._program = program
        self._system = system_mount_arguments((*system_paths(), package()))

    @classmethod
    def found(cls, opened: Iterable[Path]) -> "BubblewrapBackend | None":
        """The backend with the installed program, if any, outside of directories that agents write to."""
        program = locate(BWRAP, opened)
        return cls(program) if program is not None else None

    @property
    def name(self) -> str:
        return "bubblewrap"

    def _plan(self, job: Job, opened: ExitStack) -> LaunchSpec:
        profile = job.profile
        ports = sorted(profile.network_ports) if landlock.abi_version() >= landlock.NETWORK_ABI else []
        mounts = self._mounts(job)
        device, inode, folder = file_identity(job.folder)
        writable = (*profile.writable_roots, *job.private_folders)
        descriptor = _filter(opened)
        words = [str(self._program), *_ALWAYS, "--seccomp", str(descriptor)]
        words += ["--unshare-user"] if _needs_user_namespace() else []
        words += [] if ports else ["--unshare-net"]
        words += mounts.words
        if Path("/") not in writable:
            # The directories that contain mount points.
            words += ["--remount-ro", "/"]
        return LaunchSpec(
            wrapper=(*words, "--"),
            order={
                "is_confined": True,
                "folder": (os.fsencode(folder), device, inode),
                "mounted": mounts.identities,
                "metadata": seccomp.JUDGE if writable else seccomp.REFUSE,
                "writable": [os.fsencode(path) for path in writable],
                "ports": ports,
            },
            descriptors=(descriptor,),
        )

    def _mounts(self, job: Job) -> MountArguments:
        profile, mounts = job.profile, MountArguments(self._system)
        try:
            mounts.add(job.readable_paths, READ_ONLY_BIND, may_miss=True)
            mounts.add(profile.readable_roots, READ_ONLY_BIND)
            mounts.add((*profile.writable_roots, *job.private_folders), READ_WRITE_BIND)
        except OSError as error:
            name = os.fsdecode(error.filename or "its folders")
            raise CannotStart(error.errno or 0, f"opening {name}") from error
        mounts.add_machine()
        mounts.add_protected(profile)
        return mounts


def _filter(opened: ExitStack) -> int:
    """The static filter, as a file that bubblewrap reads."""
    descriptor = os.memfd_create("filter", os.MFD_CLOEXEC)
    opened.callback(os.close, descriptor)
    os.write(descriptor, _program(os.uname().machine))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


@lru_cache(maxsize=1)
def _program(machine: str) -> bytes:
    if machine not in AUDIT_ARCH:
        raise SandboxUnavailable(f"there is no system call filter for {machine}")
    return seccomp.assemble(seccomp.static_filter(machine))


def _needs_user_namespace() -> bool:
    """Whether mounting needs a user namespace, for lack of CAP_SYS_ADMIN."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("CapEff:"):
            return not int(line.split()[1], 16) & _CAP_SYS_ADMIN
    return True
