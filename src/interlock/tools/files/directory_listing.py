"""Pages of directory entries, in an order that a cursor can continue."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.files import open_beneath
from interlock.redaction.redactor import Redactor
from interlock.sandbox.directory_walk import MAX_DEPTH, DirectoryEntry, EntryKind, walk
from interlock.sandbox.paths import PathResolver, ResolvedPath
from interlock.tools.files.cursor import cursor_subject, make_cursor, read_cursor, stale_cursor, text_in
from interlock.tools.files.suggestions import not_found_error
from interlock.tools.paging import LinePage
from interlock.tools.result import ToolResult
from interlock.tools.tool import ToolContext

KIND_SUFFIXES = {EntryKind.folder: "/", EntryKind.link: "@", EntryKind.file: "", EntryKind.other: "="}

# How often a long walk checks for cancellation and reports its progress.
CHECK_EVERY = 512
PROGRESS_EVERY = 20_000

_MAX_NAMED = 5
_DIGEST_CHARS = 12


def accept_all(_entry: DirectoryEntry) -> bool:
    return True


def list_page(
    resolver: PathResolver,
    place: ResolvedPath,
    context: ToolContext,
    redactor: Redactor,
    *,
    chosen: Callable[[DirectoryEntry], bool] = accept_all,
    criteria: str = "",
    max_depth: int = 1,
    limit: int | None = None,
    cursor: str | None = None,
) -> ToolResult:
    """The chosen entries below a directory, as lines, from the cursor on."""
    subject = cursor_subject("list", place.path, criteria, max_depth)
    page = LinePage(context.limits, redactor, max_lines=limit)
    closed = _UnreadableDirectories(resolver, place, max_depth)
    looked_at = 0
    with resolver.folder(place) as folder:
        last = _last_shown(folder, *read_cursor(cursor, subject)) if cursor else ()
        for entry in walk(folder, max_depth=max_depth, after=last):
            looked_at += 1
            _keep_in_touch(looked_at, context)
            if chosen(entry):
                if not page.add(resolver.shown(place, entry.parts) + KIND_SUFFIXES[entry.kind]):
                    break
                last = entry.parts
            closed.look_at(entry)
        following = _cursor_behind(folder, last, subject) if page.is_full else None
    return ToolResult(
        stdout=page.text,
        stderr=closed.describe(),
        truncated_lines=page.truncated_lines,
        truncated_bytes=page.truncated_bytes,
        next_page_cursor=following,
        meta={"path": resolver.shown(place), "entries": len(page)},
        redacted=page.redacted,
    )


def require_directory(resolver: PathResolver, place: ResolvedPath) -> None:
    """Refuse, before any intent is recorded, if it is not a directory."""
    try:
        os.close(resolver.open(place, os.O_PATH | os.O_DIRECTORY))
    except FileNotFoundError:
        raise not_found_error(resolver, place) from None
    except NotADirectoryError:
        raise ToolError(
            ErrorCode.EXECUTION_ERROR,
            f"{resolver.shown(place)} is not a folder",
            "Give a folder, or use read_file for a file.",
            is_an_answer=True,
        ) from None


class _UnreadableDirectories:
    """Directories whose content is missing from a list, so that they are not taken for empty."""

    def __init__(self, resolver: PathResolver, place: ResolvedPath, max_depth: int) -> None:
        self._resolver, self._place, self._max_depth = resolver, place, max_depth
        self._unreadable: list[str] = []
        self._count = 0
        self._has_too_deep = False

    def look_at(self, entry: DirectoryEntry) -> None:
        if entry.kind is not EntryKind.folder:
            return
        if len(entry.parts) >= self._max_depth:
            self._has_too_deep |= self._max_depth >= MAX_DEPTH
        elif not os.access(entry.name, os.R_OK | os.X_OK, dir_fd=entry.folder, effective_ids=True):
            self._count += 1
            if self._count <= _MAX_NAMED:
                self._unreadable.append(self._resolver.shown(self._place, entry.parts))

    def describe(self) -> str:
        sentences = []
        if self._count:
            more = self._count - len(self._unreadable)
            named = ", ".join(self._unreadable) + (f" and {more} more" if more else "")
            sentences.append(f"no permission to read: {named}\n")
        if self._has_too_deep:
            sentences.append(f"folders more than {MAX_DEPTH} levels deep were not searched\n")
        return "".join(sentences)


def _keep_in_touch(count: int, context: ToolContext) -> None:
    if count % CHECK_EVERY == 0:
        context.cancel.check()
    if count % PROGRESS_EVERY == 0:
        context.report_progress(f"{count} entries read")


def _cursor_behind(folder: int, last: tuple[str, ...], subject: str) -> str:
    with _trail(folder) as folders:
        # If one has been removed, the cursor will be stale when used.
        with suppress(OSError):
            for name in last[:-1]:
                folders.append(_opened(folders[-1], name))
        version = _version(folders)
    return make_cursor(subject, version, {"after": "".join(map(_digest, last))})


def _last_shown(folder: int, version: str, position: dict[str, Any]) -> tuple[str, ...]:
    """The entry after which a cursor continues, if every directory on its path is unchanged."""
    digests = text_in(position, "after")
    names: list[str] = []
    try:
        with _trail(folder) as folders:
            for at in range(0, len(digests), _DIGEST_CHARS):
                if names:
                    folders.append(_opened(folders[-1], names[-1]))
                names.append(_name_with(digests[at : at + _DIGEST_CHARS], folders[-1]))
            is_same = version == _version(folders)
    except OSError:
        is_same = False
    if not is_same:
        raise stale_cursor("the folder")
    return tuple(names)


@contextmanager
def _trail(folder: int) -> Iterator[list[int]]:
    """The open directories on the path to an entry, from the listed one down."""
    folders = [folder]
    try:
        yield folders
    finally:
        for descriptor in folders[1:]:
            os.close(descriptor)


def _opened(folder: int, name: str) -> int:
    return open_beneath(folder, name, os.O_RDONLY | os.O_DIRECTORY)


def _name_with(digest: str, folder: int) -> str:
    with os.scandir(folder) as found:
        for entry in found:
            if _digest(entry.name) == digest:
                return entry.name
    raise FileNotFoundError


def _version(folders: list[int]) -> str:
    """Changes when a directory that is not fully listed yet gains or loses an entry."""
    times = [os.fstat(folder).st_mtime_ns for folder in folders]
    return sha256(repr(times).encode()).hexdigest()[:16]


def _digest(name: str) -> str:
    return sha256(os.fsencode(name)).hexdigest()[:_DIGEST_CHARS]
