"""A folder as one stream of bytes and back, without ever leaving the folder."""

import io
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO

from interlock.sandbox.files import opened_in
from interlock.sandbox.kernel import open_beneath
from interlock.sandbox.tree import Entry, Kind, walk


def size_of(folder: int) -> int:
    """About how large the archive of an open folder will be."""
    return sum(_entry_size(entry) for entry in walk(folder))


def _entry_size(entry: Entry) -> int:
    status = os.stat(entry.name, dir_fd=entry.folder, follow_symlinks=False)
    return 1024 + (status.st_size if stat.S_ISREG(status.st_mode) else 0)


def archived(folder: int) -> Iterator[bytes]:
    """A tar archive of everything in an open folder: files, folders and links."""
    buffer = _Pieces()
    with tarfile.open(fileobj=buffer, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for entry in walk(folder):
            _add(archive, entry)
            yield from buffer.taken()
    yield from buffer.taken()


def restore_into(stream: BinaryIO, folder: int) -> None:
    """Fill an open, empty folder from an archive made here."""
    permissions: list[tuple[str, int]] = []
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            _refuse_odd_names(member.name)
            if member.isdir():
                _in_parent(folder, member.name, _make_folder)
                permissions.append((member.name, member.mode))
            elif member.issym():
                _in_parent(folder, member.name, partial(_make_link, member.linkname))
            elif member.isreg() and (content := archive.extractfile(member)) is not None:
                _in_parent(folder, member.name, partial(_write, content.read(), member.mode))
    for name, mode in reversed(permissions):
        _in_parent(folder, name, partial(_set_mode, mode))


class _Pieces(io.RawIOBase):
    """Collects what is written until it is taken."""

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


def _add(archive: tarfile.TarFile, entry: Entry) -> None:
    info = tarfile.TarInfo("/".join(entry.parts))
    status = os.stat(entry.name, dir_fd=entry.folder, follow_symlinks=False)
    info.mode, info.mtime = stat.S_IMODE(status.st_mode), int(status.st_mtime)
    if entry.kind is Kind.folder:
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
    elif entry.kind is Kind.link:
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(entry.name, dir_fd=entry.folder)
        archive.addfile(info)
    elif entry.kind is Kind.file:
        with opened_in(entry.folder, entry.name, entry.name) as file:
            data = file.read(0, file.size)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def _refuse_odd_names(name: str) -> None:
    if name.startswith("/") or ".." in name.split("/"):
        raise ValueError(f"a name in the archive leads out of it: {name!r}")


def _in_parent(folder: int, name: str, act: Callable[[int, str], object]) -> None:
    above, _, last = name.rpartition("/")
    parent = open_beneath(folder, above or ".", os.O_PATH | os.O_DIRECTORY)
    try:
        act(parent, last)
    finally:
        os.close(parent)


def _make_folder(folder: int, name: str) -> None:
    os.mkdir(name, 0o700, dir_fd=folder)


def _make_link(target: str, folder: int, name: str) -> None:
    os.symlink(target, name, dir_fd=folder)


def _write(data: bytes, mode: int, folder: int, name: str) -> None:
    descriptor = os.open(
        name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder
    )
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        os.fchmod(stream.fileno(), mode & 0o1777)


def _set_mode(mode: int, folder: int, name: str) -> None:
    descriptor = open_beneath(folder, name, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fchmod(descriptor, mode & 0o1777)
    finally:
        os.close(descriptor)
