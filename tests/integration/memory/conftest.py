"""A folder of notes and its search."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from interlock.memory.authorship import AuthorLines
from interlock.memory.index import MemoryIndex
from interlock.memory.note_directory import NoteDirectory
from interlock.memory.note_writer import NoteWriter
from interlock.memory.search import MemorySearch, MemorySearchResult
from interlock.redaction.redactor import Redactor

SECRET = "sk-known-secret-value"


def nothing() -> None:
    return None


class MemoryHarness:
    """Notes as a person would write them, and what is found in them."""

    def __init__(self, state_dir: Path, folder: Path) -> None:
        self.state_dir, self.folder = state_dir, folder
        redactor = Redactor([SECRET])
        notes, authors = NoteDirectory(folder), AuthorLines(state_dir / "note-authors.key")
        self.index = MemoryIndex(state_dir, notes, redactor.text, authors)
        self.searching = MemorySearch(self.index)
        self.writer = NoteWriter(notes, redactor.text, authors)

    def write(self, path: str, text: str) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def search(self, query: str, limit: int = 5) -> MemorySearchResult:
        return self.searching.search(query, limit, nothing)

    def paths(self, query: str, limit: int = 5) -> list[str]:
        return [hit.path for hit in self.search(query, limit).hits]

    def rows(self, sql: str) -> list[tuple]:
        with closing(sqlite3.connect(self.index.path)) as connection:
            return connection.execute(sql).fetchall()

    def is_sound(self) -> bool:
        """Whether the words agree with the passages, and no passage is left over."""
        with closing(sqlite3.connect(self.index.path)) as connection:
            connection.execute("INSERT INTO passages (passages) VALUES ('integrity-check')")
        left = self.rows("SELECT count(*) FROM passages WHERE rowid >> 12 NOT IN (SELECT id FROM notes)")
        bare = self.rows("SELECT count(*) FROM notes WHERE id NOT IN (SELECT rowid >> 12 FROM passages)")
        words = {
            word for row in self.rows("SELECT head, words FROM passages") for word in " ".join(row).split()
        }
        counted = {
            word for (word,) in self.rows("SELECT term FROM vocabulary WHERE term NOT LIKE '\u00a7%'")
        }
        return left == bare == [(0,)] and words == counted


@pytest.fixture
def make_memory(tmp_path: Path) -> Callable[[str], MemoryHarness]:
    return lambda name: MemoryHarness(tmp_path / "state", tmp_path / name / "memory")


@pytest.fixture
def memory(make_memory) -> MemoryHarness:
    return make_memory("workspace")
