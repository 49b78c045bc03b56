"""Carries messages between the processes of one machine: a Unix socket in the state directory.

The first process is the hub: it passes each message to all others. When it ends, the next process that
notices takes over. Messages are not kept for absent processes.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from interlock.core.file_lock import open_lock_file, take_lock
from interlock.core.logging import StructuredLogger
from interlock.runtime.bus import (
    BusMessage,
    MessageHandler,
    ResyncRequested,
    decode_message,
    encode_message,
)

_log = StructuredLogger(__name__)

SOCKET, LOCK = "wire.sock", "wire.lock"
RETRY_SECONDS = 0.2
MAX_LINE_BYTES = 4 * 1024 * 1024
# A peer with this much unread data does not keep up; it is disconnected, and reconnects.
MAX_UNREAD_BYTES = 4 * 1024 * 1024


class UnixSocketTransport:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ends: set[_Peer] = set()
        self._receive: MessageHandler = lambda _message: None
        self.is_host = False
        self._logged_error = ""

    @property
    def is_connected(self) -> bool:
        return self.is_host or bool(self._ends)

    @property
    def has_others(self) -> bool:
        return bool(self._ends)

    def send(self, message: BusMessage) -> None:
        if self._ends:
            self._pass_on(encode_message(message) + b"\n", None)

    def watch(self, session_id: str) -> None:
        # Every process receives all messages; earlier text must be requested.
        self.send(ResyncRequested(session_id))

    def unwatch(self, session_id: str) -> None:
        pass

    def watch_changes(self) -> None:
        pass

    async def run(self, receive: MessageHandler, has_room: Callable[[], bool]) -> None:  # noqa: ARG002 - all get all
        self._receive = receive
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                # With the store elsewhere, the directory may not exist yet.
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                if await self._join():
                    self._logged_error = ""
                else:
                    await self._host()
            except OSError as error:
                # Log each error once: joining is retried several times a second.
                level = _log.debug if str(error) == self._logged_error else _log.warning
                level("wire_broken", error=str(error))
                self._logged_error = str(error)
            # Do not retry too soon; a hub that ends after a while is replaced at once.
            if loop.time() - began < RETRY_SECONDS:
                await asyncio.sleep(RETRY_SECONDS)

    # -- as a peer --

    async def _join(self) -> bool:
        """Stay connected until the hub ends; False if there is none."""
        loop = asyncio.get_running_loop()
        with _short_path(self._folder) as folder:
            try:
                _, end = await loop.create_unix_connection(lambda: _Peer(self), f"{folder}/{SOCKET}")
            except (FileNotFoundError, ConnectionRefusedError):
                return False
        try:
            await end.closed.wait()
        finally:
            end.close()
        return True

    # -- as the hub --

    async def _host(self) -> None:
        """Serve until cancelled; return at once if another process holds the lock."""
        lock = open_lock_file(self._folder / LOCK)
        try:
            if take_lock(lock, patience_seconds=0):
                await self._serve()
        finally:
            os.close(lock)

    async def _serve(self) -> None:
        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as listening:
            self._bind(listening)
            loop = asyncio.get_running_loop()
            # Started below: if cancelled while starting, we would not get the server and could not close
            # it.
            server = await loop.create_unix_server(lambda: _Peer(self), sock=listening, start_serving=False)
            try:
                await server.start_serving()
                self.is_host = True
                await asyncio.Event().wait()
            finally:
                self.is_host = False
                server.close()
                # While the lock is still held: the next hub creates its own socket.
                (self._folder / SOCKET).unlink(missing_ok=True)
                for end in tuple(self._ends):
                    end.close()

    def _bind(self, listening: socket.socket) -> None:
        with _short_path(self._folder) as folder:
            path = Path(folder) / SOCKET
            # We hold the lock: an existing socket was left by a dead process.
            path.unlink(missing_ok=True)
            # The directory is accessible to its owner only; a umask would affect all threads.
            listening.bind(str(path))
            path.chmod(0o600)
        listening.listen(64)
        listening.settimeout(0)

    # -- messages --

    def on_connect(self, end: "_Peer") -> None:
        self._ends.add(end)

    def on_disconnect(self, end: "_Peer") -> None:
        self._ends.discard(end)

    def on_line(self, line: bytes, source: "_Peer") -> None:
        if self.is_host:
            self._pass_on(line + b"\n", source)
        message = decode_message(line)
        if message is not None:
            self._receive(message)

    def _pass_on(self, line: bytes, source: "_Peer | None") -> None:
        for end in tuple(self._ends):
            if end is not source:
                end.write(line)


class _Peer(asyncio.Protocol):
    """One connection, seen from either side."""

    def __init__(self, owner: UnixSocketTransport) -> None:
        self._owner = owner
        self._rest = bytearray()
        self._transport: asyncio.Transport | None = None
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of a stream socket
        self._transport = transport
        if not _is_ours(transport.get_extra_info("socket")):
            transport.abort()
            return
        self._owner.on_connect(self)

    def connection_lost(self, _error: Exception | None) -> None:
        self._owner.on_disconnect(self)
        self.closed.set()

    def data_received(self, data: bytes) -> None:
        # Do not rescan a line that arrives byte by byte.
        self._rest += data
        if b"\n" in data:
            *lines, rest = bytes(self._rest).split(b"\n")
            self._rest = bytearray(rest)
            for line in lines:
                self._owner.on_line(line, self)
        if len(self._rest) > MAX_LINE_BYTES:
            self.close()

    def write(self, line: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            transport.abort()
            return
        transport.write(line)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _is_ours(connected: socket.socket) -> bool:
    """Whether the peer runs as the same account or root. The directory's permissions ensure it too."""
    found = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", found)
    return uid in {os.geteuid(), 0}


@contextmanager
def _short_path(folder: Path) -> Iterator[str]:
    """A path of the directory that is short enough for a socket address, however deep it is."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
