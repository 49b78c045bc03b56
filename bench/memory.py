"""Memory: taking in thousands of notes and searching them, beside the least that looks at the same files.

A search first looks whether any note changed, so its floor is to ask the file system about each of them.
"""

import os
import random
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench.log import folder
from bench.rows import Row
from interlock.memory.authorship import AuthorLines
from interlock.memory.index import MemoryIndex
from interlock.memory.note_directory import NoteDirectory
from interlock.memory.search import MemorySearch
from interlock.redaction.redactor import Redactor
from interlock.sandbox.programs import RG, locate

NOTES, WORDS, VOCABULARY = 5000, 300, 50_000
SEARCHES, EDITS = 60, 20
SYLLABLES = (
    "ka",
    "to",
    "mi",
    "ren",
    "sol",
    "var",
    "el",
    "pin",
    "dor",
    "qu",
    "an",
    "es",
    "ti",
    "lo",
    "gra",
    "ber",
)


def nothing() -> None:
    return None


class Desk:
    """Notes of about two kilobytes, with words as often as languages have them."""

    def __init__(self, path: Path) -> None:
        self.chance = random.Random(7)
        self.folder = path / "memory"
        self.folder.mkdir()
        self.vocabulary = [
            "".join(self.chance.choices(SYLLABLES, k=self.chance.randint(2, 5))) for _ in range(VOCABULARY)
        ]
        self.weights = [1 / (rank + 1) ** 0.8 for rank in range(VOCABULARY)]
        for number in range(NOTES):
            (self.folder / f"{number}.md").write_text(self.note())
        redactor = Redactor(["sk-a-secret-that-is-nowhere"])
        redactor.text("made ready before anything is measured")
        state_dir = path / "state"
        authors = AuthorLines(state_dir / "note-authors.key")
        self.index = MemoryIndex(state_dir, NoteDirectory(self.folder), redactor.text, authors)
        self.search = MemorySearch(self.index)

    def note(self) -> str:
        words = self.chance.choices(self.vocabulary, self.weights, k=WORDS)
        first, second = " ".join(words[: WORDS // 2]), " ".join(words[WORDS // 2 :])
        return f"# {words[0]} {words[1]}\n\n{first}\n\n## {words[2]}\n\n{second}\n"

    def ask(self) -> None:
        query = " ".join(self.chance.choices(self.vocabulary, self.weights, k=4))
        assert self.search.search(query, 5, nothing).notes == NOTES

    def ask_mistyped(self) -> None:
        word = self.chance.choice(self.vocabulary)
        middle = len(word) // 2
        self.search.search(f"{word[:middle]}x{word[middle + 1 :]}", 5, nothing)

    def edit_and_ask(self) -> float:
        (self.folder / f"{self.chance.randrange(NOTES)}.md").write_text(self.note())
        return spent(self.ask)

    def index_plainly(self) -> None:
        """As anybody would: the files as they are, cut by SQLite, in one transaction."""
        plain = sqlite3.connect(self.folder.parent / "plain.db", isolation_level=None)
        plain.execute("PRAGMA journal_mode=WAL")
        plain.execute("CREATE VIRTUAL TABLE notes USING fts5(path, text)")
        plain.execute("BEGIN")
        for path in self.folder.iterdir():
            plain.execute("INSERT INTO notes VALUES (?, ?)", (path.name, path.read_text()))
        plain.execute("COMMIT")
        plain.close()

    def look_at_all(self) -> None:
        with os.scandir(self.folder) as entries:
            for entry in entries:
                entry.stat(follow_symlinks=False)

    def rg(self) -> None:
        word = self.chance.choice(self.vocabulary)
        subprocess.run(
            [str(locate(RG, ())), "--no-config", "--count", "--", word, "./"],
            cwd=self.folder,
            capture_output=True,
            check=False,
        )


def spent(work: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def processor(work: Callable[[], object]) -> float:
    """Seconds of processor time."""
    began = time.process_time()
    work()
    return time.process_time() - began


def p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


def rows() -> list[Row]:
    with folder() as path:
        desk = Desk(path)
        plain = processor(desk.index_plainly)
        taken_in = processor(lambda: desk.index.read(lambda _connection: None, nothing))
        desk.ask()
        times: dict[str, list[float]] = {name: [] for name in ("ask", "typo", "look", "rg")}
        # In turn, so that a slow moment of the machine hits all.
        for _ in range(SEARCHES):
            times["look"].append(spent(desk.look_at_all))
            times["ask"].append(spent(desk.ask))
            times["typo"].append(spent(desk.ask_mistyped))
            times["rg"].append(spent(desk.rg))
        edited = [desk.edit_and_ask() for _ in range(EDITS)]
    look, rg = statistics.median(times["look"]), statistics.median(times["rg"])
    ask, typo, edit = (statistics.median(each) for each in (times["ask"], times["typo"], edited))
    floor = "ms asking about each file"
    return [
        Row(f"memory: take in {NOTES} notes of 2 kB", taken_in, plain, "s cpu", "s cpu FTS5 alone", 10.0),
        Row("memory: search, folder check included", ask, look, "ms", floor, 4.0),
        Row("memory: the same, 95th percentile", p95(times["ask"]), p95(times["look"]), "ms", floor),
        Row("memory: search for a mistyped word", typo, look, "ms", floor, 4.0),
        Row("memory: the first search after an edit", edit, look, "ms", floor, 8.0),
        Row("memory: search beside rg over the folder", ask, rg, "ms", "ms rg, one word", None),
    ]
