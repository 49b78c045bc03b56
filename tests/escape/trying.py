"""One attempt from within the sandbox, who outside would hear of it, and what it changed of files."""

import os
import socket
from pathlib import Path

from interlock.sandbox.jobs import ExitReason
from tests.escape.attempts import program
from tests.harness.sandbox import SECRET

KINDS = ("chat", "coding")


class Listener:
    """Somebody outside who would hear: on a port, by path, by abstract name, by datagram."""

    def __init__(self, place: Path) -> None:
        self.path = str(place / "sock")
        self.sockets = [socket.create_server(("127.0.0.1", 0))]
        self.port = self.sockets[0].getsockname()[1]
        for name in (self.path, "\0" + self.path):
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(name)
            listening.listen()
            self.sockets.append(listening)

    def close(self) -> None:
        for one in self.sockets:
            one.close()


async def attempt(sandbox, body: str, *, kind: str, listener: Listener | None = None, **options) -> str:
    port, path = (listener.port, listener.path) if listener else (9, "/nowhere")
    done = await sandbox.python(
        program(body),
        *(str(sandbox.outside), str(sandbox.inside), str(os.getpid()), str(port), path),
        kind=kind,
        **options,
    )
    assert done.ended.reason is ExitReason.exited, (done.ended, done.err)
    assert "Traceback" not in done.err, done.err
    assert SECRET not in done.both
    return done.out.strip()


def facts(file: Path) -> tuple[int, int, int, int]:
    found = file.stat(follow_symlinks=False)
    return found.st_mode, found.st_uid, found.st_mtime_ns, found.st_ctime_ns


def snapshot(folder: Path) -> list[tuple[int, int, int, int]]:
    return [facts(path) for path in sorted(folder.iterdir())]
