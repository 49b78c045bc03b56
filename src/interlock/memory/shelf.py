"""The index as rows of the store: every statement, and what differs between the two databases.

One row of `memory_folders` stands for a folder of notes. Whoever changes the index of a folder holds that
row, so that several processes never do it at once.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from interlock.memory.notes import NoteState
from interlock.memory.passages import CutNote, Passage
from interlock.store.driver import Connection, Row

FIND_FOLDER = "SELECT id, version, generation, used_us FROM memory_folders WHERE place = ?"
ADD_FOLDER = """
INSERT INTO memory_folders (place, version, generation, used_us) VALUES (?, ?, 0, ?)
ON CONFLICT (place) DO NOTHING
"""
HOLD_FOLDER = "SELECT generation FROM memory_folders WHERE id = ? {FOR_UPDATE}"
CHANGED_FOLDER = """
UPDATE memory_folders SET generation = generation + 1, used_us = ? WHERE id = ? RETURNING generation
"""
UNUSED_FOLDERS = "SELECT id FROM memory_folders WHERE used_us < ?"

ALL_NOTES = "SELECT path, state, digest FROM memory_notes WHERE folder_id = ?"
ONE_NOTE = "SELECT id, state FROM memory_notes WHERE folder_id = ? AND path = ?"
ADD_NOTE = """
INSERT INTO memory_notes (folder_id, path, state, digest, title) VALUES (?, ?, ?, ?, ?) RETURNING id
"""
CHANGE_NOTE = "UPDATE memory_notes SET state = ?, digest = ?, title = ? WHERE id = ?"
KEEP_NOTE = "UPDATE memory_notes SET state = ? WHERE id = ?"
REMOVE_NOTE = "DELETE FROM memory_notes WHERE id = ?"
COUNT_NOTES = "SELECT count(*) FROM memory_notes WHERE folder_id = ?"
COUNT_PASSAGES = "SELECT count(*) FROM memory_passages WHERE folder_id = ?"

OLD_PASSAGES = "SELECT id, head_words, words FROM memory_passages WHERE note_id = ?"
REMOVE_PASSAGES = "DELETE FROM memory_passages WHERE note_id = ?"
ADD_PASSAGES = """
INSERT INTO memory_passages (id, folder_id, note_id, line, heading, day, text, head_words, words)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
DROP_WORDS = "DELETE FROM memory_words WHERE folder_id = ? AND passages <= 0"
DROP_FOLDER = (
    "DELETE FROM memory_words WHERE folder_id = ?",
    "DELETE FROM memory_passages WHERE folder_id = ?",
    "DELETE FROM memory_notes WHERE folder_id = ?",
    "DELETE FROM memory_folders WHERE id = ?",
)
COUNT_WORDS_ANEW = """
INSERT INTO memory_words (folder_id, word, backwards, passages) VALUES (?, ?, ?, ?)
ON CONFLICT (folder_id, word) DO UPDATE SET passages = memory_words.passages + excluded.passages
"""

# SQLite: the words of a row must be told to take it out, since the table keeps none itself.
SQLITE_ADD = "INSERT INTO memory_fts (rowid, head, words) VALUES (?, ?, ?)"
SQLITE_REMOVE = "INSERT INTO memory_fts (memory_fts, rowid, head, words) VALUES ('delete', ?, ?, ?)"
SQLITE_FIND = """
SELECT p.id FROM memory_fts AS f JOIN memory_passages AS p ON p.id = f.rowid
WHERE f.memory_fts MATCH ? AND p.folder_id = ?
"""
SQLITE_ORDER = " ORDER BY f.rank LIMIT ?"

POSTGRES_ADD = "INSERT INTO memory_fts (rowid, words) VALUES (?, CAST(? AS tsvector))"
POSTGRES_REMOVE = "DELETE FROM memory_fts WHERE rowid = ANY(?)"
POSTGRES_COUNT_WORDS = """
INSERT INTO memory_words (folder_id, word, backwards, passages)
SELECT ?, word, backwards, passages
FROM unnest(CAST(? AS text[]), CAST(? AS text[]), CAST(? AS bigint[])) AS new (word, backwards, passages)
ON CONFLICT (folder_id, word) DO UPDATE SET passages = memory_words.passages + excluded.passages
"""
POSTGRES_FIND = """
SELECT p.id FROM memory_fts AS f JOIN memory_passages AS p ON p.id = f.rowid
WHERE f.words @@ CAST(? AS tsquery) AND p.folder_id = ?
"""
POSTGRES_ORDER = " ORDER BY ts_rank(f.words, CAST(? AS tsquery), 1) DESC, p.id LIMIT ?"

# The passages of a note are numbered within this much room.
PASSAGE_ROOM = 4096


@dataclass(frozen=True, slots=True)
class PreparedNote:
    """A note that was read and cut. `was` is what the index said of it when it was looked at.

    Without a cut note, its content is what the index has already, and only the state is new.
    """

    path: str
    was: str | None
    state: str
    digest: str
    note: CutNote | None


def state_text(state: NoteState) -> str:
    return ".".join(f"{number:x}" for number in state)


class Shelf:
    """One folder's rows, in a transaction that is open and holds the folder."""

    def __init__(self, connection: Connection, folder_id: int) -> None:
        self._connection = connection
        self._folder_id = folder_id
        self._is_sqlite = connection.dialect == "sqlite"
        self._words: Counter[str] = Counter()

    def put(self, prepared: PreparedNote) -> bool:
        """Take a note in, unless somebody else has been there since it was looked at."""
        note = prepared.note
        if note is None:
            return self._keep(prepared.path, prepared.was or "", prepared.state)
        found = self._connection.query(ONE_NOTE, (self._folder_id, prepared.path))
        if (str(found[0][1]) if found else None) != prepared.was:
            return False
        told = (prepared.state, prepared.digest, note.title)
        if found:
            note_id = int(found[0][0])
            self._remove_passages(note_id)
            self._connection.change(CHANGE_NOTE, (*told, note_id))
        else:
            added = self._connection.query(ADD_NOTE, (self._folder_id, prepared.path, *told))
            note_id = int(added[0][0])
        self._add_passages(note_id, note.passages)
        return True

    def _keep(self, path: str, was: str, state: str) -> bool:
        """The file changed and its content did not."""
        found = self._connection.query(ONE_NOTE, (self._folder_id, path))
        if not found or found[0][1] != was:
            return False
        self._connection.change(KEEP_NOTE, (state, found[0][0]))
        return True

    def drop(self, path: str, was: str) -> bool:
        found = self._connection.query(ONE_NOTE, (self._folder_id, path))
        if not found or found[0][1] != was:
            return False
        self._remove_passages(int(found[0][0]))
        self._connection.change(REMOVE_NOTE, (found[0][0],))
        return True

    def drop_all(self) -> None:
        """Everything of the folder, its row too."""
        for (note_id,) in self._connection.query(
            "SELECT id FROM memory_notes WHERE folder_id = ?", (self._folder_id,)
        ):
            self._remove_passages(int(note_id))
        for statement in DROP_FOLDER:
            self._connection.change(statement, (self._folder_id,))
        self._words.clear()

    def close(self) -> None:
        """Bring the counts of words up to date, in one order for all, so that nobody waits in a circle."""
        changed = sorted((word, count) for word, count in self._words.items() if count)
        self._words.clear()
        if not changed:
            return
        if self._is_sqlite:
            rows = [(self._folder_id, word, word[::-1], count) for word, count in changed]
            self._connection.change_many(COUNT_WORDS_ANEW, rows)
        else:
            words = [word for word, _ in changed]
            counts = [count for _, count in changed]
            arrays = (words, [word[::-1] for word in words], counts)
            self._connection.change(POSTGRES_COUNT_WORDS, (self._folder_id, *arrays))
        if any(count < 0 for _, count in changed):
            self._connection.change(DROP_WORDS, (self._folder_id,))

    def _remove_passages(self, note_id: int) -> None:
        old = self._connection.query(OLD_PASSAGES, (note_id,))
        if self._is_sqlite:
            self._connection.change_many(SQLITE_REMOVE, old)
        else:
            self._connection.change(POSTGRES_REMOVE, ([row[0] for row in old],))
        for _, head, words in old:
            self._words.subtract({*head.split(), *words.split()})
        self._connection.change(REMOVE_PASSAGES, (note_id,))

    def _add_passages(self, note_id: int, passages: Sequence[Passage]) -> None:
        rows: list[Row] = []
        for number, passage in enumerate(passages):
            head, words = " ".join(passage.head_words), " ".join(passage.words)
            place = (note_id * PASSAGE_ROOM + number, self._folder_id, note_id, passage.line)
            rows.append((*place, passage.heading, passage.day, passage.text, head, words))
        self._connection.change_many(ADD_PASSAGES, rows)
        for passage in passages:
            self._words.update({*passage.head_words, *passage.words})
        if self._is_sqlite:
            self._connection.change_many(SQLITE_ADD, [(row[0], row[7], row[8]) for row in rows])
        else:
            vectors = [(row[0], _vector(passage)) for row, passage in zip(rows, passages, strict=True)]
            self._connection.change_many(POSTGRES_ADD, vectors)


# What PostgreSQL can hold of one word and of one text.
_MAX_POSITIONS, _MAX_POSITION = 255, 16383


def _vector(passage: Passage) -> str:
    """The words as PostgreSQL writes them, those of headings marked as weightier."""
    places: dict[str, list[str]] = {}
    for number, word in enumerate(passage.head_words, start=1):
        places.setdefault(word, []).append(f"{number}A")
    for number, word in enumerate(passage.words, start=len(passage.head_words) + 1):
        places.setdefault(word, []).append(str(min(number, _MAX_POSITION)))
    return " ".join(f"'{word}':{','.join(at[:_MAX_POSITIONS])}" for word, at in places.items())


def find_passages(
    connection: Connection, folder_id: int, groups: Sequence[Iterable[str]], limit: int, *, ranked: bool
) -> list[int]:
    """Passages that have a word of every group; the best first if there may be more than `limit`.

    Words are letters and digits of our own cutting: nothing in them can mean anything to a database.
    """
    if connection.dialect == "sqlite":
        match = _expression(groups, '"', " OR ", " AND ")
        order = SQLITE_ORDER if ranked else " LIMIT ?"
        rows = connection.query(SQLITE_FIND + order, (match, folder_id, limit))
    else:
        match = _expression(groups, "'", " | ", " & ")
        order, more = (POSTGRES_ORDER, (match,)) if ranked else (" LIMIT ?", ())
        rows = connection.query(POSTGRES_FIND + order, (match, folder_id, *more, limit))
    return [int(row[0]) for row in rows]


def _expression(groups: Sequence[Iterable[str]], quote: str, either: str, both: str) -> str:
    joined = (either.join(f"{quote}{word}{quote}" for word in group) for group in groups)
    return both.join(f"({words})" for words in joined)
