"""Our ends of a child's pipes, read and written on demand: the pipe itself is the only buffer."""

import asyncio
import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Callable

from interlock.sandbox.jobs import JobExit

READ_BYTES = 64 * 1024
# How long to wait for a pipe that another process still holds, though the job is dead.
DRAIN_SECONDS = 0.1


class _PipeEnd:
    """Waits without blocking the loop, for one at a time."""

    def __init__(
        self,
        descriptor: int,
        listen: Callable[[int, Callable[[], None]], object],
        forget: Callable[[int], object],
    ) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._listen, self._forget = listen, forget
        self._waiter: asyncio.Future[None] | None = None

    def close(self) -> None:
        if self._descriptor >= 0:
            if self._waiter is not None:
                self._forget(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
            self._wake()

    async def _ready(self) -> None:
        if self._waiter is not None:
            raise RuntimeError("only one reader or writer can use an end of a pipe at a time")
        self._waiter = asyncio.get_running_loop().create_future()
        self._listen(self._descriptor, self._wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if self._descriptor >= 0:
                self._forget(self._descriptor)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class PipeOutput(_PipeEnd):
    """A child that writes faster than it is read blocks."""

    def __init__(self, descriptor: int) -> None:
        self._loop = asyncio.get_running_loop()
        super().__init__(descriptor, self._loop.add_reader, self._loop.remove_reader)
        self._is_over = False

    async def read(self, limit_bytes: int = READ_BYTES) -> bytes:
        """Some bytes as soon as there are any, or nothing at the end."""
        waited_for_the_rest = False
        while self._descriptor >= 0:
            try:
                return os.read(self._descriptor, limit_bytes)
            except BlockingIOError:
                if waited_for_the_rest:
                    break
            waited_for_the_rest = self._is_over
            if self._is_over:
                self._loop.call_later(DRAIN_SECONDS, self._wake)
            await self._ready()
        return b""

    def finish(self) -> None:
        """The job is dead: the pipe holds the last output."""
        self._is_over = True
        if self._waiter is not None:
            self._loop.call_later(DRAIN_SECONDS, self._wake)


class PipeInput(_PipeEnd):
    """Writing blocks while the child does not read."""

    def __init__(self, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(descriptor, loop.add_writer, loop.remove_writer)

    async def write(self, data: bytes) -> None:
        """Write everything; an `OSError` if the pipe is closed."""
        rest = memoryview(data)
        while rest:
            if self._descriptor < 0:
                raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                await self._ready()


class PipedJob(ABC):
    """A job with our ends of its pipes. The subclass reports how it ended, once."""

    def __init__(self, stdout: int, stderr: int, stdin: int | None) -> None:
        self.stdin = None if stdin is None else PipeInput(stdin)
        self.stdout = PipeOutput(stdout)
        self.stderr = PipeOutput(stderr)
        self._ended: asyncio.Future[JobExit] = asyncio.get_running_loop().create_future()

    @abstractmethod
    def kill(self) -> None:
        """Request its end, which comes even if not waited for."""

    async def wait(self) -> JobExit:
        return await asyncio.shield(self._ended)

    async def stop(self) -> JobExit:
        self.kill()
        return await self.wait()

    def finish(self, ended: JobExit) -> None:
        if not self._ended.done():
            self._ended.set_result(ended)
            self.stdout.finish()
            self.stderr.finish()

    def close(self) -> None:
        if self.stdin is not None:
            self.stdin.close()
        self.stdout.close()
        self.stderr.close()
