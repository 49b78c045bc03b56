"""The index follows the notes, whoever changes them, and however many look at once."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from interlock.memory import index as indexing
from tests.harness.case_tables import each_row
from tests.integration.memory.conftest import MemoryHarness


@pytest.fixture
def settle(monkeypatch):
    """Take the notes in as if they had been written a while ago."""

    def take_in(memory: MemoryHarness) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(indexing, "_UNSETTLED_NS", 0)
            memory.search("x")

    return take_in


def test_what_a_person_adds_changes_and_deletes_is_followed(memory):
    first = memory.write("a.md", "the boiler")
    assert memory.paths("boiler") == ["a.md"]
    memory.write("b.md", "the zeppelin")
    assert memory.paths("zeppelin") == ["b.md"]
    first.write_text("the chimney")
    assert memory.paths("boiler") == []
    assert memory.paths("chimney") == ["a.md"]
    first.unlink()
    assert memory.paths("chimney") == []
    assert memory.search("zeppelin").notes == 1
    assert memory.is_sound()


def test_a_renamed_note_is_found_under_its_new_name_alone(memory, settle):
    note = memory.write("old.md", "the boiler")
    settle(memory)
    note.rename(memory.folder / "new.md")
    assert memory.paths("boiler") == ["new.md"]
    (memory.folder / "sub").mkdir()
    (memory.folder / "new.md").rename(memory.folder / "sub" / "new.md")
    assert memory.paths("boiler") == ["sub/new.md"]
    assert memory.is_sound()


def test_a_folder_that_is_renamed_or_removed_takes_its_notes_along(memory):
    memory.write("one/a.md", "the boiler")
    assert memory.paths("boiler") == ["one/a.md"]
    (memory.folder / "one").rename(memory.folder / "two")
    assert memory.paths("boiler") == ["two/a.md"]
    (memory.folder / "two").rename(memory.folder / ".hidden")
    assert memory.paths("boiler") == []


def test_the_same_size_and_time_do_not_hide_a_change(memory, settle):
    """As after `touch -r`, or an editor that keeps times: when the file was changed is still told."""
    note = memory.write("a.md", "the boiler")
    settle(memory)
    was = note.stat()
    note.write_text("the geyser")
    os.utime(note, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert note.stat().st_size == was.st_size
    assert memory.paths("geyser") == ["a.md"]
    assert memory.paths("boiler") == []


def test_a_change_right_after_it_was_read_is_not_missed(memory):
    """Within one tick of the file system's clock, with the same size, in place."""
    note = memory.write("a.md", "the boiler 000")
    for number in range(1, 40):
        with note.open("r+") as file:
            file.write(f"the boiler {number:03}")
        assert memory.search(f"{number:03}").hits, number


@pytest.mark.parametrize("when", [0, 10**9, 4 * 10**18])
def test_clocks_that_jump_change_nothing(memory, when):
    note = memory.write("a.md", "the boiler")
    os.utime(note, ns=(when, when))
    assert memory.paths("boiler") == ["a.md"]
    note.write_text("the zeppelin")
    os.utime(note, ns=(when, when))
    assert memory.paths("zeppelin") == ["a.md"]


def test_what_did_not_change_is_not_read_again(memory, monkeypatch, settle):
    for number in range(20):
        memory.write(f"{number}.md", f"the boiler {number}")
    settle(memory)
    read = []
    monkeypatch.setattr(indexing.NoteDirectory, "read", lambda _self, path: read.append(path))
    memory.search("boiler")
    assert read == []
    again = MemoryHarness(memory.state_dir, memory.folder)
    assert len(again.search("boiler", 50).hits) == 20
    assert read == []


def test_a_note_that_is_touched_and_not_changed_keeps_its_passages(memory, settle, monkeypatch):
    note = memory.write("a.md", "the boiler")
    settle(memory)
    os.utime(note, ns=(2 * 10**18, 2 * 10**18))
    with monkeypatch.context() as patched:
        patched.setattr(indexing, "split_note", lambda *_: pytest.fail("it was split again"))
        settle(memory)
    (hit,) = memory.search("boiler").hits
    assert (hit.path, hit.written_at) == ("a.md", "2033-05-18 03:33 +00:00")
    assert memory.is_sound()


def test_two_folders_of_one_state_directory_never_mix(make_memory):
    one, other = make_memory("one"), make_memory("other")
    one.write("a.md", "the boiler of one")
    other.write("b.md", "the boiler of another")
    for _ in range(2):
        assert one.paths("boiler") == ["a.md"]
        assert other.paths("boiler") == ["b.md"]
    (one.folder / "a.md").unlink()
    assert one.paths("boiler") == []
    assert one.search("another").corrected == {}
    assert other.paths("boiler") == ["b.md"]
    assert one.is_sound()


def test_machines_that_share_a_state_directory_do_not_share_an_index(memory):
    memory.index._machine = "one"
    one = memory.index.path
    memory.index._machine = "other"
    assert memory.index.path != one


def test_an_index_of_another_version_is_rebuilt(memory, monkeypatch):
    memory.write("a.md", "the boiler")
    assert memory.paths("boiler") == ["a.md"]
    split = []
    monkeypatch.setattr(indexing, "INDEX_VERSION", indexing.INDEX_VERSION + 1)
    tables = [*indexing.TABLES[:-1], f"PRAGMA user_version = {indexing.INDEX_VERSION}"]
    monkeypatch.setattr(indexing, "TABLES", tables)
    real = indexing.split_note
    monkeypatch.setattr(indexing, "split_note", lambda *given: split.append(given[0]) or real(*given))
    again = MemoryHarness(memory.state_dir, memory.folder)
    assert memory.paths("boiler") == again.paths("boiler") == ["a.md"]
    assert split == ["a.md"]
    assert memory.is_sound()


DAMAGES = {
    "another program's file": lambda path: path.write_bytes(b"this is no database " * 500),
    "empty": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:9000]),
    "pages lost": lambda path: path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 60_000),
    "a table lost": lambda path: change(path, "DROP TABLE notes"),
    "words lost": lambda path: change(path, "DELETE FROM passages_data"),
    "gone": lambda path: path.unlink(),
}


def change(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(sql)
        connection.commit()


@each_row("damage", DAMAGES)
def test_a_damaged_index_is_rebuilt(memory, settle, damage):
    memory.write("a.md", "the boiler")
    settle(memory)
    DAMAGES[damage](memory.index.path)
    found = memory.search("boiler")
    assert [hit.path for hit in found.hits] == ["a.md"]
    assert not found.problem
    assert memory.is_sound()


def test_an_index_that_was_not_used_for_long_is_removed(make_memory, monkeypatch):
    old, new, later = make_memory("old"), make_memory("new"), make_memory("later")
    old.write("a.md", "the boiler")
    old.search("boiler")
    new.write("b.md", "the boiler")
    new.search("boiler")
    os.utime(old.index.path.with_suffix(".lock"), (0, 0))
    later.search("boiler")
    assert not old.index.path.exists()
    assert new.index.path.exists()
    assert old.paths("boiler") == ["a.md"]


def test_the_index_is_for_its_owner_alone_and_in_the_state_directory(memory):
    memory.write("a.md", "the boiler")
    memory.search("boiler")
    assert memory.index.path.is_relative_to(memory.state_dir)
    assert memory.index.path.parent.stat().st_mode & 0o077 == 0
    assert memory.index.path.stat().st_mode & 0o077 == 0
    assert [path.name for path in memory.folder.iterdir()] == ["a.md"]


def test_many_notes_are_indexed_by_short_transactions(memory, monkeypatch):
    monkeypatch.setattr(indexing, "BATCH_BYTES", 50)
    for number in range(50):
        memory.write(f"{number}.md", f"the boiler {number}")
    assert len(memory.search("boiler", 50).hits) == 50
    for number in range(0, 50, 2):
        (memory.folder / f"{number}.md").unlink()
    assert len(memory.search("boiler", 50).hits) == 25
    assert memory.is_sound()


def test_stopped_in_the_middle_it_goes_on_the_next_time(memory, monkeypatch):
    monkeypatch.setattr(indexing, "BATCH_BYTES", 50)
    for number in range(30):
        memory.write(f"{number}.md", f"the boiler {number}")
    looks = []

    def stop() -> None:
        looks.append(True)
        if len(looks) == 20:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        memory.searching.search("boiler", 50, stop)
    assert 0 < memory.rows("SELECT count(*) FROM notes")[0][0] < 30
    assert len(memory.search("boiler", 50).hits) == 30
    assert memory.is_sound()


def test_while_another_process_writes_the_index_for_long_it_still_answers(memory, monkeypatch, settle):
    monkeypatch.setattr(indexing, "BUSY_TIMEOUT_SECONDS", 0.05)
    memory.write("a.md", "the boiler")
    settle(memory)
    memory.write("b.md", "the boiler too")
    with closing(sqlite3.connect(memory.index.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        found = memory.search("boiler")
    assert [hit.path for hit in found.hits] == ["a.md"]
    assert "locked" in found.problem
    assert memory.paths("boiler") == ["a.md", "b.md"]


def test_two_that_search_for_the_first_time_at_once_index_once(memory, monkeypatch):
    """Each lists the notes; the second finds the work done."""
    for number in range(10):
        memory.write(f"{number}.md", f"the boiler {number}")
    monkeypatch.setattr(indexing, "_UNSETTLED_NS", 0)
    other = MemoryHarness(memory.state_dir, memory.folder)
    listing, entered = other.index._listing, []

    def list_before_the_other(check):
        found = listing(check)
        if not entered:
            entered.append(True)
            memory.search("boiler")
            monkeypatch.setattr(indexing.NoteDirectory, "read", lambda *_: pytest.fail("it was read again"))
        return found

    other.index._listing = list_before_the_other
    assert len(other.search("boiler", 50).hits) == 10
    assert memory.is_sound()
    assert memory.rows("SELECT count(*) FROM notes") == [(10,)]


def test_a_note_that_another_process_indexed_meanwhile_is_not_dropped(memory, settle):
    """It was gone when this process listed the notes, and another one saw it written again."""
    memory.write("a.md", "the boiler")
    settle(memory)
    (memory.folder / "a.md").unlink()
    other = MemoryHarness(memory.state_dir, memory.folder)
    listing = other.index._listing

    def list_before_the_other(check):
        found = listing(check)
        memory.write("a.md", "the boiler, written again")
        memory.search("boiler")
        return found

    other.index._listing = list_before_the_other
    other.search("boiler")
    assert memory.rows("SELECT path FROM notes") == [("a.md",)]


@pytest.mark.full
def test_several_processes_search_while_another_writes(memory):
    memory.write("first.md", "the boiler")
    command = [sys.executable, "-m", "tests.integration.memory.searching_process", str(memory.state_dir)]
    searching = [subprocess.Popen([*command, str(memory.folder), "15"]) for _ in range(2)]
    number = 0
    while any(process.poll() is None for process in searching):
        number += 1
        note = memory.write(f"{number % 40}.md", f"the boiler {number}\n\n## More\n\nentry {number}")
        if number % 3 == 0:
            note.rename(memory.folder / f"renamed{number % 7}.md")
        if number % 5 == 0:
            note.unlink(missing_ok=True)
    assert [process.wait() for process in searching] == [0, 0]
    assert number > 20
    present = {str(path.relative_to(memory.folder)) for path in memory.folder.rglob("*.md")}
    assert set(memory.paths("boiler", 50)) == present
    assert memory.is_sound()


def test_processes_that_find_a_damaged_index_together_all_answer(memory):
    for number in range(20):
        memory.write(f"{number}.md", f"the boiler entry {number}")
    memory.search("boiler")
    command = [sys.executable, "-m", "tests.integration.memory.searching_process", str(memory.state_dir)]
    memory.index.path.write_bytes(b"no database " * 1000)
    searching = [subprocess.Popen([*command, str(memory.folder), "3"]) for _ in range(3)]
    assert [process.wait(60) for process in searching] == [0, 0, 0]
    assert len(memory.paths("boiler", 50)) == 20
    assert memory.is_sound()


def test_names_no_encoding_can_hold_are_found_all_the_same(memory):
    memory.folder.mkdir(parents=True)
    Path(os.fsdecode(os.fsencode(memory.folder) + b"/gr\xfc\xdfe.md")).write_text("the boiler")
    assert memory.paths("boiler") == [r"gr\xfc\xdfe.md"]
    memory.search("boiler")
    assert memory.search("boiler").notes == 1
