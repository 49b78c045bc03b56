"""What a session has read of a file, and whether the file is unchanged."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import orjson

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.text import sanitize_text
from interlock.db.driver import DbConnection
from interlock.log.kinds import merge_payload
from interlock.sandbox.file_io import Check, OpenFile

READ_OUTCOMES = """
SELECT seq, facts, content FROM events
WHERE stream = ? AND seq < ? AND kind = 'tool_call.completed' AND content IS NOT NULL
ORDER BY seq DESC LIMIT 200
"""

_NEWEST = 2**62

# A call that wrote the whole content knows it; earlier ones do not matter.
_WHOLE = frozenset({"created", "replaced"})

Touch = dict[str, Any]
Span = tuple[int, int]


class ReadHistory:
    """Reads the session's own log: which spans were read or written, and their hashes."""

    def __init__(self, reading: Callable[[], AbstractContextManager[DbConnection]]) -> None:
        self._reading = reading

    def current(self, session_id: str, path: str, file: OpenFile, shown: str, check: Check) -> list[Span]:
        """The spans of the file that this session knows and that are unchanged, sorted and merged.

        Refuses a file that it has not read, or that changed since.
        """
        with self._reading() as connection:
            touches = list(_touches(connection, session_id, path))
        if not touches:
            raise _read_required(shown, "has not been read in this session")
        hashes: dict[Span, str] = {}

        def is_current(touch: Touch) -> bool:
            span = (touch["hashed_from"], touch["hashed_to"])
            if span[1] > file.size:
                return False
            if span not in hashes:
                hashes[span] = file.sha256(check, *span)
            return hashes[span] == str(touch["sha256"])

        newest = touches[0]
        if newest["size"] not in {None, file.size} or not is_current(newest):
            raise _stale(shown)
        return _joined([(touch["seen_from"], touch["seen_to"]) for touch in touches if is_current(touch)])


def require_read(known: list[Span], wanted: list[Span], shown: str) -> None:
    """`known` is sorted and merged, so only the last span that begins before a position can contain it."""
    for start, end in wanted:
        last = bisect_right(known, start, key=lambda span: span[0]) - 1
        if last < 0 or end > known[last][1]:
            raise _read_required(shown, "has only been read in part, not where you want to change it")


def _joined(spans: list[Span]) -> list[Span]:
    joined: list[Span] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def _touches(connection: DbConnection, session_id: str, path: str) -> Iterator[Touch]:
    """Newest first, back to the last time this session wrote the whole file or saw it removed."""
    # As stored in the log. Names that are not text may look alike there; the hash distinguishes them.
    path = sanitize_text(path)
    quoted = orjson.dumps(path).decode()
    for facts, content in _outcomes(connection, session_id):
        if quoted not in content:
            continue
        outcome = merge_payload(facts, content)
        touches = [touch for touch in outcome.get("files", ()) if touch.get("path") == path]
        if any(touch.get("sha256") is None for touch in touches):
            return
        for touch in touches:
            yield {**touch, "size": _size_then(touch, outcome)}
        if any(touch["action"] in _WHOLE for touch in touches):
            return


def _size_then(touch: Touch, outcome: dict[str, Any]) -> int | None:
    """The size of the file then, if the call that touched it saw its end."""
    saw_all = touch["hashed_to"] > touch["seen_to"] or not (
        outcome.get("truncated_lines") or outcome.get("truncated_bytes")
    )
    return int(touch["hashed_to"]) if saw_all or touch["action"] != "read" else None


def _outcomes(connection: DbConnection, session_id: str) -> Iterator[tuple[str, str]]:
    before = _NEWEST
    while rows := connection.query(READ_OUTCOMES, (session_id, before)):
        before = rows[-1][0]
        for _seq, facts, content in rows:
            yield facts, content


def _read_required(shown: str, reason: str) -> ToolError:
    return ToolError(
        ErrorCode.READ_REQUIRED, f"{shown} {reason}", "Read it with read_file first, then change it."
    )


def _stale(shown: str) -> ToolError:
    return ToolError(
        ErrorCode.STALE_READ,
        f"{shown} was changed by someone else since you last read it",
        "Read it again with read_file, then make the change if it still applies.",
    )
