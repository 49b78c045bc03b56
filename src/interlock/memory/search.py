"""Finds notes: updates the index, fetches passages from the database, ranks them, cuts snippets."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import pairwise

from interlock.db.database import Database
from interlock.db.driver import DbConnection
from interlock.memory import index_rows
from interlock.memory.index import MemoryIndex, SyncResult
from interlock.memory.index_rows import STRONG, find_passages, with_placeholders
from interlock.memory.note_directory import Check
from interlock.memory.query_expansion import QueryTerm, find_query_terms
from interlock.memory.ranking import PassageCandidate, PassageRanker, RankedNote, rarity
from interlock.memory.snippets import snippet
from interlock.memory.tokenizer import query_words

CANDIDATES = "SELECT id, note_id, head_words, words, day FROM memory_passages WHERE id IN ({places})"
PASSAGES = """
SELECT p.id, n.path, n.title, p.heading, p.line, p.day, p.text
FROM memory_passages AS p JOIN memory_notes AS n ON n.id = p.note_id
WHERE p.id IN ({places})
"""

MAX_QUERY_CHARS = 10_000
MAX_WORDS = 48
# The passages that one lookup returns, and those that are ranked in all.
PER_LOOKUP, IN_ALL = 300, 150
# With so many passages that have a word itself, its other forms are not looked up.
ENOUGH = 40
SNIPPET_CHARS, SHORT_SNIPPET_CHARS, MANY = 240, 120, 12
MAX_ALSO = 3

# A word in more than this share of all passages is not looked up alone while others are rarer.
_TOO_COMMON = 0.25


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A note that was found. `path` is below the memory directory."""

    path: str
    title: str
    heading: str
    line: int
    day: str | None
    snippet: str
    score: float
    also_lines: tuple[int, ...]


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
        self,
        database: Database,
        index: MemoryIndex,
        today: Callable[[], date] = lambda: datetime.now(UTC).date(),
    ) -> None:
        self._database = database
        self._index = index
        self._today = today

    def search(self, query: str, limit: int, check: Check) -> MemorySearchResult:
        """The best notes for a query. Blocking; call it in a thread."""
        asked = query_words(query[:MAX_QUERY_CHARS], MAX_WORDS)
        synced = self._index.sync(check)
        if not asked or not synced.notes:
            return MemorySearchResult((), synced.notes, bool(asked), {}, synced.problem)
        check()
        with self._database.reading() as connection:
            sought = find_query_terms(connection, synced.folder_id, asked)
            total = int(connection.query(index_rows.COUNT_PASSAGES, (synced.folder_id,))[0][0])
            candidates = _candidates(connection, synced.folder_id, sought, total)
            check()
            ranked = PassageRanker(sought, total, self._today()).notes(candidates)[:limit]
            hits = _hits(connection, [note for note in ranked if note.passage_ids], sought, limit)
        return _found(hits, sought, synced)


def _found(
    hits: tuple[SearchHit, ...], sought: Sequence[QueryTerm], synced: SyncResult
) -> MemorySearchResult:
    corrected = {word.asked.text: word.corrected for word in sought if word.corrected}
    return MemorySearchResult(
        hits, synced.notes, had_words=True, corrected=corrected, problem=synced.problem
    )


def _candidates(
    connection: DbConnection, folder_id: int, sought: Sequence[QueryTerm], total: int
) -> list[PassageCandidate]:
    """Passages worth ranking: the best of each word, and those that have the most of them."""
    present = sorted((word for word in sought if word.forms), key=lambda word: word.passages)
    telling = [word for word in present if word.passages <= max(_TOO_COMMON * total, 20)] or present
    if not telling:
        return []
    votes: dict[int, float] = {}
    for groups, weight in _lookups(telling, total):
        for passage in find_passages(connection, folder_id, groups, PER_LOOKUP):
            votes[passage] = votes.get(passage, 0.0) + weight
    best = sorted(votes, key=lambda passage: (-votes[passage], passage))[:IN_ALL]
    rows = connection.query(with_placeholders(CANDIDATES, len(best)), best)
    return [PassageCandidate(row[0], row[1], row[2].split(), row[3].split(), row[4]) for row in rows]


def _lookups(telling: Sequence[QueryTerm], total: int) -> Iterator[tuple[list[list[str]], float]]:
    """The lookups, rarest word first, and how much a result counts for a passage."""
    for word in telling:
        weight = word.asked.weight * rarity(word.passages, total)
        exact = word.forms.get(word.asked.text, (0.0, 0))[1]
        others = [form for form in word.forms if form != word.asked.text]
        if exact > PER_LOOKUP:
            yield [[STRONG + word.asked.text]], weight
        if exact:
            yield [[word.asked.text]], weight
        if others and exact < ENOUGH:
            yield [others], weight / 2
    # Where single words find too much, the passages that have several of them.
    common = [word for word in telling if word.passages > PER_LOOKUP]
    for one, other in pairwise(telling) if common else ():
        if other in common:
            yield [list(one.forms), list(other.forms)], one.asked.weight + other.asked.weight


def _hits(
    connection: DbConnection, ranked: Sequence[RankedNote], sought: Sequence[QueryTerm], limit: int
) -> tuple[SearchHit, ...]:
    wanted = frozenset(form for word in sought for form in word.forms if word.asked.weight > 0.1)
    width = SNIPPET_CHARS if limit <= MANY else SHORT_SNIPPET_CHARS
    shown = {note.note_id: note.passage_ids[: 1 + MAX_ALSO] for note in ranked}
    ids = [passage for passages in shown.values() for passage in passages]
    if not ids:
        return ()
    rows = {row[0]: row[1:] for row in connection.query(with_placeholders(PASSAGES, len(ids)), ids)}
    hits = []
    for note in ranked:
        first, *others = shown[note.note_id]
        path, title, heading, line, day, text = rows[first]
        also = tuple(sorted({int(rows[other][3]) for other in others} - {int(line)}))
        cut = snippet(text or heading or title, wanted, width)
        hits.append(SearchHit(path, title, heading, int(line), day, cut, round(note.score, 3), also))
    return tuple(hits)
