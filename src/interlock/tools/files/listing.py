"""Pages of names: what lies in a folder, in an order that a cursor can go on in."""

import os
from collections.abc import Callable
from hashlib import sha256

from interlock.infra.errors import ErrorCode, ToolError
from interlock.redaction.redactor import Redactor
from interlock.sandbox.kernel import open_beneath
from interlock.sandbox.paths import Place, Territory
from interlock.sandbox.tree import Entry, Kind, walk
from interlock.tools.base import ToolContext
from interlock.tools.files.cursor import make_cursor, parts_in, read_cursor, stale_cursor, subject_of
from interlock.tools.output import LinePage
from interlock.tools.result import ToolResult

_MARKS = {Kind.folder: "/", Kind.link: "@", Kind.file: "", Kind.other: "="}

# How often a long walk looks whether it should stop, and tells how far it is.
CHECK_EVERY = 512
TELL_EVERY = 20_000


def everything(_entry: Entry) -> bool:
    return True


def list_page(
    territory: Territory,
    place: Place,
    context: ToolContext,
    redactor: Redactor,
    *,
    chosen: Callable[[Entry], bool] = everything,
    criteria: str = "",
    max_depth: int = 1,
    limit: int | None = None,
    cursor: str | None = None,
) -> ToolResult:
    """The entries below a folder that were chosen, as lines, from where the cursor says."""
    subject = subject_of("list", place.path, criteria, max_depth, limit)
    version, position = read_cursor(cursor, subject) if cursor else ("", {})
    after = parts_in(position, "after") if cursor else ()
    page = LinePage(context.limits, redactor, max_lines=limit)
    last, looked_at = after, 0
    with territory.folder(place) as folder:
        if cursor and version != _version(folder, after):
            raise stale_cursor("the folder")
        for entry in walk(folder, max_depth=max_depth, after=after):
            looked_at += 1
            _keep_in_touch(looked_at, context)
            if not chosen(entry):
                continue
            if not page.add(territory.shown(place, entry.parts) + _MARKS[entry.kind]):
                break
            last = entry.parts
        has_more = page.truncated_lines or page.truncated_bytes
        following = (
            make_cursor(subject, _version(folder, last), {"after": list(last)}) if has_more else None
        )
    return ToolResult(
        stdout=page.text,
        truncated_lines=page.truncated_lines,
        truncated_bytes=page.truncated_bytes,
        next_page_cursor=following,
        meta={"path": territory.shown(place), "entries": len(page)},
    )


def require_folder(territory: Territory, place: Place) -> None:
    """Refused while nothing is intended yet, where it is something else."""
    try:
        os.close(territory.open(place, os.O_PATH | os.O_DIRECTORY))
    except NotADirectoryError:
        raise ToolError(
            ErrorCode.EXECUTION_ERROR,
            f"{territory.shown(place)} is not a folder",
            "Name a folder, or use read_file for a file.",
        ) from None


def _keep_in_touch(count: int, context: ToolContext) -> None:
    if count % CHECK_EVERY == 0:
        context.cancel.check()
    if count % TELL_EVERY == 0:
        context.report_progress(f"{count} entries looked at")


def _version(folder: int, after: tuple[str, ...]) -> str:
    """Changes when a folder that is not yet listed to its end gets or loses an entry."""
    times = [os.fstat(folder).st_mtime_ns]
    for depth in range(1, len(after)):
        try:
            below = open_beneath(folder, "/".join(after[:depth]), os.O_PATH | os.O_DIRECTORY)
        except OSError:
            times.append(-1)
            continue
        times.append(os.fstat(below).st_mtime_ns)
        os.close(below)
    return sha256(repr(times).encode()).hexdigest()[:16]
