"""Types shared by all sandbox backends: jobs, limits, running children, exits, and system paths.

Tools make jobs and read children. A backend (`landlock_backend.py`) runs a job so that it can reach only
what its profile opens, and so that nothing of it is left when it has ended.
"""

import os
import resource
import signal
import sys
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from interlock.core.errors import InterlockError
from interlock.sandbox.profile import SandboxProfile

MEGABYTE = 1024 * 1024


class SandboxUnavailable(InterlockError):
    """This machine cannot confine a child, so none is started."""

    code = "SANDBOX_UNAVAILABLE"


@dataclass(frozen=True, slots=True)
class JobLimits:
    """Limits of a job. `None` is no limit beyond the server's own.

    `processes` and `memory_bytes` apply to the whole tree (threads count as processes, memory is what is
    not shared with a file); the supervisor checks some twenty times a second, so both may be exceeded for a
    moment. If a control group can be made (`pids_cgroup.py`), the kernel enforces `processes` itself. The
    others are enforced by the kernel for each process: a fork starts with new CPU time.
    """

    processes: int | None = 512
    memory_bytes: int | None = 4096 * MEGABYTE
    address_space_bytes: int | None = None
    cpu_seconds: int | None = None
    file_bytes: int | None = 1024 * MEGABYTE
    open_files: int | None = 1024

    def as_rlimits(self) -> list[tuple[int, int]]:
        """Those that `setrlimit` knows, by its numbers."""
        chosen = {
            resource.RLIMIT_CPU: self.cpu_seconds,
            resource.RLIMIT_AS: self.address_space_bytes,
            resource.RLIMIT_FSIZE: self.file_bytes,
            resource.RLIMIT_NOFILE: self.open_files,
        }
        return [(kind, value) for kind, value in chosen.items() if value is not None]


@dataclass(frozen=True, slots=True)
class Job:
    """A program to run. `folder` is an open descriptor of its working directory, borrowed until the start.

    The environment is complete: nothing is inherited. `private_folders` (HOME, TMPDIR) are writable besides
    the profile's writable roots; a job without either may not change the metadata of any file. When the
    program ends, its remaining processes have `linger_seconds` to end as well. Without `has_stdin`, its
    input is empty.
    """

    argv: tuple[str | bytes, ...]
    folder: int
    environment: Mapping[str, str]
    profile: SandboxProfile
    readable_paths: tuple[Path, ...] = ()
    private_folders: tuple[Path, ...] = ()
    limits: JobLimits = field(default_factory=JobLimits)
    linger_seconds: float = 0.2
    has_stdin: bool = False

    def __post_init__(self) -> None:
        if not self.argv or not os.fsencode(self.argv[0]).startswith(b"/"):
            raise ValueError("a job's program must be an absolute path")
        words = [os.fsencode(word) for pair in self.environment.items() for word in pair]
        if any(b"\0" in os.fsencode(word) for word in (*self.argv, *words)):
            raise ValueError("arguments and variables must not contain a null character")
        if any(not name or "=" in name for name in self.environment):
            raise ValueError("a variable's name must not be empty or contain an equals sign")

    def order(self) -> dict[str, object]:
        """The job as a message, whatever the backend."""
        environment = self.environment.items()
        return {
            "argv": [os.fsencode(word) for word in self.argv],
            "environment": {os.fsencode(name): os.fsencode(value) for name, value in environment},
            "ports": sorted(self.profile.network_ports),
            "limits": self.limits.as_rlimits(),
            "max_tasks": self.limits.processes,
            "max_memory_bytes": self.limits.memory_bytes,
            "linger_seconds": self.linger_seconds,
            "has_stdin": self.has_stdin,
        }


class ExitReason(StrEnum):
    exited = "exited"
    signalled = "signalled"
    stopped = "stopped"
    not_started = "not_started"
    too_many_processes = "too_many_processes"
    too_much_memory = "too_much_memory"
    launcher_lost = "launcher_lost"


@dataclass(frozen=True, slots=True)
class JobExit:
    """How a job ended, after which nothing of it runs any more.

    `exit_code` or `signal` is that of the program itself, where it ended by itself or was killed for a
    limit. `error` is the system's reason why a program could not be started, and `step` what failed.
    """

    reason: ExitReason
    exit_code: int | None = None
    signal: int | None = None
    error: int = 0
    step: str = ""

    @property
    def text(self) -> str:
        """In words, for a model or a person."""
        match self.reason:
            case ExitReason.exited:
                return f"it ended with exit code {self.exit_code}"
            case ExitReason.signalled:
                return f"it was killed by {_signal_name(self.signal)}"
            case ExitReason.stopped:
                return "it was stopped"
            case ExitReason.not_started:
                return f"it could not be started ({self.step}): {os.strerror(self.error)}"
            case ExitReason.too_many_processes:
                return "it was killed because it had too many processes"
            case ExitReason.too_much_memory:
                return "it was killed because it used too much memory"
            case ExitReason.launcher_lost:
                return "it was killed because the sandbox's launcher died"


def _signal_name(number: int | None) -> str:
    try:
        return signal.Signals(number or 0).name
    except ValueError:
        return f"signal {number}"


class JobOutput(Protocol):
    """One output stream of a child. Nothing is read ahead: a slow reader blocks the child."""

    async def read(self, limit_bytes: int = ...) -> bytes:
        """Some bytes as soon as there are any, or nothing at the end."""


class JobInput(Protocol):
    """The input of a child. Nothing is buffered: writing waits until the child has read."""

    async def write(self, data: bytes) -> None:
        """Write everything; an `OSError` if the pipe is closed."""

    def close(self) -> None: ...


class RunningJob(Protocol):
    @property
    def stdin(self) -> JobInput | None: ...

    @property
    def stdout(self) -> JobOutput: ...

    @property
    def stderr(self) -> JobOutput: ...

    async def wait(self) -> JobExit:
        """How it ended. All its processes are dead by then; its output can still be read."""

    async def stop(self) -> JobExit:
        """Kill all of it, and return when it is dead."""


class SandboxBackend(Protocol):
    @property
    def name(self) -> str: ...

    def running(self, job: Job) -> AbstractAsyncContextManager[RunningJob]:
        """The job as a child. Nothing of it is left when the context ends."""

    async def close(self) -> None:
        """Kill every job and everything that runs them."""


# -- what every job may read --

_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")

# Never the whole of /etc, and nothing in it that tends to hold a password or a token: not shadow, not the
# settings of package managers, not /etc/ssl/private.
_OF_ETC = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "alternatives"),
    *("passwd", "group", "nsswitch.conf", "localtime", "timezone", "locale.alias", "locale.conf"),
    *("os-release", "debian_version", "mime.types", "magic", "magic.mime", "terminfo", "inputrc"),
    *("ssl/certs", "ssl/openssl.cnf", "pki/tls/certs", "pki/tls/openssl.cnf", "pki/ca-trust/extracted"),
    *("ca-certificates", "crypto-policies", "protocols", "services", "hosts", "host.conf", "gai.conf"),
    *("resolv.conf", "fonts", "gitconfig", "gitattributes", "xattr.conf"),
    *("hostname", "lsb-release", "redhat-release", "alpine-release"),
    # Without these `man` shows nothing.
    *("manpath.config", "man_db.conf", "groff"),
)
# Debian keeps parts of interpreters here, which do not start without them.
_INTERPRETERS_OF_ETC = ("python3*", "perl", "java-*-openjdk")

# Facts about the machine that runtimes ask for. Nothing of any process: with /proc itself, a job would see
# the command line of everybody. So `ps` does not work, and /proc/self cannot be opened, since a rule holds
# for a file and not for a name; opening /dev/fd/N and /dev/stdin works, for pipes need no rule.
_OF_PROC = (
    *("cpuinfo", "meminfo", "stat", "loadavg", "uptime", "version", "filesystems"),
    *("sys/kernel/osrelease", "sys/kernel/ostype", "sys/kernel/pid_max", "sys/kernel/cap_last_cap"),
    *("sys/kernel/ngroups_max", "sys/kernel/threads-max", "sys/kernel/random/uuid"),
    *("sys/vm/overcommit_memory", "sys/vm/max_map_count", "sys/fs/file-max", "sys/fs/pipe-max-size"),
)
_OF_SYS = ("devices/system/cpu", "kernel/mm/transparent_hugepage")

# Not /dev/shm (shared by the whole account), no terminals, no /dev/ptmx.
DEVICES = tuple(Path("/dev", name) for name in ("null", "zero", "full", "random", "urandom"))


def system_paths(prefixes: Iterable[str] = (sys.prefix, sys.base_prefix)) -> tuple[Path, ...]:
    """The programs, libraries and harmless settings that every job may read: those that exist here."""
    found = [Path(name) for name in _PROGRAMS]
    found += [Path("/etc", name) for name in _OF_ETC]
    found += [path for pattern in _INTERPRETERS_OF_ETC for path in sorted(Path("/etc").glob(pattern))]
    found += [Path("/proc", name) for name in _OF_PROC]
    found += [Path("/sys", name) for name in _OF_SYS]
    # Interlock's own interpreter and its programs, such as rg; but never a whole home directory.
    found += [Path(prefix) for prefix in prefixes if not Path.home().is_relative_to(prefix)]
    return tuple(dict.fromkeys(path for path in found if path.exists()))
