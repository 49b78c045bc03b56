"""Rules that the writing tools share, checked before anything is changed."""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from interlock.core.errors import ErrorCode, ToolError
from interlock.redaction.redactor import MARK
from interlock.sandbox.file_changer import ChangeOrigin, FileChanger, NewContent
from interlock.sandbox.file_io import OpenFile, lstat_entry, open_file_in
from interlock.sandbox.hard_link_check import HardLinkCheck
from interlock.sandbox.paths import OpenParent, PathResolver, ResolvedPath
from interlock.tools.files.read_history import ReadHistory
from interlock.tools.files.text_format import HEAD_BYTES, TextFormat, binary_file_error, detect_text_format
from interlock.tools.result import FileTouch, ToolResult
from interlock.tools.tool import ToolContext, ToolLimits


@dataclass(frozen=True, slots=True)
class WriteServices:
    """The services of the writing tools."""

    changes: FileChanger
    seen: ReadHistory


@dataclass(frozen=True, slots=True)
class Replacement:
    """New content for a file, of the version that was judged; `known` is what the model then knows."""

    place: ResolvedPath
    version: str
    before_sha256: str
    new: NewContent
    known: tuple[tuple[int, int], ...]


@contextmanager
def existing_file(resolver: PathResolver, place: ResolvedPath) -> Iterator[tuple[OpenParent, OpenFile]]:
    """The file and its open parent directory; `FileNotFoundError` if missing."""
    with resolver.parent(place) as parent:
        shown = resolver.shown(place)
        with open_file_in(parent.descriptor, parent.name, shown) as file:
            # Its copy would be an ordinary file, readable to all agents here.
            HardLinkCheck(resolver).refuse_outside(file, shown)
            if not stat.S_IMODE(file.status.st_mode) & 0o222:
                raise ToolError(
                    ErrorCode.EXECUTION_ERROR,
                    f"{shown} is marked as read-only",
                    "Leave it unchanged, or tell the user that it should be changed.",
                    is_an_answer=True,
                )
            yield parent, file


def exists(resolver: PathResolver, place: ResolvedPath) -> bool:
    try:
        with resolver.parent(place) as parent:
            return lstat_entry(parent) is not None
    except FileNotFoundError:
        return False


def lstat_path(resolver: PathResolver, place: ResolvedPath) -> os.stat_result:
    """The status of a path, of the symlink itself if it is one."""
    with resolver.parent(place) as parent:
        status = lstat_entry(parent)
    if status is None:
        raise FileNotFoundError(2, os.strerror(2), place.name)
    return status


def refuse_with_roots(place: ResolvedPath, context: ToolContext, resolver: PathResolver) -> None:
    """An opened directory must not be moved or deleted, also inside another one."""
    if any(root.is_relative_to(place.path) for root in context.profile.readable_roots):
        raise ToolError(
            ErrorCode.PATH_DENIED,
            f"{resolver.shown(place)} contains an opened folder",
            "Choose a path that does not.",
        )


def existing_text_format(file: OpenFile, shown: str, limits: ToolLimits) -> TextFormat:
    """The format in which it was read: a small file is judged whole, a large one by its beginning."""
    head = file.read(0, file.size if file.size <= limits.max_read_bytes else HEAD_BYTES)
    form = detect_text_format(head, is_whole=len(head) == file.size)
    if form is None:
        raise binary_file_error(shown, file.size, head)
    return form


def make_content(data: bytes) -> NewContent:
    return NewContent(data, hashlib.sha256(data).hexdigest())


def apply_replacement(
    replacement: Replacement, write_services: WriteServices, resolver: PathResolver, context: ToolContext
) -> bool:
    """Replace the file, if it is still the version that was judged."""
    with existing_file(resolver, replacement.place) as (parent, file):
        if file.version != replacement.version:
            raise ToolError(
                ErrorCode.STALE_READ,
                f"{resolver.shown(replacement.place)} was changed by someone else in the meantime",
                "Read it again with read_file, then make the change if it still applies.",
            )
        return write_services.changes.replace(
            *(parent, replacement.place, file, iter((replacement.new.data,))),
            before_sha256=replacement.before_sha256,
            after_sha256=replacement.new.sha256,
            origin=change_origin(context),
            commit=context.cancel.begin_effect,
        )


def replacement_touches(replacement: Replacement) -> tuple[FileTouch, ...]:
    path, size = str(replacement.place.path), len(replacement.new.data)
    return tuple(
        make_touch(path, "replaced", replacement.new.sha256, size, span) for span in replacement.known
    )


def make_touch(path: str, action: str, sha256: str, size: int, seen: tuple[int, int]) -> FileTouch:
    return FileTouch(
        path=path,
        action=action,
        sha256=sha256,
        hashed_to=size,
        seen_from=seen[0],
        seen_to=seen[1],
    )


def change_origin(context: ToolContext) -> ChangeOrigin:
    return ChangeOrigin(context.session_id, context.call_id, context.scope.task)


def write_result(text: str, *, kept: bool, touched: tuple[FileTouch, ...], **meta: object) -> ToolResult:
    note = "" if kept else " (the previous content could not be saved; this cannot be undone)"
    return ToolResult(stdout=f"{text}{note}\n", meta={**meta, "can_be_undone": kept}, touched=touched)


def encode_text(text: str, form: TextFormat, what: str) -> bytes:
    """The text encoded for a file of that format."""
    half = next((character for character in text if "\ud800" <= character <= "\udfff"), None)
    if half is not None:
        raise ToolError(
            ErrorCode.INVALID_ARGS,
            f"{what}: {half!r} is half a character (a lone surrogate), which text cannot contain",
            "Write the whole character.",
        )
    return form.encode(text, what)


def refuse_oversized(
    size: int, limits: ToolLimits, what: str, next_action: str = "Write less at a time."
) -> None:
    if size > limits.max_write_bytes:
        raise ToolError(
            ErrorCode.LIMIT_EXCEEDED,
            f"{what}: {size} bytes exceed the write limit of {limits.max_write_bytes}",
            next_action,
        )


def count_redaction_marks(pieces: Iterable[bytes], form: TextFormat) -> int:
    """The number of redaction marks in a file, also across pieces."""
    mark, count, carry = MARK.encode(form.encoding), 0, b""
    for piece in pieces:
        text = carry + piece
        count += text.count(mark)
        carry = text[max(text.rfind(mark) + len(mark), len(text) - len(mark) + 1) :]
    return count


def refuse_redaction_marks(new_marks: int, old_marks: int, shown: str) -> None:
    """A copied redaction mark would overwrite the secret it replaces."""
    if new_marks > old_marks:
        raise masked(f"the text for {shown} contains {MARK}, which stands for a redacted secret")


def masked(message: str) -> ToolError:
    return ToolError(
        ErrorCode.REDACTED_CONTENT,
        f"{message} and is not in the file",
        "Do not change the secret parts: edit_file can change the text around them.",
    )
