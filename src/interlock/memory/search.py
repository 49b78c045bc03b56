"""Finds notes: updates the index, fetches passages by FTS5, ranks them, cuts snippets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from interlock.db.driver import DbConnection
from interlock.memory.authorship import NoteAuthor, parse_author
from interlock.memory.index import PASSAGE_BITS, MemoryIndex
from interlock.memory.note_directory import Check
from interlock.memory.note_writer import time_stamp
from interlock.memory.query_expansion import QueryTerm, find_query_terms
from interlock.memory.ranking import PassageCandidate, PassageRanker, RankedNote
from interlock.memory.snippets import snippet
from interlock.memory.tokenizer import query_words

# The best by bm25() with the weights of the columns; of each note only the first few, since a long one may
# have a word in more passages than are ranked.
CANDIDATES = """
SELECT p.rowid, p.head, p.words, p.day
FROM (
    SELECT id, score FROM (
        SELECT id, score, row_number() OVER (PARTITION BY id >> ? ORDER BY score) AS place
        FROM (SELECT rowid AS id, rank AS score FROM passages WHERE passages MATCH ?)
    ) WHERE place <= ? ORDER BY score LIMIT ?
) AS best JOIN passages AS p ON p.rowid = best.id
ORDER BY best.score
"""
HIT = """
SELECT n.path, n.title, p.heading, p.line, p.day, p.text, p.author, n.changed_ns
FROM passages AS p JOIN notes AS n ON n.id = p.rowid >> ? WHERE p.rowid = ?
"""
LINE = "SELECT line FROM passages WHERE rowid = ?"
# The table in which FTS5 keeps one short row for each passage.
COUNT_PASSAGES = "SELECT count(*) FROM passages_docsize"

MAX_QUERY_CHARS = 10_000
MAX_WORDS = 48
# The passages that are ranked: in all, and of one note.
IN_ALL, OF_ONE_NOTE = 150, 30
# The lengths of a hit's snippet, heading and title; shorter where many hits have to fit into a result.
SNIPPET_CHARS, HEADING_CHARS, TITLE_CHARS = 240, 1200, 200
MANY, SHORT_SNIPPET_CHARS, SHORT_HEADING_CHARS, SHORT_TITLE_CHARS = 12, 100, 80, 40
MAX_ALSO = 3

# A word in more than this share of all passages is not looked up while others are rarer.
_TOO_COMMON = 0.25


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A note that was found. `path` is below the memory directory.

    Without `author`, no tool wrote the text, or it was edited since: `written_at` is then the file's time.
    """

    path: str
    title: str
    heading: str
    line: int
    day: str | None
    snippet: str
    score: float
    also_lines: tuple[int, ...]
    written_at: str
    author: NoteAuthor | None


@dataclass(frozen=True, slots=True)
class MemorySearchResult:
    """The result of a search. `problem` says why the index may be behind the notes."""

    hits: tuple[SearchHit, ...]
    notes: int
    had_words: bool
    corrected: dict[str, str]
    problem: str


class MemorySearch:
    def __init__(
        self, index: MemoryIndex, today: Callable[[], date] = lambda: datetime.now(UTC).date()
    ) -> None:
        self._index = index
        self._today = today

    def search(self, query: str, limit: int, check: Check) -> MemorySearchResult:
        """The best notes for a query. Blocking; call it in a thread."""
        asked = query_words(query[:MAX_QUERY_CHARS], MAX_WORDS)

        def look(connection: DbConnection) -> tuple[tuple[SearchHit, ...], dict[str, str]]:
            check()
            terms = find_query_terms(connection, asked)
            total = int(connection.query(COUNT_PASSAGES)[0][0])
            candidates = _candidates(connection, terms, total)
            check()
            ranked = PassageRanker(terms, total, self._today()).notes(candidates)[:limit]
            wanted = frozenset(form for term in terms if term.asked.weight > 0.1 for form in term.forms)
            hits = tuple(
                _hit(connection, note, wanted, is_short=limit > MANY) for note in ranked if note.passage_ids
            )
            return hits, {term.asked.text: term.corrected for term in terms if term.corrected}

        read = self._index.read(look, check)
        hits, corrected = read.value
        return MemorySearchResult(hits, read.notes, bool(asked), corrected, read.problem)


def _candidates(connection: DbConnection, terms: Sequence[QueryTerm], total: int) -> list[PassageCandidate]:
    """Passages worth ranking. Words are of letters and digits: none means anything to FTS5."""
    present = [term for term in terms if term.forms]
    telling = [term for term in present if term.passages <= max(_TOO_COMMON * total, 20)] or present
    forms = dict.fromkeys(form for term in telling for form in term.forms)
    if not forms:
        return []
    match = " OR ".join(f'"{form}"' for form in forms)
    rows = connection.query(CANDIDATES, (PASSAGE_BITS, match, OF_ONE_NOTE, IN_ALL))
    return [
        PassageCandidate(row[0], row[0] >> PASSAGE_BITS, row[1].split(), row[2].split(), row[3])
        for row in rows
    ]


def _hit(
    connection: DbConnection, note: RankedNote, wanted: frozenset[str], *, is_short: bool
) -> SearchHit:
    first, *others = note.passage_ids[: 1 + MAX_ALSO]
    ((path, title, heading, line, day, text, statement, changed_ns),) = connection.query(
        HIT, (PASSAGE_BITS, first)
    )
    also = {int(connection.query(LINE, (other,))[0][0]) for other in others} - {line}
    if statement:
        written_at, author = parse_author(statement)
    else:
        written_at, author = time_stamp(datetime.fromtimestamp(changed_ns / 1e9, UTC)), None
    return SearchHit(
        path=path,
        title=title[: SHORT_TITLE_CHARS if is_short else TITLE_CHARS],
        heading=heading[: SHORT_HEADING_CHARS if is_short else HEADING_CHARS],
        line=line,
        day=day,
        snippet=snippet(
            text or heading or title, wanted, SHORT_SNIPPET_CHARS if is_short else SNIPPET_CHARS
        ),
        score=round(note.score, 3),
        also_lines=tuple(sorted(also)),
        written_at=written_at,
        author=author,
    )
