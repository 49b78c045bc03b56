"""A job as sent from the server to a supervisor: one message, or a memory file if it is long.

Both ends run the same interpreter and files, so the format is Python's own; jobs never see it. It imports
nothing of Interlock: it is loaded into the launcher.
"""

import _socket
import marshal
import os

STOP = b"S"
_IN_A_FILE = b"F"
# A message over a Unix socket is bounded by the socket's buffer, some 200 kB.
MAX_MESSAGE_BYTES = 128 * 1024
_MAX_DESCRIPTORS = 8
_INT_BYTES = 4


class JobMessage:
    """What a supervisor needs to run a job; `limits` are pairs for setrlimit."""

    argv: list[bytes]
    environment: dict[bytes, bytes]
    readable: list[bytes]
    optional: list[bytes]
    writable: list[bytes]
    ports: list[int]
    limits: list[tuple[int, int]]
    max_tasks: int | None
    max_memory_bytes: int | None
    linger_seconds: float
    has_stdin: bool

    def __init__(self, packed: bytes) -> None:
        for name, value in marshal.loads(packed).items():  # noqa: S302 - from the server, over its own socket
            setattr(self, name, value)


def encode(order: dict[str, object]) -> tuple[bytes, int | None]:
    """The message, and the descriptor of a memory file if it would be too long."""
    packed = marshal.dumps(order)
    if len(packed) <= MAX_MESSAGE_BYTES:
        return packed, None
    descriptor = os.memfd_create("job", os.MFD_CLOEXEC)
    view = memoryview(packed)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return _IN_A_FILE, descriptor


def decode(message: bytes, descriptors: list[int]) -> tuple[bytes, list[int]]:
    """The bytes of a `JobMessage`, and its descriptors."""
    if message != _IN_A_FILE:
        return message, descriptors
    *rest, file = descriptors
    packed = b""
    while piece := os.read(file, 1 << 20):
        packed += piece
    os.close(file)
    return packed, rest


def receive(channel: _socket.socket) -> tuple[bytes, list[int]]:
    """Receive a message and its descriptors; empty when the peer has closed."""
    try:
        data, ancillary, _flags, _address = channel.recvmsg(
            *(MAX_MESSAGE_BYTES + 4096, _socket.CMSG_SPACE(_MAX_DESCRIPTORS * _INT_BYTES)),
            _socket.MSG_CMSG_CLOEXEC,
        )
    except ConnectionError:
        return b"", []
    found: list[int] = []
    for level, kind, content in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            whole = len(content) - len(content) % _INT_BYTES
            found += memoryview(content[:whole]).cast("i").tolist()
    return data, found


def send_report(channel: _socket.socket, *facts: str | int | None) -> None:
    """Send a short report to the server; lost if it has ended, which is noticed elsewhere."""
    try:
        channel.send(marshal.dumps(facts), _socket.MSG_NOSIGNAL)
    except OSError:
        return


def send_exit(channel: _socket.socket, reason: str, status: int) -> None:
    """Report how a job ended: the reason, if any, and the status of `waitpid`."""
    if not reason:
        reason = "signalled" if os.WIFSIGNALED(status) else "exited"
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    send_report(channel, reason, code, number, 0, "")
