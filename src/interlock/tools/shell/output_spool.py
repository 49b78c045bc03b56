"""Spools the output of commands to the state directory, so that all of it can be paged.

It is stored as written and redacted when shown, in pages that never cut a secret. While a command runs, its
files have another name and are locked: files with that name and no lock were left by a killed process.
"""

import os
import secrets
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from interlock.core.file_lock import take_lock
from interlock.core.session_files import SessionFiles
from interlock.sandbox.undo_store import state_write_error

# Per stream; output beyond it is read and discarded.
MAX_STREAM_BYTES = 16 * 1024 * 1024
STREAMS = ("out", "err")
_RUNNING = ".running"


@dataclass(slots=True)
class SpooledStream:
    """One stream of one command. `size` is what is stored, `total` what was written.

    If the disk is full, the rest is discarded: the command keeps running.
    """

    descriptor: int
    size: int = 0
    total: int = 0
    limit: int = MAX_STREAM_BYTES

    def write(self, data: bytes) -> None:
        self.total += len(data)
        room = data[: self.limit - self.size]
        while room:
            try:
                written = os.write(self.descriptor, room)
            except OSError:
                self.limit = self.size
                return
            self.size += written
            room = room[written:]

    def read(self, offset: int, count: int) -> bytes:
        return os.pread(self.descriptor, count, offset)

    @property
    def is_whole(self) -> bool:
        return self.size == self.total


@dataclass(frozen=True, slots=True)
class SpooledOutput:
    """Both streams of one command, and the name to find them by."""

    name: str
    out: SpooledStream
    err: SpooledStream

    def close(self) -> None:
        for stream in (self.out, self.err):
            os.close(stream.descriptor)


class OutputSpool:
    """Limited: beyond `max_bytes` in total, the oldest are deleted."""

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self.files = SessionFiles(folder, max_bytes=max_bytes)

    def begin(self, session_id: str) -> SpooledOutput:
        try:
            return self._begun(session_id)
        except OSError as error:
            raise state_write_error(error, "its output cannot be stored; it was not run") from error

    def _begun(self, session_id: str) -> SpooledOutput:
        folder = self.files.make_directory(session_id)
        name = secrets.token_hex(8)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with ExitStack() as opened:
            descriptors = []
            for end in STREAMS:
                descriptors.append(os.open(folder / f"{name}.{end}{_RUNNING}", flags, 0o600))
                opened.callback(os.close, descriptors[-1])
                take_lock(descriptors[-1])
            opened.pop_all()
        return SpooledOutput(name, *map(SpooledStream, descriptors))

    def find(self, session_id: str, name: str) -> SpooledOutput | None:
        """The output of a command of this session; None if it is no longer stored."""
        if not name.isalnum():
            return None
        opened: list[SpooledStream] = []
        for end in STREAMS:
            path = self.files.directory_of(session_id) / f"{name}.{end}"
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                for stream in opened:
                    os.close(stream.descriptor)
                return None
            size = os.fstat(descriptor).st_size
            opened.append(SpooledStream(descriptor, size, size))
        return SpooledOutput(name, *opened)

    def keep(self, session_id: str, output: SpooledOutput) -> None:
        """Store the output of an ended command for `find`."""
        folder = self.files.directory_of(session_id)
        paths = [folder / f"{output.name}.{end}" for end in STREAMS]
        for path in paths:
            # It may be one of the oldest already.
            with suppress(FileNotFoundError):
                path.with_name(f"{path.name}{_RUNNING}").rename(path)
        self.files.make_room(output.out.size + output.err.size, spare=frozenset(paths))
        output.close()

    def let_go(self, session_id: str, output: SpooledOutput) -> None:
        """Delete output that no cursor refers to."""
        output.close()
        for end in STREAMS:
            with suppress(OSError):
                (self.files.directory_of(session_id) / f"{output.name}.{end}{_RUNNING}").unlink()

    def remove_abandoned(self) -> None:
        """Delete output of killed processes, to which no cursor refers."""
        for path, _ in self.files.files():
            if not path.name.endswith(_RUNNING):
                continue
            with suppress(OSError):
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    if take_lock(descriptor, patience_seconds=0):
                        path.unlink()
                finally:
                    os.close(descriptor)
