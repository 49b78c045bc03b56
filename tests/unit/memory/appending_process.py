"""Adds entries to a note, to be run several times at once: FOLDER NAME COUNT TITLE."""

import sys
from datetime import UTC, datetime
from pathlib import Path

from interlock.memory.authorship import AuthorLines, NoteAuthor
from interlock.memory.note_directory import NoteDirectory
from interlock.memory.note_writer import NoteWriter


def nothing() -> None:
    return None


def main() -> None:
    folder, name, count, title = sys.argv[1:5]
    authors = AuthorLines(Path(folder).parent / "key")
    writer = NoteWriter(NoteDirectory(Path(folder)), lambda text: text, authors)
    for number in range(int(count)):
        entry = writer.entry(
            f"entry {name}-{number}.", title, datetime(2026, 1, 2, tzinfo=UTC), NoteAuthor()
        )
        writer.append(entry, nothing, nothing)


if __name__ == "__main__":
    main()
