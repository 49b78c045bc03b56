"""Archives a directory as a stream of bytes, and extracts it, without leaving the directory."""

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import BinaryIO

from interlock.core.files import open_beneath
from interlock.sandbox.directory_walk import MAX_DEPTH, DirectoryEntry, EntryKind, walk
from interlock.sandbox.file_io import open_file_in

# The kernel accepts no longer path; deeper entries could not be restored.
_MAX_NAME_BYTES = 4000

# Names are bytes; those that are not text are restored exactly.
_NAMES = "surrogateescape"

_MODIFIED = "INTERLOCK.modified_ns"


def archive_size(folder: int) -> int | None:
    """The estimated size of the archive of an open directory; None if it is too deep."""
    total = 0
    for entry in walk(folder):
        length = len(os.fsencode("/".join(entry.parts)))
        if length > _MAX_NAME_BYTES or (entry.kind is EntryKind.folder and len(entry.parts) >= MAX_DEPTH):
            return None
        status = os.stat(entry.name, dir_fd=entry.folder, follow_symlinks=False)
        total += 1024 + 3 * length + (status.st_size if stat.S_ISREG(status.st_mode) else 0)
    return total


def archived(folder: int) -> Iterator[bytes]:
    """A tar archive of everything in an open directory: files, directories, symlinks and pipes."""
    buffer = _WriteBuffer()
    with tarfile.open(
        fileobj=buffer, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8", errors=_NAMES
    ) as archive:
        for entry in walk(folder):
            _add(archive, entry)
            yield from buffer.taken()
    yield from buffer.taken()


def archive_hash(folder: int) -> str:
    """A hash that is the same as long as nothing in an open directory changes."""
    digest = hashlib.sha256()
    for piece in archived(folder):
        digest.update(piece)
    return digest.hexdigest()


def tree_fingerprint(folder: int) -> str:
    """A hash of the names, permissions and contents in a directory, without times."""
    digest = hashlib.sha256()
    for entry in walk(folder):
        status = os.stat(entry.name, dir_fd=entry.folder, follow_symlinks=False)
        content = b""
        if entry.kind is EntryKind.link:
            content = os.fsencode(os.readlink(entry.name, dir_fd=entry.folder))
        elif entry.kind is EntryKind.file:
            with open_file_in(entry.folder, entry.name, entry.name) as file:
                content = file.sha256(lambda: None).encode()
        name = os.fsencode("/".join(entry.parts))
        digest.update(b"%o %s %s\n" % (status.st_mode, name.hex().encode(), content.hex().encode()))
    return digest.hexdigest()


def extract_archive(stream: BinaryIO, folder: int) -> None:
    """Fill an open, empty directory from an archive made here."""
    folders: list[tarfile.TarInfo] = []
    with tarfile.open(fileobj=stream, mode="r|", encoding="utf-8", errors=_NAMES) as archive:
        for member in archive:
            _refuse_odd_names(member.name)
            if member.isdir():
                _in_parent(folder, member.name, _make_folder)
                folders.append(member)
            elif member.issym():
                _in_parent(folder, member.name, partial(_make_link, member))
            elif member.isfifo():
                _in_parent(folder, member.name, partial(_make_pipe, member))
            elif member.isreg() and (content := archive.extractfile(member)) is not None:
                _in_parent(folder, member.name, partial(_write, content.read(), member))
    # Last, innermost first: a read-only directory must be filled before.
    for member in reversed(folders):
        _in_parent(folder, member.name, partial(_finish_folder, member))


def restore_metadata(descriptor: int, mode: int, owner: tuple[int, int] | None, modified_ns: int) -> None:
    """The owner, permissions and time that something had, as far as this account may set them."""
    if owner is not None:
        with suppress(OSError):
            os.fchown(descriptor, *owner)
    os.fchmod(descriptor, mode & 0o1777)
    with suppress(OSError):
        os.utime(descriptor, ns=(modified_ns, modified_ns))


class _WriteBuffer(io.RawIOBase):
    """Collects written bytes until they are taken."""

    def __init__(self) -> None:
        super().__init__()
        self._held = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]
        self._held += view
        return len(view)

    def taken(self) -> Iterator[bytes]:
        data = bytes(self._held)
        self._held.clear()
        if data:
            yield data


def _add(archive: tarfile.TarFile, entry: DirectoryEntry) -> None:
    info = tarfile.TarInfo("/".join(entry.parts))
    status = os.stat(entry.name, dir_fd=entry.folder, follow_symlinks=False)
    info.mode, info.uid, info.gid = stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid
    # As text: a number with a fraction would lose the last digits.
    info.pax_headers = {_MODIFIED: str(status.st_mtime_ns)}
    if entry.kind is EntryKind.folder:
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
    elif entry.kind is EntryKind.link:
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(entry.name, dir_fd=entry.folder)
        archive.addfile(info)
    elif entry.kind is EntryKind.file:
        with open_file_in(entry.folder, entry.name, entry.name) as file:
            data = file.read(0, file.size)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    elif stat.S_ISFIFO(status.st_mode):
        info.type = tarfile.FIFOTYPE
        archive.addfile(info)


def _refuse_odd_names(name: str) -> None:
    if any(part in {"", ".", ".."} for part in name.split("/")):
        raise ValueError(f"a name in the archive leads outside it: {name!r}")


def _in_parent(folder: int, name: str, act: Callable[[int, str], object]) -> None:
    above, _, last = name.rpartition("/")
    parent = open_beneath(folder, above or ".", os.O_PATH | os.O_DIRECTORY)
    try:
        act(parent, last)
    finally:
        os.close(parent)


def _make_folder(folder: int, name: str) -> None:
    os.mkdir(name, 0o700, dir_fd=folder)


def _make_link(member: tarfile.TarInfo, folder: int, name: str) -> None:
    os.symlink(member.linkname, name, dir_fd=folder)
    _finish_unopened(member, folder, name)


def _make_pipe(member: tarfile.TarInfo, folder: int, name: str) -> None:
    os.mkfifo(name, member.mode & 0o777, dir_fd=folder)
    _finish_unopened(member, folder, name)


def _finish_unopened(member: tarfile.TarInfo, folder: int, name: str) -> None:
    with suppress(OSError):
        os.chown(name, member.uid, member.gid, dir_fd=folder, follow_symlinks=False)
    with suppress(OSError):
        os.utime(name, ns=(_modified(member),) * 2, dir_fd=folder, follow_symlinks=False)


def _write(data: bytes, member: tarfile.TarInfo, folder: int, name: str) -> None:
    descriptor = os.open(
        name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder
    )
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        _finish(member, stream.fileno())
        os.fsync(stream.fileno())


def _finish_folder(member: tarfile.TarInfo, folder: int, name: str) -> None:
    descriptor = open_beneath(folder, name, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _finish(member, descriptor)
    finally:
        os.close(descriptor)


def _finish(member: tarfile.TarInfo, descriptor: int) -> None:
    restore_metadata(descriptor, member.mode, (member.uid, member.gid), _modified(member))


def _modified(member: tarfile.TarInfo) -> int:
    return int(member.pax_headers.get(_MODIFIED, 0))
