"""Reads small files from the kernel's caches, names and content, without blocking.

This runs on the event loop, so it must never wait for a disk, a server or another process. Names are looked
up only if cached, a file is checked before it is opened, only files of local disks are opened, and only
cached content is read. Everything else is None, and is read in a thread.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from interlock.core.files import open_cached, statx_cached
from interlock.sandbox.file_io import Check, OpenFile
from interlock.sandbox.paths import PathResolver, ResolvedPath

# What the event loop can redact in a fraction of a millisecond.
MAX_BYTES = 16 * 1024

# File systems where this kernel alone answers an open and a stat. FUSE and network file systems may ask a
# process that does not answer.
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
    """The resolved path, if it has no symlinks, and its file, each as far as cached."""
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
    """Open the path with O_PATH only, from its root and without following a symlink."""
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
    """A regular, small file of a local disk, without another name that might be outside."""
    look = statx_cached(found)
    return (
        stat.S_ISREG(look.mode)
        and look.size <= MAX_BYTES
        and (look.links == 1 or resolver.profile.reads_hard_links)
        and look.device in _local_devices()
    )


def _content(found: int) -> CachedFile | None:
    # By its descriptor: what was checked is what is opened, whatever has its name by now.
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
    """The devices mounted at the first call. Files of later ones are read in a thread."""
    devices = set()
    for line in _MOUNTS.read_text(errors="surrogateescape").splitlines():
        fields = line.split(" ")
        major, _, minor = fields[2].partition(":")
        if fields[fields.index("-") + 1] in _LOCAL:
            devices.add((int(major), int(minor)))
    return frozenset(devices)
