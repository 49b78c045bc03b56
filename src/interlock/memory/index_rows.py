"""The index as rows of the store: every statement, and what differs between the two databases.

One row of `memory_folders` represents a directory of notes. A writer of its index locks that row, so that
several processes never write at once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from interlock.db.driver import DbConnection, Row
from interlock.memory.note_directory import NoteState
from interlock.memory.passages import Passage, SplitNote

FIND_FOLDER = "SELECT id, version, generation, used_us FROM memory_folders WHERE place = ?"
ADD_FOLDER = """
INSERT INTO memory_folders (place, version, generation, passages, numbered, used_us)
VALUES (?, ?, 0, 0, 0, ?) ON CONFLICT (place) DO NOTHING
"""
HOLD_FOLDER = "SELECT numbered FROM memory_folders WHERE id = ? {FOR_UPDATE}"
CHANGED_FOLDER = """
UPDATE memory_folders
SET generation = generation + 1, passages = passages + ?, numbered = numbered + ?, used_us = ?
WHERE id = ? RETURNING generation
"""
UNUSED_FOLDERS = "SELECT id FROM memory_folders WHERE used_us < ?"

ALL_NOTES = "SELECT path, state, digest FROM memory_notes WHERE folder_id = ?"
ALL_NUMBERS = "SELECT id FROM memory_notes WHERE folder_id = ?"
THESE_NOTES = "SELECT path, id, state FROM memory_notes WHERE folder_id = ? AND path IN ({places})"
ADD_NOTES = "INSERT INTO memory_notes (id, folder_id, path, state, digest, title) VALUES (?, ?, ?, ?, ?, ?)"
CHANGE_NOTES = "UPDATE memory_notes SET state = ?, digest = ?, title = ? WHERE id = ?"
KEEP_NOTES = "UPDATE memory_notes SET state = ? WHERE id = ?"
REMOVE_NOTES = "DELETE FROM memory_notes WHERE id = ?"

COUNT_PASSAGES = "SELECT passages FROM memory_folders WHERE id = ?"
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

# SQLite: removing a row needs its words, since the table does not store them.
SQLITE_ADD = "INSERT INTO memory_fts (rowid, words) VALUES (?, ?)"
SQLITE_REMOVE = "INSERT INTO memory_fts (memory_fts, rowid, words) VALUES ('delete', ?, ?)"
SQLITE_FIND = "SELECT rowid FROM memory_fts WHERE memory_fts MATCH ? AND rowid BETWEEN ? AND ? LIMIT ?"

POSTGRES_ADD = "INSERT INTO memory_fts (rowid, words) VALUES (?, array_to_tsvector(CAST(? AS text[])))"
POSTGRES_REMOVE = "DELETE FROM memory_fts WHERE rowid = ANY(?)"
POSTGRES_COUNT_WORDS = """
INSERT INTO memory_words (folder_id, word, backwards, passages)
SELECT ?, word, backwards, passages
FROM unnest(CAST(? AS text[]), CAST(? AS text[]), CAST(? AS bigint[])) AS new (word, backwards, passages)
ON CONFLICT (folder_id, word) DO UPDATE SET passages = memory_words.passages + excluded.passages
"""
# Every search would have to scan the entries pending for the index.
POSTGRES_SORT_IN = "SELECT gin_clean_pending_list('memory_fts_words')"
# In two steps, or PostgreSQL reads all words of all passages of the directory.
POSTGRES_FIND = """
WITH found AS MATERIALIZED (SELECT rowid FROM memory_fts WHERE words @@ CAST(? AS tsquery))
SELECT rowid FROM found WHERE rowid BETWEEN ? AND ? LIMIT ?
"""

# A passage's number contains its directory and its note, so that a search is limited to one directory.
_NOTE_BITS, _PASSAGE_BITS = 32, 12

# Prefix of a word that is in a heading or frequent in the passage: where very many passages have a word,
# these are looked at first. No word contains it.
STRONG = "\u00a7"
_OFTEN = 3


@dataclass(frozen=True, slots=True)
class PreparedNote:
    """A note that was read and split. `was` is its state in the index at that time.

    Without `note`, its content is already in the index, and only the state is new.
    """

    path: str
    was: str | None
    state: str
    digest: str
    note: SplitNote | None


def state_text(state: NoteState) -> str:
    return ".".join(f"{number:x}" for number in state)


class IndexWriter:
    """One directory's rows, in a transaction that locks the directory. `close` it before the commit."""

    def __init__(self, connection: DbConnection, folder_id: int, numbered: int) -> None:
        self._connection = connection
        self._folder_id = folder_id
        self._numbered = numbered
        self._is_sqlite = connection.dialect == "sqlite"
        self._words: Counter[str] = Counter()
        self._passages: list[Row] = []
        self._entries: list[tuple[int, list[str]]] = []
        # The differences in the numbers of passages and notes.
        self.passages_added = 0
        self.notes_added = 0

    def put(self, prepared: Sequence[PreparedNote]) -> list[PreparedNote]:
        """Store notes; returns those that no other process changed since they were read."""
        there = self._found([note.path for note in prepared])
        mine = [note for note in prepared if there.get(note.path, _NOBODY)[1] == note.was]
        added, changed, kept = [], [], []
        for note in mine:
            number = there.get(note.path, _NOBODY)[0]
            if note.note is None:
                kept.append((note.state, number))
                continue
            told = (note.state, note.digest, note.note.title)
            if note.was is None:
                self.notes_added += 1
                number = self._folder_id << _NOTE_BITS | self._numbered + self.notes_added
                added.append((number, self._folder_id, note.path, *told))
            else:
                self._remove_passages(number)
                changed.append((*told, number))
            self._add_passages(number, note.note.passages)
        self._connection.change_many(ADD_NOTES, added)
        self._connection.change_many(CHANGE_NOTES, changed)
        self._connection.change_many(KEEP_NOTES, kept)
        return mine

    def drop(self, was: Mapping[str, str]) -> list[str]:
        """Remove notes in the given states; returns those that no other process changed since."""
        there = self._found(list(was))
        mine = {path: number for path, (number, state) in there.items() if state == was[path]}
        for number in mine.values():
            self._remove_passages(number)
        self._connection.change_many(REMOVE_NOTES, [(number,) for number in mine.values()])
        return list(mine)

    def drop_all(self) -> None:
        """Everything of the directory, its row too."""
        for (number,) in self._connection.query(ALL_NUMBERS, (self._folder_id,)):
            self._remove_passages(int(number))
        for statement in DROP_FOLDER:
            self._connection.change(statement, (self._folder_id,))

    def close(self) -> None:
        """Write what was gathered; words in one order, so that two writers cannot deadlock."""
        self._connection.change_many(ADD_PASSAGES, self._passages)
        if self._is_sqlite:
            entries = [(number, " ".join(words)) for number, words in self._entries]
            self._connection.change_many(SQLITE_ADD, entries)
        else:
            self._connection.change_many(POSTGRES_ADD, self._entries)
        changed = sorted(item for item in self._words.items() if item[1])
        if self._is_sqlite:
            rows = [(self._folder_id, word, word[::-1], count) for word, count in changed]
            self._connection.change_many(COUNT_WORDS_ANEW, rows)
        elif changed:
            words = [word for word, _ in changed]
            arrays = (words, [word[::-1] for word in words], [count for _, count in changed])
            self._connection.change(POSTGRES_COUNT_WORDS, (self._folder_id, *arrays))
        if any(count < 0 for _, count in changed):
            self._connection.change(DROP_WORDS, (self._folder_id,))

    def _found(self, paths: Sequence[str]) -> dict[str, tuple[int, str]]:
        rows = self._connection.query(with_placeholders(THESE_NOTES, len(paths)), (self._folder_id, *paths))
        return {str(path): (int(number), str(state)) for path, number, state in rows}

    def _remove_passages(self, note_id: int) -> None:
        old = self._connection.query(OLD_PASSAGES, (note_id,))
        found = {row[0]: search_terms(row[1].split(), row[2].split()) for row in old}
        if self._is_sqlite:
            rows = [(number, " ".join(words)) for number, words in found.items()]
            self._connection.change_many(SQLITE_REMOVE, rows)
        else:
            self._connection.change(POSTGRES_REMOVE, (list(found),))
        for row in old:
            self._words.subtract({*row[1].split(), *row[2].split()})
        self.passages_added -= len(old)
        self._connection.change(REMOVE_PASSAGES, (note_id,))

    def _add_passages(self, note_id: int, passages: Sequence[Passage]) -> None:
        for number, passage in enumerate(passages):
            place = (note_id << _PASSAGE_BITS | number, self._folder_id, note_id, passage.line)
            head, words = " ".join(passage.head_words), " ".join(passage.words)
            self._passages.append((*place, passage.heading, passage.day, passage.text, head, words))
            self._words.update({*passage.head_words, *passage.words})
            self._entries.append((place[0], search_terms(passage.head_words, passage.words)))
        self.passages_added += len(passages)


# For a note that does not exist.
_NOBODY: tuple[int, str | None] = (0, None)


def with_placeholders(sql: str, count: int) -> str:
    """A statement with placeholders for so many values."""
    return sql.replace("{places}", ", ".join("?" * count))


def search_terms(head_words: Sequence[str], words: Sequence[str]) -> list[str]:
    """The search terms of a passage: each of its words once, and the strong ones once more as such."""
    often = [word for word, count in Counter(words).items() if count >= _OFTEN]
    strong = [STRONG + word for word in {*head_words, *often}]
    return list({*head_words, *words, *strong})


def flush_pending_index(connection: DbConnection) -> None:
    """After many changes, so that the next search is quick."""
    if connection.dialect != "sqlite":
        connection.query(POSTGRES_SORT_IN)


def find_passages(
    connection: DbConnection, folder_id: int, groups: Sequence[Iterable[str]], limit: int
) -> list[int]:
    """Passages of a directory that have a word of every group.

    Words consist of letters and digits only: they cannot inject a query.
    """
    first = folder_id << _NOTE_BITS + _PASSAGE_BITS
    last = (folder_id + 1 << _NOTE_BITS + _PASSAGE_BITS) - 1
    if connection.dialect == "sqlite":
        match = _expression(groups, '"', " OR ", " AND ")
        rows = connection.query(SQLITE_FIND, (match, first, last, limit))
    else:
        match = _expression(groups, "'", " | ", " & ")
        rows = connection.query(POSTGRES_FIND, (match, first, last, limit))
    return [int(row[0]) for row in rows]


def _expression(groups: Sequence[Iterable[str]], quote: str, either: str, both: str) -> str:
    joined = (either.join(f"{quote}{word}{quote}" for word in group) for group in groups)
    return both.join(f"({words})" for words in joined)
