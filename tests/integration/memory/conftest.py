"""A folder of notes and its search, on each database in turn."""

from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.db.database import Database
from interlock.memory.index import MemoryIndex
from interlock.memory.note_directory import NoteDirectory
from interlock.memory.search import MemorySearch, MemorySearchResult
from interlock.redaction.redactor import Redactor
from tests.harness.store import StoreHarness

SECRET = "sk-known-secret-value"


def nothing() -> None:
    return None


class MemoryHarness:
    """Notes as a person would write them, and what is found in them."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database, self.folder = database, folder
        self.redactor = Redactor([SECRET])
        self.index = MemoryIndex(database, NoteDirectory(folder), self.redactor.text)
        self.searching = MemorySearch(database, self.index)

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
        with self.database.reading() as connection:
            return connection.query(sql)

    def is_sound(self) -> bool:
        """Whether counts and passages of the index agree with one another, without anything left over."""
        with self.database.reading() as connection:
            folders = connection.query("SELECT id, passages FROM memory_folders")
            per_folder = dict(
                connection.query("SELECT folder_id, count(*) FROM memory_passages GROUP BY folder_id")
            )
            orphans = connection.query(
                "SELECT count(*) FROM memory_passages WHERE note_id NOT IN (SELECT id FROM memory_notes)"
            )[0][0]
            words: dict[tuple[int, str], int] = {}
            for folder, head, body in connection.query(
                "SELECT folder_id, head_words, words FROM memory_passages"
            ):
                for word in {*head.split(), *body.split()}:
                    words[folder, word] = words.get((folder, word), 0) + 1
            counted = {
                (folder, word): count
                for folder, word, count in connection.query(
                    "SELECT folder_id, word, passages FROM memory_words"
                )
            }
        return (
            all(per_folder.get(number, 0) == count for number, count in folders)
            and not orphans
            and words == counted
        )


@pytest.fixture
def make_memory(store: StoreHarness, tmp_path: Path) -> Callable[[str], MemoryHarness]:
    return lambda name: MemoryHarness(store.database, tmp_path / name / "memory")


@pytest.fixture
def memory(make_memory) -> MemoryHarness:
    return make_memory("workspace")
