"""Finds sessions by their titles and messages.

The newest sessions are searched first, up to a bounded number of rows.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from interlock.core.errors import UserError
from interlock.core.text import sanitize_text
from interlock.db.driver import DbConnection
from interlock.redaction.redactor import MARK
from interlock.sessions.manager import read_sessions
from interlock.sessions.models import Session, SessionListFilter

_SAID = """
SELECT seq, text FROM event_texts WHERE stream = ? AND {WORDS} ORDER BY seq DESC LIMIT ?
"""
_HAS_WORD = {"sqlite": "text LIKE ? ESCAPE '!'", "postgresql": "text ILIKE ? ESCAPE '!'"}

MAX_QUERY_CHARS = 200
MAX_WORDS = 10
MAX_SESSIONS = 2000
# Over all sessions together. A session's events are counted, of which its messages are a part.
MAX_ROWS = 500_000
PER_SESSION = 3
_SESSIONS_AT_ONCE = 100
# Where the database can only match roughly, more rows are read and checked here.
_ROUGH_ROWS = 50

SNIPPET_CHARS = 120
_LEAD_CHARS = 40
_ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class SessionMatch:
    """`seq` is the message's number; None for a match in the title."""

    session: Session
    seq: int | None
    snippet: str


class _Wanted:
    """The query: all its words, ignoring case, anywhere in one text."""

    def __init__(self, text: str) -> None:
        self.words = text.split(maxsplit=MAX_WORDS - 1)
        self._places = [re.compile(re.escape(word), re.IGNORECASE) for word in self.words]
        self._side_by_side = re.compile(re.escape(text), re.IGNORECASE)

    def place(self, text: str) -> tuple[int, int] | None:
        """The span to show: the words as they were written, else the first of them."""
        hits = [place.search(text) for place in self._places]
        if hits[0] is None or None in hits:
            return None
        return (self._side_by_side.search(text) or hits[0]).span()


def search_sessions(connection: DbConnection, query: str, *, limit: int) -> list[SessionMatch]:
    """Where all the words occur: the session that was used last comes first."""
    text = sanitize_text(query.strip())
    if not text:
        return []
    if len(text) > MAX_QUERY_CHARS:
        raise UserError(f"query: can have at most {MAX_QUERY_CHARS} characters")
    return list(islice(_matches(connection, _Wanted(text)), limit))


def _matches(connection: DbConnection, wanted: _Wanted) -> Iterator[SessionMatch]:
    asked = [_pattern(word) for word in wanted.words]
    patterns, is_rough = [pattern for pattern, _ in asked], any(rough for _, rough in asked)
    statement = _SAID.replace("{WORDS}", " AND ".join(_HAS_WORD[connection.dialect] for _ in patterns))
    looked_at = 0
    for session in _sessions(connection):
        if span := wanted.place(session.title):
            yield SessionMatch(session, None, snippet(session.title, span))
        looked_at += session.last_seq
        if looked_at > MAX_ROWS:
            continue
        parameters = (session.id, *patterns, _ROUGH_ROWS if is_rough else PER_SESSION)
        rows = connection.query(statement, parameters)
        found = ((seq, content, wanted.place(content)) for seq, content in rows)
        said = ((seq, content, span) for seq, content, span in found if span)
        for seq, content, place in islice(said, PER_SESSION):
            yield SessionMatch(session, seq, snippet(content, place))


def _sessions(connection: DbConnection) -> Iterator[Session]:
    """Archived ones too, but no deleted ones."""
    for offset in range(0, MAX_SESSIONS, _SESSIONS_AT_ONCE):
        found = read_sessions(
            connection, SessionListFilter.all, include_archived=True, limit=_SESSIONS_AT_ONCE, offset=offset
        )
        yield from found
        if len(found) < _SESSIONS_AT_ONCE:
            return


def _pattern(text: str) -> tuple[str, bool]:
    """The LIKE pattern, and whether it may match more than is wanted.

    SQLite ignores case in ASCII alone: other letters with case become a wildcard.
    """
    pieces, is_rough = [], False
    for character in text:
        if not character.isascii() and character.lower() != character.upper():
            pieces.append("_")
            is_rough = True
        else:
            pieces.append(f"!{character}" if character in "%_!" else character)
    return f"%{''.join(pieces)}%", is_rough


def snippet(text: str, span: tuple[int, int]) -> str:
    """The text around a span, on one line; a redaction mark is shown whole or not at all."""
    start = max(0, span[0] - _LEAD_CHARS)
    end = min(len(text), max(start + SNIPPET_CHARS, span[1]))
    reach = len(MARK) - 1
    near = max(0, start - reach)
    for mark in re.finditer(re.escape(MARK), text[near : end + reach]):
        first, last = near + mark.start(), near + mark.end()
        start = first if first < start < last else start
        end = last if first < end < last else end
    shown = " ".join(text[start:end].split())
    return f"{_ELLIPSIS if start > 0 else ''}{shown}{_ELLIPSIS if end < len(text) else ''}"
