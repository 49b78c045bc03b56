"""Probes whether a sandbox holds, by trying to escape from it.

Two children run under the real backend with real profiles, one that writes and one that only reads. They
try what a job must not be able to do (`probe_attempts.py`). What counts is the actual effect: a file
outside that is unchanged, a listener that received nothing, a lock that no process holds. It runs at the
server's start and in `doctor`; `backend_selection.py` accepts no backend that does not pass.
"""

import asyncio
import binascii
import ctypes
import marshal
import os
import secrets
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from interlock.core.file_lock import take_lock
from interlock.sandbox.jobs import ExitReason, Job, JobOutput, SandboxBackend
from interlock.sandbox.profile import SandboxProfile
from interlock.sandbox.subprocess_backend import interpreter
from interlock.sandbox.temporary_directories import choose_temporary_root

_SECONDS = 20.0
_MAX_OUTPUT_BYTES = 1 << 20
_WRITES, _READS = "coding", "chat"
_VARIABLES = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}

ProbeAnswers = dict[str, tuple[str, object]]


@dataclass(frozen=True, slots=True)
class ProbeCheck:
    """One attempt. `holds`: the sandbox prevented it; a check that is not mandatory is only reported."""

    name: str
    holds: bool
    detail: str
    is_mandatory: bool = True


@dataclass(frozen=True, slots=True)
class ProbeReport:
    backend: str
    rows: tuple[ProbeCheck, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        return bool(self.rows) and all(row.holds for row in self.rows if row.is_mandatory)

    @property
    def failures(self) -> tuple[ProbeCheck, ...]:
        return tuple(row for row in self.rows if row.is_mandatory and not row.holds)

    @property
    def open(self) -> tuple[ProbeCheck, ...]:
        """The checks that fail but are not mandatory."""
        return tuple(row for row in self.rows if not row.is_mandatory and not row.holds)

    @property
    def text(self) -> str:
        """In a sentence, for a person."""
        if not self.failures:
            return f"{self.backend}: all mandatory checks pass"
        shown = "; ".join(f"{row.name} ({row.detail})" for row in self.failures)
        return f"{self.backend} fails: {shown}"


async def probe(
    backend: SandboxBackend, *, opened: Iterable[Path], state_folder: Path | None = None
) -> ProbeReport:
    """Never raises: any error is a failed check. It does not write to `opened` directories."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(_SECONDS):
            rows = await _probe(backend, state_folder, opened)
    except Exception as error:  # noqa: BLE001 - a sandbox that cannot be probed is one that does not hold
        text = str(error) or type(error).__name__
        rows = (ProbeCheck("run a program in the sandbox", holds=False, detail=text),)
    return ProbeReport(backend.name, rows, time.monotonic() - began)


async def _probe(
    backend: SandboxBackend, state_folder: Path | None, opened: Iterable[Path]
) -> tuple[ProbeCheck, ...]:
    with ExitStack() as stack:
        bait = _Bait(stack, state_folder, opened)
        script = await asyncio.to_thread(_script)
        writing, reading = await asyncio.gather(
            *(_child(backend, bait, script, kind) for kind in (_WRITES, _READS))
        )
        return (
            *_what_must_work(bait, writing, reading),
            *_what_must_fail(bait, writing, reading),
            *_what_must_not_be_heard(bait, writing, reading),
            *_of_the_state(bait, writing),
            *_of_one_that_reads(bait, reading),
            *_what_may_stay_open(bait),
        )


def _script() -> str:
    return Path(__file__).with_name("probe_attempts.py").read_text(encoding="utf-8")


async def _child(backend: SandboxBackend, bait: "_Bait", script: str, kind: str) -> ProbeAnswers:
    profile = SandboxProfile((bait.inside,), (bait.inside,) if kind == _WRITES else ())
    argv = (str(interpreter()), "-I", "-S", "-c", script, marshal.dumps(bait.facts(kind)).hex())
    job = Job(argv, bait.folder, _VARIABLES, profile, linger_seconds=0)
    async with backend.running(job) as child:
        out, err = await asyncio.gather(_whole(child.stdout), _whole(child.stderr))
        ended = await child.wait()
    if ended.reason is not ExitReason.exited or ended.exit_code:
        complaint = err.decode("utf-8", "replace").strip()[-300:]
        raise RuntimeError(f"{ended.text} {complaint}".strip())
    found: ProbeAnswers = marshal.loads(out)  # noqa: S302 - from our own script
    return found


async def _whole(output: JobOutput) -> bytes:
    found = b""
    while data := await output.read():
        found += data[: _MAX_OUTPUT_BYTES - len(found)]
    return found


class _Bait:
    """What the children attack: files, listeners, this process. All of it is removed with the stack."""

    def __init__(self, stack: ExitStack, state_folder: Path | None, opened: Iterable[Path]) -> None:
        self._stack = stack
        self.secret = secrets.token_hex(16).encode()
        self._memory = ctypes.create_string_buffer(self.secret, len(self.secret))
        place = Path(tempfile.mkdtemp(prefix="interlock-probe-", dir=choose_temporary_root(opened)))
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        self.inside, self.outside = place / "inside", place / "outside"
        for folder in (self.inside, self.outside):
            folder.mkdir(mode=0o700)
            self._file(folder / "file")
        for kind in (_WRITES, _READS):
            self._file(self.inside / kind)
            self._file(self.inside / f"lock-{kind}")
        self.folder = os.open(self.inside, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, self.folder)
        self._put_into_state(state_folder)
        self._listen()

    def facts(self, kind: str) -> dict[str, object]:
        return {
            "kind": kind,
            "inside": str(self.inside),
            "outside": str(self.outside),
            "state": str(self.state or self.outside),
            "state_file": str(self.state_file or self.outside / "file"),
            "secret": self.secret,
            "server": os.getpid(),
            "pid_namespace": _link("/proc/self/ns/pid"),
            "address": ctypes.addressof(self._memory),
            "tcp": (int(self.tcp.family), *self.tcp.getsockname()[:2]),
            "udp": (int(self.udp.family), *self.udp.getsockname()[:2]),
            "unix_name": self._unix_name,
        }

    def _file(self, path: Path) -> None:
        path.touch(mode=0o600)
        path.write_bytes(self.secret)

    def _put_into_state(self, folder: Path | None) -> None:
        self.state = folder.resolve() if folder is not None and folder.is_dir() else None
        self.state_file: Path | None = None
        if self.state is not None:
            self.state_file = self.state / f"probe-{secrets.token_hex(8)}"
            new = self.state_file.with_name(self.state_file.name + "-new")
            for path in (self.state_file, new):
                self._stack.callback(path.unlink, missing_ok=True)
            self._file(self.state_file)

    def _listen(self) -> None:
        self.tcp = self._listener(_loopback(), socket.SOCK_STREAM)
        self.udp = self._listener(_loopback(), socket.SOCK_DGRAM)
        self._unix_name = f"interlock-probe-{secrets.token_hex(8)}"
        folder = os.open(self.outside, os.O_RDONLY | os.O_DIRECTORY)
        self._stack.callback(os.close, folder)
        # By the directory's descriptor: its path may be too long for a socket address.
        self.unix = self._listener((socket.AF_UNIX, f"/proc/self/fd/{folder}/socket"), socket.SOCK_STREAM)
        self.unix_abstract = self._listener((socket.AF_UNIX, "\0" + self._unix_name), socket.SOCK_STREAM)

    def _listener(self, place: tuple[int, str | tuple[str, int]], kind: int) -> socket.socket:
        family, address = place
        made = self._stack.enter_context(socket.socket(family, kind))
        made.setblocking(False)  # noqa: FBT003 - its only form
        made.bind(address)
        if kind == socket.SOCK_STREAM:
            made.listen()
        return made


def _loopback() -> tuple[int, tuple[str, int]]:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as attempt, suppress(OSError):
        attempt.bind(("127.0.0.1", 0))
        return socket.AF_INET, ("127.0.0.1", 0)
    return socket.AF_INET6, ("::1", 0)


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""


# -- judging --


def _what_must_work(bait: _Bait, writing: ProbeAnswers, reading: ProbeAnswers) -> list[ProbeCheck]:
    def written() -> bool:
        path = bait.inside / f"new-{_WRITES}"
        return path.exists() and path.read_bytes() == bait.secret

    expected = sorted(_VARIABLES)
    both = (writing, reading)
    return [
        _works(
            "read a file inside",
            all(one["read_inside"][1] == bait.secret for one in both),
            writing["read_inside"],
        ),
        _works("write a file inside, where the mode writes", written(), writing["write_inside"]),
        _works("use /dev/null", all(not one["use_null"][0] for one in both), writing["use_null"]),
        _works("run a shell", all(one["run_shell"] == ("", 0) for one in both), writing["run_shell"]),
        _works(
            "see only the given environment",
            all(one["environment"][1] == expected for one in both),
            writing["environment"],
        ),
    ]


def _what_must_fail(bait: _Bait, writing: ProbeAnswers, reading: ProbeAnswers) -> list[ProbeCheck]:
    def any_gave(name: str, reached: Callable[[object], bool]) -> ProbeCheck:
        got = [one[name] for one in (writing, reading)]
        came = next((answer for answer in got if not answer[0] and reached(answer[1])), None)
        return _fails(_TITLES[name], came is not None, got[0][0])

    environment = binascii.crc32(_own_environment())
    is_whole = (bait.outside / "file").read_bytes() == bait.secret
    names = {path.name for path in bait.outside.iterdir()}
    alive = [kind for kind in (_WRITES, _READS) if _is_held(bait.inside / f"lock-{kind}")]
    return [
        any_gave("read_outside", lambda got: got == bait.secret),
        any_gave("list_outside", lambda got: isinstance(got, list) and "file" in got),
        _fails("create a file outside", "new" in names, writing["create_outside"][0]),
        _fails("change a file outside", not is_whole, writing["overwrite_outside"][0]),
        any_gave("signal_server", lambda _got: True),
        any_gave("environment_of_server", lambda got: got == environment),
        any_gave("memory_of_server", lambda got: got == bait.secret),
        any_gave("switches", lambda _got: True),
        any_gave("descriptors", bool),
        _fails("leave the process tree", bool(alive), "ended with the job"),
    ]


_TITLES = {
    "read_outside": "read a file outside",
    "list_outside": "list a folder outside",
    "signal_server": "signal the server",
    "environment_of_server": "read the server's environment",
    "memory_of_server": "read the server's memory",
    "switches": "change the kernel's settings",
    "descriptors": "inherit a descriptor",
}


def _what_must_not_be_heard(bait: _Bait, writing: ProbeAnswers, reading: ProbeAnswers) -> list[ProbeCheck]:
    rows = []
    for title, name, listener in (
        ("connect by TCP", "tcp", bait.tcp),
        ("connect by UDP", "udp", bait.udp),
        ("connect to a Unix socket by its path", "unix_by_path", bait.unix),
        ("connect to a Unix socket by its name", "unix_by_name", bait.unix_abstract),
    ):
        reason = writing[name][0] or reading[name][0]
        rows.append(_fails(title, _has_heard(listener), reason))
    return rows


def _of_the_state(bait: _Bait, writing: ProbeAnswers) -> list[ProbeCheck]:
    if bait.state is None or bait.state_file is None:
        return []
    new = bait.state_file.with_name(bait.state_file.name + "-new")
    return [
        _fails("read the state folder", writing["read_state"][1] == bait.secret, writing["read_state"][0]),
        _fails("list the state folder", _lists(writing, bait.state_file.name), writing["list_state"][0]),
        _fails("write the state folder", new.exists(), writing["write_state"][0]),
    ]


def _lists(found: ProbeAnswers, name: str) -> bool:
    listed = found["list_state"][1]
    return isinstance(listed, list) and name in listed


def _of_one_that_reads(bait: _Bait, reading: ProbeAnswers) -> list[ProbeCheck]:
    was_written = (bait.inside / f"new-{_READS}").exists()
    was_changed = _mode(bait.inside / _READS) != 0o600
    return [
        _fails("write a file inside, where the mode only reads", was_written, reading["write_inside"][0]),
        _fails("change a file's mode, where the mode only reads", was_changed, reading["change_inside"][0]),
    ]


def _what_may_stay_open(bait: _Bait) -> list[ProbeCheck]:
    was_changed = _mode(bait.outside / "file") != 0o600
    detail = "open: the owner of a file can do this; no check applies" if was_changed else "stopped"
    return [
        ProbeCheck("change the mode of a file outside", not was_changed, detail, is_mandatory=False),
    ]


def _works(name: str, holds: bool, answer: tuple[str, object]) -> ProbeCheck:  # noqa: FBT001 - the verdict
    return ProbeCheck(name, holds, "works" if holds else f"does not work: {answer[0] or answer[1]}")


def _fails(name: str, was_reached: bool, reason: str) -> ProbeCheck:  # noqa: FBT001 - the verdict
    return ProbeCheck(
        name, not was_reached, "NOT blocked" if was_reached else f"blocked: {reason or 'no effect'}"
    )


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _has_heard(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_DGRAM:
            return bool(listener.recv(16))
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _is_held(path: Path) -> bool:
    """Whether the lock that a child took, and its survivors share, is still held."""
    with path.open("rb") as file:
        return not take_lock(file, patience_seconds=0)


def _own_environment() -> bytes:
    try:
        return Path("/proc/self/environ").read_bytes()[: 1 << 20]
    except OSError:
        return secrets.token_bytes(8)
