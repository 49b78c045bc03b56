"""Adds dated entries to notes: atomically, durably, and without losing what others write."""

import errno
import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.file_lock import open_lock_file, take_lock
from interlock.core.files import new_file, open_beneath, read_bounded
from interlock.core.text import sanitize_text
from interlock.memory.authorship import AuthorLines, NoteAuthor, describe_author
from interlock.memory.conditional_replace import NoteChanged, compare_and_swap
from interlock.memory.note_directory import (
    MAX_NOTE_BYTES,
    NoteDirectory,
    NoteState,
    Redact,
    is_note_name,
    note_state,
)

_LOCK = ".lock"
_MAX_NAME_BYTES = 120
_MAX_TITLE_CHARS = 200
# How often an entry is tried while a person keeps saving the same note.
_TRIES = 100
_LOCK_POLL_SECONDS = 0.01

_NOT_IN_NAME = re.compile(r"[\W_]+")
# Punctuation that a name may lose without becoming another name.
_PLAIN_PUNCTUATION = re.compile(r"[\w\s.,:;!?'\"()\[\]/&\u00b7\u2010-\u201f-]*")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]+")


@dataclass(frozen=True, slots=True)
class AppendResult:
    """The entry's position. `path` is below the memory directory."""

    path: str
    absolute_path: str
    line: int
    bytes_written: int
    created: bool
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class NoteEntry:
    """An entry, already redacted; `has_masks` if anything was masked."""

    content: str
    title: str
    stem: str
    time: datetime
    author_line: str
    has_masks: bool = False

    def text(self, *, is_first: bool) -> str:
        head = f"# {self.title or f'{self.time:%Y-%m-%d}'}\n\n" if is_first else ""
        return f"{head}## {time_stamp(self.time)}\n\n{self.author_line}\n\n{self.content}\n"


class NoteWriter:
    """The only part of Interlock that writes to the memory directory."""

    def __init__(self, folder: NoteDirectory, redact: Redact, authors: AuthorLines) -> None:
        self._folder = folder
        self._redact = redact
        self._authors = authors

    def entry(self, content: str, title: str, time: datetime, author: NoteAuthor) -> NoteEntry:
        """An entry that may be stored. Empty content is refused."""
        given = sanitize_text(content.replace("\r\n", "\n"))
        redacted = self._redact(given)
        safe = redacted.strip("\n")
        if not safe.strip():
            raise ToolError(ErrorCode.INVALID_ARGS, "content: is empty", "Give the text to save.")
        given_title = sanitize_text(title)
        safe_title = self._redact(given_title)
        line = " ".join(_CONTROLS.sub(" ", safe_title).split())
        stem = slug(line) if line else f"{time:%Y-%m-%d}"
        shown_title = line[:_MAX_TITLE_CHARS].strip()
        has_masks = redacted != given or safe_title != given_title
        statement = describe_author(time_stamp(time), author.redacted(self._redact))
        try:
            author_line = self._authors.line(statement, safe.rstrip())
        except OSError as error:
            raise ToolError(
                ErrorCode.EXECUTION_ERROR,
                f"the key of author lines cannot be used: {error.strerror or type(error).__name__}",
                "Tell the user that the state folder must be writable.",
            ) from error
        return NoteEntry(safe.rstrip(), shown_title, stem, time, author_line, has_masks)

    def append(
        self, entry: NoteEntry, commit: Callable[[], None], check: Callable[[], None]
    ) -> AppendResult:
        """`commit` is called right before the entry becomes visible, `check` while waiting."""
        try:
            with self._locked(check) as folder:
                for _ in range(_TRIES):
                    with suppress(NoteChanged, FileExistsError):
                        return _append(folder, self._folder.path, entry, commit)
        except OSError as error:
            raise _unwritable(self._folder, error) from error
        raise ToolError(
            ErrorCode.EXECUTION_ERROR,
            "the note kept changing while the entry was being added",
            "Try again, or use another title.",
        )

    @contextmanager
    def _locked(self, check: Callable[[], None]) -> Iterator[int]:
        """The directory, created if needed, while no other process adds to it."""
        self._folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._folder.opened() as folder:
            if folder is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._folder.path))
            lock = open_lock_file(_LOCK, within=folder)
            try:
                check()
                while not take_lock(lock, patience_seconds=_LOCK_POLL_SECONDS):
                    check()
                yield folder
            finally:
                os.close(lock)


def time_stamp(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} {time.isoformat()[-6:]}"


def slug(title: str) -> str:
    """A file name for a title: its letters and digits of any script, and nothing special.

    If that loses what distinguishes titles, a few digits of its hash are added.
    """
    normal = unicodedata.normalize("NFC", unicodedata.normalize("NFKC", title).casefold())
    plain = _NOT_IN_NAME.sub("-", normal).strip("-")
    cut = plain.encode()[:_MAX_NAME_BYTES].decode(errors="ignore").strip("-")
    if cut and cut == plain and _PLAIN_PUNCTUATION.fullmatch(normal):
        return cut
    return f"{cut or 'note'}-{hashlib.sha256(normal.encode()).hexdigest()[:6]}"


def _append(folder: int, path: Path, entry: NoteEntry, commit: Callable[[], None]) -> AppendResult:
    name, old = _place_for(folder, entry)
    before = b"" if old is None else old.data
    first = before == b"" or not before.strip()
    added = entry.text(is_first=first).encode()
    gap = b"" if first else (b"\n" if before.endswith(b"\n") else b"\n\n")
    if b"\r\n" in before:
        added, gap = added.replace(b"\n", b"\r\n"), gap.replace(b"\n", b"\r\n")
    data = before + gap + added
    with new_file(folder, 0o600) as new:
        if old is not None:
            with suppress(PermissionError):
                os.fchown(new.descriptor, old.status.st_uid, old.status.st_gid)
            os.fchmod(new.descriptor, stat.S_IMODE(old.status.st_mode))
        new.write(data)
        os.fsync(new.descriptor)
        commit()
        if old is None:
            new.appear_as(name)
        else:
            compare_and_swap(folder, new.named(), name, old.state)
    os.fsync(folder)
    return AppendResult(
        path=name,
        absolute_path=str(path / name),
        line=(before + gap).count(b"\n") + 1,
        bytes_written=len(gap + added),
        created=old is None,
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
    )


@dataclass(frozen=True, slots=True)
class _Existing:
    state: NoteState
    status: os.stat_result
    data: bytes


def _place_for(folder: int, entry: NoteEntry) -> tuple[str, _Existing | None]:
    """The note of that title, or a new name if there is none that can be added to."""
    names = sorted(os.listdir(folder))
    size = len(entry.text(is_first=True).encode())
    for number in count(1):
        stem = entry.stem if number == 1 else f"{entry.stem}-{number}"
        usual = f"{stem}.md"
        same = [name for name in names if _is_called(name, stem)]
        for name in sorted(same, key=lambda name: name != usual):
            found = _existing(folder, name)
            if found is not None and len(found.data) + size <= MAX_NOTE_BYTES:
                return name, found
        if usual not in names:
            return usual, None
    raise AssertionError("there is always a next number")


def _is_called(name: str, stem: str) -> bool:
    """Whether it is that note, or one that a person named by its title in another spelling."""
    own = name.rsplit(".", 1)[0]
    return is_note_name(name) and stem in {own, slug(own)}


def _existing(folder: int, name: str) -> _Existing | None:
    """A note that can be added to: a regular file, with text, of bounded size."""
    try:
        descriptor = open_beneath(folder, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO}:
            return None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_NOTE_BYTES:
            return None
        data = read_bounded(descriptor, MAX_NOTE_BYTES + 1)
    finally:
        os.close(descriptor)
    if b"\0" in data or data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None
    return _Existing(note_state(status), status, data)


def _unwritable(folder: NoteDirectory, error: OSError) -> ToolError:
    return ToolError(
        ErrorCode.EXECUTION_ERROR,
        f"the memory folder {folder.path} cannot be written: {error.strerror or type(error).__name__}",
        "Tell the user that the workspace (WORKSPACE_DIR) must be a folder that Interlock can write to.",
    )
