"""Reads small text files that people write for agents. Only regular files with one link are read.

A symlink or second hard link could lead into a directory that an agent may write to: it could then edit its
own instructions.
"""

import codecs
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from interlock.core.files import open_beneath, read_bounded

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class InvalidFile(Exception):
    """Why a file is not read, as the end of a sentence that begins with its name."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


@dataclass(frozen=True, slots=True)
class RegularFile:
    """A file's bytes up to the limit, and its full size."""

    data: bytes
    size: int

    @property
    def is_cut(self) -> bool:
        return len(self.data) < self.size


@contextmanager
def open_directory(path: Path) -> Iterator[int | None]:
    """A descriptor of the directory, None if missing. It may be a symlink that the operator made."""
    try:
        descriptor = os.open(path, _FOLDER)
    except FileNotFoundError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def list_names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def read_regular_file(folder: int, name: str, limit_bytes: int) -> RegularFile | None:
    """The beginning of a file in that directory; None if missing, `InvalidFile` if not a regular file."""
    try:
        descriptor = open_beneath(folder, name, _FILE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidFile(_why(folder, name, error)) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InvalidFile("is not a regular file")
        if status.st_nlink > 1:
            raise InvalidFile("has more than one hard link; copy the file instead")
        data = read_bounded(descriptor, limit_bytes)
        # Ignore what was appended while reading.
        return RegularFile(data, max(status.st_size, len(data)) if len(data) == limit_bytes else len(data))
    except OSError as error:
        raise InvalidFile(f"cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)


def read_whole_file(folder: int, name: str, limit_bytes: int) -> RegularFile | None:
    """A file that is refused, not cut, if it is larger than the limit."""
    file = read_regular_file(folder, name, limit_bytes + 1)
    if file is not None and file.size > limit_bytes:
        raise InvalidFile(f"has {file.size} bytes; the limit is {limit_bytes}")
    return file


def _why(folder: int, name: str, error: OSError) -> str:
    try:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return "is a symlink; put the file itself there"
    except OSError:
        pass
    return f"cannot be read: {error.strerror}"


def decode_text(file: RegularFile) -> str:
    """The text as UTF-8 with \\n as line ends; `InvalidFile` names the line that is not text."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        # A cut may split a character: drop its first bytes.
        text = decoder.decode(file.data, final=not file.is_cut)
    except UnicodeDecodeError as error:
        line = file.data.count(b"\n", 0, error.start) + 1
        raise InvalidFile("is not UTF-8 text", line) from None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if found := _CONTROL.search(text):
        raise InvalidFile(
            f"contains the control character U+{ord(found[0]):04X}", text.count("\n", 0, found.start()) + 1
        )
    return text


def strip_comments(text: str, *, is_cut: bool = False) -> str:
    """Remove `<!-- … -->` comments. One that never ends is text, unless the file was cut."""
    pieces, position = [], 0
    while (begin := text.find("<!--", position)) >= 0:
        end = text.find("-->", begin + 4)
        if end < 0:
            if is_cut:
                pieces.append(text[position:begin])
                position = len(text)
            break
        pieces.append(text[position:begin])
        position = end + 3
    pieces.append(text[position:])
    return "".join(pieces).strip()
