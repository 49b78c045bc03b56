"""Runs jobs under Landlock: the server's side of the launcher.

`launcher.py` is started early, as a process of its own. For each job this takes an idle supervisor or asks
the launcher to fork one, sends it the job with the ends of two pipes, and receives how it ended. Nothing
here waits for the end of a pipe, which another process might hold, and nothing blocks the event loop.

If the launcher dies, its supervisors kill their jobs; that is reported, and another one is started.
"""

import asyncio
import marshal
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from interlock.core.logging import StructuredLogger
from interlock.sandbox.child.job_message import MAX_MESSAGE_BYTES, STOP, encode
from interlock.sandbox.job_pipes import PipedJob
from interlock.sandbox.jobs import (
    DEVICES,
    ExitReason,
    Job,
    JobExit,
    SandboxUnavailable,
    system_paths,
)
from interlock.sandbox.launcher_process import BUSY, BUSY_SECONDS, LauncherProcess

# Supervisors that wait for the next job. Each has about a megabyte to itself.
MAX_IDLE = 8
_START_TRIES = 3

Result = TypeVar("Result")

_log = StructuredLogger(__name__)


def _log_loss(text: str) -> None:
    _log.error("the sandbox's launcher died", detail=text)


class LandlockJob(PipedJob):
    """A job sent to a supervisor."""

    def __init__(
        self, worker: "_SupervisorClient", stdout: int, stderr: int, stdin: int | None = None
    ) -> None:
        super().__init__(stdout, stderr, stdin)
        self._worker = worker

    def kill(self) -> None:
        if not self._ended.done():
            self._worker.send_stop()


class _SupervisorClient:
    """A supervisor: the channel to it and the job it has, if any."""

    def __init__(self, key: int, channel: socket.socket, launcher: LauncherProcess) -> None:
        self.key = key
        self.channel = channel
        self.launcher = launcher
        self.child: LandlockJob | None = None
        self.is_gone = False

    def begin(self, job: Job) -> LandlockJob:
        """Send a job. An `OSError` means that it was not sent."""
        message, file = encode(_order(job))
        theirs: list[int] = [] if file is None else [file]
        ours: list[int] = []
        try:
            for _ in ("stdout", "stderr"):
                reading, writing = os.pipe()
                ours.append(reading)
                theirs.insert(len(ours) - 1, writing)
            if job.has_stdin:
                reading, writing = os.pipe()
                ours.append(writing)
                theirs.insert(len(ours) - 1, reading)
            socket.send_fds(self.channel, [message], [job.folder, *theirs])
        except BaseException:
            for descriptor in ours:
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        self.child = LandlockJob(self, *ours)
        return self.child

    def send_stop(self) -> None:
        # If the supervisor has ended, the job's end is reported already.
        with suppress(OSError):
            self.channel.send(STOP)

    def close(self) -> None:
        """Close the channel, which ends the supervisor and its job."""
        if self.channel.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self.channel)
            self.channel.close()


class LandlockBackend:
    """`report` is called with a sentence when the launcher died."""

    def __init__(
        self,
        *,
        system: Sequence[Path] | None = None,
        report: Callable[[str], None] = _log_loss,
    ) -> None:
        self._system = system_paths() if system is None else tuple(system)
        self._report = report
        self._launcher: LauncherProcess | None = None
        self._starting = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._workers: dict[int, _SupervisorClient] = {}
        self._idle: list[_SupervisorClient] = []
        self._last_key = 0
        self._is_closed = False

    @property
    def name(self) -> str:
        return "landlock"

    @property
    def launcher_pid(self) -> int | None:
        return self._launcher.pid if self._launcher else None

    async def start(self) -> None:
        """Start the launcher, if none runs. `SandboxUnavailable` where children cannot be confined."""
        if self._launcher is None or self._is_closed:
            # Continues if the caller is cancelled: a half-started launcher would be lost.
            await asyncio.shield(self._remember(self._start()))

    async def _start(self) -> None:
        async with self._starting:
            if self._is_closed:
                raise SandboxUnavailable("the sandbox is closed")
            if self._launcher is None:
                launcher = await LauncherProcess.start(self._system, DEVICES)
                launcher.listen(self._bury, lambda: self._lose(launcher))
                self._launcher = launcher

    @asynccontextmanager
    async def running(self, job: Job) -> AsyncIterator[LandlockJob]:
        """The job as a child. Nothing of it is left when the context ends."""
        child = await self._begin(job)
        try:
            yield child
        finally:
            child.kill()
            child.close()
            await child.wait()

    async def close(self) -> None:
        """Kill every job and the launcher."""
        self._is_closed = True
        await asyncio.gather(*self._tasks, return_exceptions=True)
        launcher, self._launcher = self._launcher, None
        for worker in self._workers.values():
            worker.close()
        if launcher is not None:
            await launcher.close()
        for worker in self._workers.values():
            if worker.child is not None:
                worker.child.finish(JobExit(ExitReason.stopped))
        self._workers.clear()
        self._idle.clear()

    # -- supervisors --

    async def _begin(self, job: Job) -> LandlockJob:
        tries = 0
        while tries < _START_TRIES:
            worker = await self._worker()
            try:
                return worker.begin(job)
            except (BrokenPipeError, ConnectionResetError):
                # It died while it was idle; nothing was started.
                worker.close()
                self._workers.pop(worker.key, None)
                tries += 1
            except OSError as error:
                # It was not sent, and the supervisor is as idle as before.
                self._idle.append(worker)
                if error.errno not in BUSY:
                    raise
                await asyncio.sleep(BUSY_SECONDS)
        raise SandboxUnavailable("the sandbox's launcher dies immediately after its start")

    async def _worker(self) -> _SupervisorClient:
        while self._idle:
            worker = self._idle.pop()
            if not worker.is_gone and worker.launcher.is_alive:
                return worker
        return await self._new_worker()

    async def _new_worker(self) -> _SupervisorClient:
        await self.start()
        launcher = self._launcher
        if launcher is None:
            raise SandboxUnavailable("the sandbox is closed")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._last_key += 1
        worker = _SupervisorClient(self._last_key, ours, launcher)
        ours.settimeout(0)
        # Whatever the system's default is, a message must fit.
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MAX_MESSAGE_BYTES)
        try:
            with theirs:
                await launcher.spawn_supervisor(worker.key, theirs)
        except BaseException:
            ours.close()
            raise
        self._workers[worker.key] = worker
        asyncio.get_running_loop().add_reader(ours, self._hear, worker)
        return worker

    def _hear(self, worker: _SupervisorClient) -> None:
        try:
            message = worker.channel.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self._let_go(worker)
            return
        reason, code, signal, error, step = marshal.loads(message)  # noqa: S302 - from our own child
        child, worker.child = worker.child, None
        if len(self._idle) < MAX_IDLE and reason != ExitReason.launcher_lost:
            self._idle.append(worker)
        else:
            self._workers.pop(worker.key, None)
            worker.close()
        if child is not None:
            child.finish(JobExit(ExitReason(reason), code, signal, error, step))

    def _let_go(self, worker: _SupervisorClient) -> None:
        """A supervisor has ended. Its job's processes fall to the launcher, which reports their end."""
        worker.close()
        worker.is_gone = True
        if worker in self._idle:
            self._idle.remove(worker)
        if worker.child is None or not worker.launcher.is_alive:
            self._bury(worker.key)

    def _bury(self, key: int) -> None:
        worker = self._workers.pop(key, None)
        if worker is None:
            return
        worker.close()
        worker.is_gone = True
        if worker.child is not None:
            worker.child.finish(JobExit(ExitReason.launcher_lost))

    def _lose(self, launcher: LauncherProcess) -> None:
        """The launcher died. Its supervisors notice, kill their jobs and report it, one by one."""
        self._launcher = None
        for worker in [worker for worker in self._workers.values() if worker.launcher is launcher]:
            if worker.is_gone:
                self._bury(worker.key)
        self._remember(launcher.close())
        if not self._is_closed:
            self._report("its jobs were killed; a new launcher is being started")
            self._remember(self._start_again())

    def _remember(self, work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        """Keep a background task, which `close` waits for."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _start_again(self) -> None:
        try:
            await self._start()
        except (SandboxUnavailable, OSError, TimeoutError) as error:
            # The next job tries again, and is refused with the reason.
            self._report(f"it could not be restarted: {error}")


def _order(job: Job) -> dict[str, object]:
    profile = job.profile
    return job.order() | {
        "readable": [os.fsencode(path) for path in _outermost(profile.readable_roots)],
        "optional": [os.fsencode(path) for path in job.readable_paths],
        "writable": [
            os.fsencode(path) for path in (*_outermost(profile.writable_roots), *job.private_folders)
        ],
    }


def _outermost(roots: tuple[Path, ...]) -> list[Path]:
    """The outermost roots: a rule covers everything below.

    A nested root may have become a symlink, which is not followed and must not block all commands.
    """
    return [one for one in roots if not any(one != other and one.is_relative_to(other) for other in roots)]
