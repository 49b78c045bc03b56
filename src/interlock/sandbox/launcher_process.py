"""The launcher as the server sees it: started in an isolated interpreter, and monitored."""

import asyncio
import errno
import marshal
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from interlock.sandbox.jobs import SandboxUnavailable

_START_SECONDS = 20.0
_CLOSE_SECONDS = 10.0
# The first directory on the path contains only the package; nothing else is importable from there.
_CODE = (
    "import sys; sys.path.insert(0, sys.argv[2]); "
    "from interlock.sandbox.child.launcher import main; main(int(sys.argv[1]))"
)
_REPORT_BYTES = 4096

# Hundreds of jobs are being sent: the channel is full, or an ordinary account has more descriptors under
# way than it may have open. A fork later there is room again.
BUSY = frozenset({errno.EAGAIN, errno.ETOOMANYREFS})
BUSY_SECONDS = 0.002


class LauncherProcess:
    """`listen` reports the key of each supervisor that has ended, and the launcher's own end."""

    def __init__(self, process: "subprocess.Popen[bytes]", channel: socket.socket) -> None:
        self.pid = process.pid
        self.is_alive = True
        self._process = process
        self._channel = channel
        self._sending = asyncio.Lock()
        self._on_gone: Callable[[int], None] = lambda _key: None
        self._on_death: Callable[[], None] = lambda: None

    @classmethod
    async def start(cls, system: Sequence[Path], devices: Sequence[Path]) -> "LauncherProcess":
        """Start it in a thread, since that takes a moment. Raises if nothing can confine."""
        try:
            process, channel = await asyncio.to_thread(_spawn)
        except OSError as error:
            raise SandboxUnavailable(f"children cannot be confined: {error}") from error
        channel.settimeout(0)
        loop = asyncio.get_running_loop()
        try:
            paths = ([os.fsencode(path) for path in some] for some in (system, devices))
            await loop.sock_sendall(channel, marshal.dumps(tuple(paths)))
            async with asyncio.timeout(_START_SECONDS):
                answer = await loop.sock_recv(channel, _REPORT_BYTES)
            _refuse_unfit(answer)
        except BaseException:
            channel.close()
            process.kill()
            await asyncio.shield(asyncio.to_thread(process.wait))
            raise
        return cls(process, channel)

    def listen(self, on_gone: Callable[[int], None], on_death: Callable[[], None]) -> None:
        self._on_gone, self._on_death = on_gone, on_death
        asyncio.get_running_loop().add_reader(self._channel, self._hear)

    async def spawn_supervisor(self, key: int, channel: socket.socket) -> None:
        """Ask for a supervisor at the other end of a channel. It may be used at once."""
        async with self._sending:
            while True:
                try:
                    socket.send_fds(self._channel, [marshal.dumps(key)], [channel.fileno()])
                    return
                except OSError as error:
                    if error.errno not in BUSY:
                        raise
                    await asyncio.sleep(BUSY_SECONDS)

    async def close(self) -> int:
        """Its exit code, once everything that descended from it is dead."""
        self._forget()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                return await asyncio.to_thread(self._process.wait, _CLOSE_SECONDS)
        except (TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            return await asyncio.to_thread(self._process.wait)

    def _hear(self) -> None:
        try:
            message = self._channel.recv(_REPORT_BYTES)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self._forget()
            self._on_death()
            return
        _gone, key = marshal.loads(message)  # noqa: S302 - from our own child
        self._on_gone(key)

    def _forget(self) -> None:
        self.is_alive = False
        with suppress(ValueError, RuntimeError):
            asyncio.get_running_loop().remove_reader(self._channel)
        self._channel.close()


def _refuse_unfit(answer: bytes) -> None:
    if not answer:
        raise SandboxUnavailable("children cannot be confined: the launcher did not start")
    kind, *reason = marshal.loads(answer)  # noqa: S302 - from our own child, over its socket
    if kind != "ready":
        raise SandboxUnavailable(f"children cannot be confined: {reason[0]}")


def _spawn() -> "tuple[subprocess.Popen[bytes], socket.socket]":
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    package = str(Path(__file__).parents[2])
    with theirs:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own file
            [sys.executable, "-I", "-S", "-c", _CODE, str(theirs.fileno()), package],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            # A Ctrl-C in the server's terminal is the server's business.
            start_new_session=True,
        )
    return process, ours
