"""The index follows the notes, whoever changes them, and however many look at once."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from interlock.core.errors import StoreLocked
from interlock.db.backup_and_restore import create_backup, restore
from interlock.memory import index as indexing
from tests.integration.memory.conftest import MemoryHarness, nothing


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
    again = MemoryHarness(memory.database, memory.folder)
    assert len(again.search("boiler", 50).hits) == 20
    assert read == []


def test_a_note_that_is_touched_and_not_changed_keeps_its_passages(memory, settle):
    note = memory.write("a.md", "the boiler")
    settle(memory)
    before = memory.rows("SELECT id, text FROM memory_passages")
    states = memory.rows("SELECT state FROM memory_notes")
    os.utime(note, ns=(2 * 10**18, 2 * 10**18))
    settle(memory)
    assert memory.paths("boiler") == ["a.md"]
    assert memory.rows("SELECT id, text FROM memory_passages") == before
    assert memory.rows("SELECT state FROM memory_notes") != states
    assert memory.is_sound()


def test_two_folders_on_one_store_never_mix(make_memory):
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


def test_notes_cut_by_older_rules_are_cut_anew(memory, monkeypatch):
    memory.write("a.md", "the boiler")
    assert memory.paths("boiler") == ["a.md"]
    monkeypatch.setattr(indexing, "INDEX_VERSION", indexing.INDEX_VERSION + 1)
    assert memory.paths("boiler") == ["a.md"]
    again = MemoryHarness(memory.database, memory.folder)
    assert again.paths("boiler") == ["a.md"]
    assert memory.rows("SELECT count(*) FROM memory_folders") == [(1,)]
    assert memory.is_sound()


def test_a_folder_nobody_has_used_for_long_is_forgotten(make_memory, monkeypatch):
    old, new = make_memory("old"), make_memory("new")
    old.write("a.md", "the boiler")
    old.search("boiler")
    monkeypatch.setattr(indexing, "_now_us", lambda: time.time_ns() // 1000 + 100 * 86_400 * 10**6)
    new.write("b.md", "the boiler")
    assert new.paths("boiler") == ["b.md"]
    assert new.rows("SELECT count(*) FROM memory_folders") == [(1,)]
    assert new.is_sound()
    assert old.paths("boiler") == ["a.md"]


def test_many_notes_are_taken_in_by_short_transactions(memory, monkeypatch):
    monkeypatch.setattr(memory.index, "_batch_notes", 7)
    for number in range(50):
        memory.write(f"{number}.md", f"the boiler {number}")
    assert len(memory.search("boiler", 50).hits) == 50
    for number in range(0, 50, 2):
        (memory.folder / f"{number}.md").unlink()
    assert len(memory.search("boiler", 50).hits) == 25
    assert memory.is_sound()


def test_stopped_in_the_middle_it_goes_on_the_next_time(memory, monkeypatch):
    monkeypatch.setattr(memory.index, "_batch_notes", 5)
    for number in range(30):
        memory.write(f"{number}.md", f"the boiler {number}")
    looks = []

    def stop() -> None:
        looks.append(True)
        if len(looks) == 20:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        memory.searching.search("boiler", 50, stop)
    assert 0 < memory.rows("SELECT count(*) FROM memory_notes")[0][0] < 30
    assert len(memory.search("boiler", 50).hits) == 30
    assert memory.is_sound()


def test_a_store_that_cannot_be_written_now_still_answers(memory, monkeypatch, settle):
    memory.write("a.md", "the boiler")
    settle(memory)
    memory.write("b.md", "the boiler too")

    def locked(_work: object) -> None:
        raise StoreLocked("it is locked by another process")

    monkeypatch.setattr(memory.index, "_change", locked)
    found = memory.search("boiler")
    assert [hit.path for hit in found.hits] == ["a.md"]
    assert "locked" in found.problem


def test_two_that_search_for_the_first_time_at_once_index_once(memory):
    """Each reads the notes; whoever is second finds the work done."""
    for number in range(10):
        memory.write(f"{number}.md", f"the boiler {number}")
    other = MemoryHarness(memory.database, memory.folder)
    inner, entered = other.index._put, []

    def put_after_the_other(waiting: list) -> None:
        if not entered:
            entered.append(True)
            memory.search("boiler")
        inner(waiting)

    other.index._put = put_after_the_other
    assert len(other.search("boiler", 50).hits) == 10
    assert memory.is_sound()
    assert memory.rows("SELECT count(*) FROM memory_notes") == [(10,)]


@pytest.mark.full
def test_several_processes_search_while_another_writes(memory, store):
    memory.write("first.md", "the boiler")
    command = [sys.executable, "-m", "tests.integration.memory.searching_process", store.config.url]
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
    assert store.deadlocks() == 0


def test_a_backup_leaves_the_index_out_and_it_is_made_anew(memory, store, tmp_path):
    memory.write("a.md", "the boiler")
    memory.search("boiler")
    entries = create_backup(store.database, tmp_path / "b.zip")
    assert not [entry.name for entry in entries if entry.name.startswith("memory")]
    if store.config.is_sqlite:
        from interlock.db.database import StoreConfig, open_database

        target = StoreConfig(f"sqlite:///{tmp_path}/restored/interlock.db")
        restore(target, tmp_path / "b.zip", replace_existing=False, check=lambda _: None)
        database = open_database(target)
        assert MemoryHarness(database, memory.folder).paths("boiler") == ["a.md"]
        database.close()


def test_names_no_encoding_can_hold_are_found_all_the_same(memory):
    memory.folder.mkdir(parents=True)
    Path(os.fsdecode(os.fsencode(memory.folder) + b"/gr\xfc\xdfe.md")).write_text("the boiler")
    assert memory.paths("boiler") == [r"gr\xfc\xdfe.md"]
    memory.search("boiler")
    assert memory.index.sync(nothing).notes == 1
