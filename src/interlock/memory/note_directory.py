"""The directory of notes: lists and reads them. Symlinks are not followed, hidden names are skipped."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from interlock.core.files import open_beneath, read_bounded

SUFFIXES = (".md", ".markdown", ".txt")
MAX_NOTES = 50_000
MAX_DEPTH = 32
MAX_NOTE_BYTES = 1024 * 1024

# Read beyond the limit and cut off again after redaction, so that no half of a secret is left at the end.
_MARGIN_BYTES = 64 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY

Check = Callable[[], None]
Redact = Callable[[str], str]


# What changes whenever a file does, as far as the file system knows: inode, size, modification time and
# change time. A plain tuple, since a search makes thousands.
NoteState = tuple[int, int, int, int]


def note_state(status: os.stat_result) -> NoteState:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@dataclass(frozen=True, slots=True)
class NoteText:
    """A note's bytes up to the limit, and whether it was longer."""

    state: NoteState
    data: bytes
    is_cut: bool

    def text(self, redact: Redact) -> str:
        """The redacted text; empty for a binary file."""
        safe = redact(_decoded(self.data, is_cut=self.is_cut))
        return safe[:-_MARGIN_BYTES] if self.is_cut else safe


class NoteDirectory:
    """`WORKSPACE_DIR/memory`. It may be a symlink that the operator made; symlinks in it are ignored."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def opened(self) -> Iterator[int | None]:
        """A descriptor of the directory; None if it does not exist yet."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            yield None
            return
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def notes(self, check: Check) -> dict[str, NoteState]:
        """The state of every note by its path below the directory. Unreadable directories are skipped."""
        found: dict[str, NoteState] = {}
        with self.opened() as folder:
            if folder is not None:
                _walk(folder, "", 0, found, check)
        return found

    def read(self, path: str) -> NoteText | None:
        """A note; None if it is gone or no longer a regular file."""
        with self.opened() as folder, suppress(OSError):
            if folder is not None:
                with _opened(folder, path, _FILE) as descriptor:
                    return _read(descriptor)
        return None


def is_note_name(name: str) -> bool:
    return name[0] != "." and (name.endswith(SUFFIXES) or name.lower().endswith(SUFFIXES))


def _walk(folder: int, prefix: str, depth: int, found: dict[str, NoteState], check: Check) -> None:
    check()
    below: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if is_note_name(name) and entry.is_file(follow_symlinks=False):
                try:
                    found[prefix + name] = note_state(entry.stat(follow_symlinks=False))
                except OSError:
                    continue
                if len(found) >= MAX_NOTES:
                    return
            elif name[0] != "." and entry.is_dir(follow_symlinks=False):
                below.append(name)
    if depth == MAX_DEPTH:
        return
    for name in sorted(below):
        with suppress(OSError), _opened(folder, name, _FOLDER) as inner:
            _walk(inner, f"{prefix}{name}/", depth + 1, found, check)


@contextmanager
def _opened(folder: int, path: str, flags: int) -> Iterator[int]:
    """Open a file or directory below; a symlink on the way, or at its end, is an error."""
    descriptor = open_beneath(folder, path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> NoteText | None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return None
    data = read_bounded(descriptor, MAX_NOTE_BYTES + _MARGIN_BYTES)
    is_cut = status.st_size > len(data)
    return NoteText(note_state(status), data, is_cut)


def _decoded(data: bytes, *, is_cut: bool) -> str:
    """Text in UTF-8, UTF-16 with a byte order mark, or cp1252; empty if it is binary."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if b"\0" in data:
        return ""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The cut may have split a character.
        if is_cut and error.start >= len(data) - 3:
            return data.decode("utf-8-sig", "ignore")
        return data.decode("cp1252", "replace")
