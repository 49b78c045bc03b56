"""Small files that are in the kernel's memory, names and content, read without waiting for anything.

This is done on the event loop, so it must never reach a disk, a server or another process. Names are
looked up only where they are cached, a file is looked at before it is opened, only those of local disks
are opened, and of them only cached content is read. All else is None, and belongs on a thread.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from interlock.sandbox.file_io import Check, OpenFile
from interlock.sandbox.linux_fs import open_cached, statx_cached
from interlock.sandbox.paths import PathResolver, ResolvedPath

# What the event loop can look through for secrets in a fraction of a millisecond.
MAX_BYTES = 16 * 1024

# Where opening a file and asking for its size are answered by this kernel alone. Unlike them, a FUSE or a
# network file system may ask somebody who does not answer.
_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "f2fs"})

_MOUNTS = Path("/proc/self/mountinfo")
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class CachedFile(OpenFile):
    """A file that was read whole when it was opened, and is closed again."""

    content: bytes

    def read(self, offset: int, count: int) -> bytes:
        return self.content[offset : offset + count]

    def chunks(self, check: Check, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        check()
        yield self.content[start:end]


def find_cached(resolver: PathResolver, asked: str) -> tuple[ResolvedPath, CachedFile | None] | None:
    """The place of a path that has no links in it, and the file there, each as far as it is in memory."""
    place = resolver.resolve_without_symlinks(asked)
    if place is None:
        return None
    try:
        found = _open(place)
    except OSError:
        return None
    try:
        return place, _content(found) if _is_ours_to_open(found, resolver) else None
    except OSError:
        return place, None
    finally:
        os.close(found)


def _open(place: ResolvedPath) -> int:
    """The place itself, not yet opened for reading, from its root and without passing through a link."""
    top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        root = open_cached(top, str(place.root)[1:] or ".", os.O_PATH | os.O_DIRECTORY)
    finally:
        os.close(top)
    try:
        return open_cached(root, place.relative, os.O_PATH)
    finally:
        os.close(root)


def _is_ours_to_open(found: int, resolver: PathResolver) -> bool:
    """A regular, small file of a local disk, which has no other name that might lie outside."""
    look = statx_cached(found)
    return (
        stat.S_ISREG(look.mode)
        and look.size <= MAX_BYTES
        and (look.links == 1 or resolver.profile.reads_hard_links)
        and look.device in _local_devices()
    )


def _content(found: int) -> CachedFile | None:
    # By its descriptor: what was looked at is what is opened, whatever has its name by now.
    descriptor = os.open(f"/proc/self/fd/{found}", _READ)
    try:
        status = os.fstat(descriptor)
        buffer = bytearray(MAX_BYTES + 1)
        count = os.preadv(descriptor, [buffer], 0, os.RWF_NOWAIT)
    finally:
        os.close(descriptor)
    # A part of it may have been in memory, or it has just grown.
    return CachedFile(-1, status, bytes(buffer[:count])) if count == status.st_size else None


@cache
def _local_devices() -> frozenset[tuple[int, int]]:
    """Those mounted when it is first asked for. What is mounted later is read on a thread."""
    devices = set()
    for line in _MOUNTS.read_text(errors="surrogateescape").splitlines():
        fields = line.split(" ")
        major, _, minor = fields[2].partition(":")
        if fields[fields.index("-") + 1] in _LOCAL:
            devices.add((int(major), int(minor)))
    return frozenset(devices)
