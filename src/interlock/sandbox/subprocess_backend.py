"""The server's side of backends that start a process per job: `job_runner.py`.

`unconfined_backend.py` and `bubblewrap_backend.py` define how that process is started and what it
receives. This module starts it, passes the job and the ends of two pipes, and reads how it ended. It spawns
from the loop's own thread: a child may be bound to end with the thread that started it.
"""

import asyncio
import errno
import marshal
import os
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from interlock.sandbox.child import pids_cgroup
from interlock.sandbox.child.job_message import STOP, encode
from interlock.sandbox.job_pipes import PipedJob
from interlock.sandbox.jobs import ExitReason, Job, JobExit, SandboxUnavailable

_CODE = (
    "import sys; sys.path.insert(0, sys.argv[2]); "
    "from interlock.sandbox.child.job_runner import main; main(int(sys.argv[1]))"
)
_MAX_COMPLAINT_BYTES = 4096
# Between the request to end its job and the kill.
_STOP_SECONDS = 5.0


def interpreter() -> Path:
    """The resolved file: a symlink to it may not exist where it is started."""
    return Path(sys.executable).resolve()


def package() -> Path:
    return Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """How a job runner is started.

    The words before the interpreter's own, the fields added to the job, and the inherited descriptors.
    """

    wrapper: tuple[str, ...] = ()
    order: dict[str, object] = field(default_factory=dict)
    descriptors: tuple[int, ...] = ()


class CannotStart(Exception):
    """A job cannot be started, for a reason of the system's."""

    def __init__(self, code: int, step: str) -> None:
        super().__init__(step)
        self.ended = JobExit(ExitReason.not_started, error=code, step=step)


class SubprocessJob(PipedJob):
    """A job, its runner process, and the runner's report."""

    def __init__(self, stdout: int, stderr: int, stdin: int | None) -> None:
        super().__init__(stdout, stderr, stdin)
        self._channel: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._following: asyncio.Task[None] | None = None
        self._was_stopped = False

    def follow(self, process: asyncio.subprocess.Process, channel: socket.socket, complaints: int) -> None:
        self._process, self._channel = process, channel
        self._following = asyncio.ensure_future(self._follow(process, channel, complaints))

    def when_ended(self, notify: Callable[[], None]) -> None:
        """Call `notify` at the end, whether or not it is waited for."""
        self._ended.add_done_callback(lambda _ended: notify())

    def kill(self) -> None:
        if self._ended.done() or self._was_stopped or self._channel is None:
            return
        self._was_stopped = True
        with suppress(OSError):
            self._channel.send(STOP)
        asyncio.get_running_loop().call_later(_STOP_SECONDS, self._end_stage)

    async def _follow(
        self, process: asyncio.subprocess.Process, channel: socket.socket, complaints: int
    ) -> None:
        await process.wait()
        self.finish(self._read_exit_report(channel, complaints))
        channel.close()
        os.close(complaints)

    def _read_exit_report(self, channel: socket.socket, complaints: int) -> JobExit:
        with suppress(OSError):
            if message := channel.recv(4096):
                reason, code, number, error, step = marshal.loads(message)  # noqa: S302 - from our own child
                return JobExit(ExitReason(reason), code, number, error, step)
        complaint = b""
        with suppress(OSError):
            complaint = os.read(complaints, _MAX_COMPLAINT_BYTES)
        if self._was_stopped:
            return JobExit(ExitReason.stopped)
        if not complaint:
            return JobExit(ExitReason.launcher_lost)
        text = complaint.decode("utf-8", "replace").strip().splitlines()[-1]
        return JobExit(ExitReason.not_started, error=_reason_in(text), step=text)

    def _end_stage(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()


class SubprocessBackend(ABC):
    """The common part; `_plan` is what the backends differ in."""

    def __init__(self) -> None:
        self._children: set[SubprocessJob] = set()
        self._is_closed = False
        # A start holds the loop up for a moment, so many of them take turns with everything else.
        self._starting = asyncio.Lock()
        self._groups = pids_cgroup.find_writable_cgroup()

    @abstractmethod
    def _plan(self, job: Job, opened: ExitStack) -> LaunchSpec:
        """Runs in a thread. What it opens is closed by `opened`, once the runner has started."""

    @asynccontextmanager
    async def running(self, job: Job) -> AsyncIterator[SubprocessJob]:
        """The job as a child. Nothing of it is left when the context ends."""
        starting = asyncio.ensure_future(self._begin(job))
        child: SubprocessJob | None = None
        try:
            child = await asyncio.shield(starting)
            if self._is_closed:
                child.kill()
            yield child
        finally:
            # Continues if the caller is cancelled: a half-started runner would be lost.
            child = child if child is not None else await starting
            child.kill()
            child.close()
            await child.wait()

    async def close(self) -> None:
        """Kill every job."""
        self._is_closed = True
        await asyncio.gather(*(child.stop() for child in self._children))

    async def _begin(self, job: Job) -> SubprocessJob:
        with ExitStack() as ours, ExitStack() as theirs:
            pipes = [_pipe(ours, theirs) for _ in ("stdout", "stderr", "complaints")]
            (stdout, stdout_end), (stderr, stderr_end), (complaints, complaints_end) = pipes
            stdin, stdin_end = _input(ours, theirs) if job.has_stdin else (None, None)
            try:
                plan = await asyncio.to_thread(self._plan, job, theirs)
                group = await asyncio.to_thread(self._bounded_group, job)
                message, file = encode(job.order() | plan.order | {"has_group": group is not None})
            except CannotStart as error:
                ours.pop_all()
                os.close(complaints)
                child = SubprocessJob(stdout, stderr, stdin)
                child.finish(error.ended)
                return child
            if file is not None:
                theirs.callback(os.close, file)
            ways = []
            if group is not None:
                ours.callback(group.remove)
                ways = [group.entrance(), group.refusals()]
                for way in ways:
                    theirs.callback(os.close, way)
            if self._is_closed:
                raise SandboxUnavailable("the sandbox is closed")
            channel, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.callback(channel.close)
            theirs.callback(far_end.close)
            channel.settimeout(0)
            processes = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            theirs.callback(os.close, processes)
            always = [
                stdout_end,
                stderr_end,
                processes,
                *([] if stdin_end is None else [stdin_end]),
                *ways,
            ]
            folder = [job.folder] if plan.order["folder"] is None else []
            socket.send_fds(channel, [message], [*always, *folder, *([] if file is None else [file])])
            async with self._starting:
                process = await self._spawn(plan, far_end.fileno(), complaints_end)
            ours.pop_all()
        child = SubprocessJob(stdout, stderr, stdin)
        child.follow(process, channel, complaints)
        self._children.add(child)
        child.when_ended(lambda: self._children.discard(child))
        if group is not None:
            child.when_ended(group.remove)
        return child

    def _bounded_group(self, job: Job) -> pids_cgroup.PidsCgroup | None:
        group = pids_cgroup.create_group(self._groups)
        if group is not None:
            group.bound(job.limits.processes)
        return group

    async def _spawn(self, plan: LaunchSpec, channel: int, complaints: int) -> asyncio.subprocess.Process:
        words = ("-I", "-S", "-c", _CODE, str(channel), str(package().parent))
        try:
            return await asyncio.create_subprocess_exec(
                *(*plan.wrapper, str(interpreter()), *words),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=complaints,
                pass_fds=(channel, *plan.descriptors),
                cwd="/",
                env={},
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxUnavailable(
                f"the sandbox's process could not be started: {error.strerror}"
            ) from error


def _pipe(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    reading, writing = os.pipe()
    ours.callback(os.close, reading)
    theirs.callback(os.close, writing)
    os.set_blocking(reading, False)
    return reading, writing


def _input(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    reading, writing = os.pipe()
    ours.callback(os.close, writing)
    theirs.callback(os.close, reading)
    return writing, reading


def _reason_in(text: str) -> int:
    """The system's reason at the end of a complaint, by its words."""
    last = text.rsplit(": ", 1)[-1]
    return next((code for code in errno.errorcode if os.strerror(code) == last), errno.EPERM)
