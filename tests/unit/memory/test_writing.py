"""Adding to notes: a predictable place, whole or not at all, nothing of anybody lost."""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.core import files
from interlock.core.errors import ToolError
from interlock.memory import conditional_replace, note_writer
from interlock.memory.authorship import AuthorLines, NoteAuthor
from interlock.memory.conditional_replace import NoteChanged, compare_and_swap
from interlock.memory.note_directory import MAX_NOTE_BYTES, NoteDirectory, is_note_name, note_state
from interlock.memory.note_writer import AppendResult, NoteWriter, slug

WHEN = datetime(2026, 11, 15, 9, 30, tzinfo=timezone(timedelta(hours=1)))
AUTHOR = NoteAuthor(tool="memory_append", person="ada")
STAMP = "2026-11-15 09:30 +01:00"
BY = re.compile(
    rf"\*Written {re.escape(STAMP)} by tool memory_append; person ada\* <!-- interlock:2:\S+ -->"
)


def nothing() -> None:
    return None


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "workspace" / "memory"


def append(
    folder: Path, content: str, title: str = "", commit=nothing, redact=lambda text: text
) -> AppendResult:
    return write(folder, content, title, commit=commit, redact=redact)


def write(
    folder: Path, content: str, title="", *, when=WHEN, commit=nothing, check=nothing, redact=str
) -> AppendResult:
    writer = NoteWriter(NoteDirectory(folder), redact, AuthorLines(folder.parent.parent / "key"))
    return writer.append(writer.entry(content, title, when, AUTHOR), commit, check)


def visible_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_without_a_title_an_entry_goes_to_the_note_of_the_day(folder):
    done = append(folder, "first")
    assert (done.path, done.line, done.created) == ("2026-11-15.md", 1, True)
    again = append(folder, "second")
    assert (again.path, again.created) == ("2026-11-15.md", False)
    text = (folder / "2026-11-15.md").read_text()
    head = f"## {STAMP}\n\n*Written"
    assert BY.sub("*Written", text) == f"# 2026-11-15\n\n{head}\n\nfirst\n\n{head}\n\nsecond\n"
    assert text.splitlines()[again.line - 1] == f"## {STAMP}"


def test_the_same_title_adds_to_the_same_note(folder):
    assert append(folder, "milk", "Shopping list").path == "shopping-list.md"
    assert append(folder, "eggs", "  SHOPPING   List ").path == "shopping-list.md"
    text = (folder / "shopping-list.md").read_text()
    assert text.startswith("# Shopping list\n")
    assert text.index("milk") < text.index("eggs")


@pytest.mark.parametrize("name", ["Shopping List.md", "shopping-list.txt", "shopping-list.markdown"])
def test_a_note_that_a_person_made_is_added_to(folder, name):
    folder.mkdir(parents=True)
    (folder / name).write_text("by hand, without an end of line")
    assert append(folder, "milk", "Shopping list").path == name
    assert (folder / name).read_text().startswith("by hand, without an end of line\n\n## 2026")


def test_permissions_are_for_the_owner_alone_and_kept_where_they_differ(folder):
    append(folder, "x", "a")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "a.md").stat().st_mode & 0o777 == 0o600
    (folder / "a.md").chmod(0o640)
    append(folder, "y", "a")
    assert (folder / "a.md").stat().st_mode & 0o777 == 0o640


def test_line_ends_of_a_note_stay_what_they_are(folder):
    folder.mkdir(parents=True)
    (folder / "a.md").write_bytes(b"one\r\ntwo\r\n")
    append(folder, "three\nfour", "a")
    assert b"\n" not in (folder / "a.md").read_bytes().replace(b"\r\n", b"")


@pytest.mark.parametrize("content", ["", " ", "\n\n", "\t\n"])
def test_empty_content_is_refused(folder, content):
    with pytest.raises(ToolError, match="is empty"):
        append(folder, content)
    assert not folder.exists()


def test_secrets_are_neither_in_the_note_nor_in_its_name(folder):
    def redact(text: str) -> str:
        return text.replace("hunter2", "***REDACTED***")

    append(folder, "it is hunter2", "about hunter2", redact=redact)
    assert "hunter2" not in "".join(visible_files(folder))
    assert all("hunter2" not in path.read_text() for path in folder.iterdir())


HOSTILE = [
    "../../etc/passwd", "/etc/passwd", "..", ".", "...", "a/../../b", "a\0b", "a\nb\r\n# c", "\x1b[31mred",
    ".hidden", "-rf", "~", "$HOME", "CON", "a" * 5000, "日本" * 400, "😀", "e\u0301" * 200, "\u202etxt.exe",
    "%2e%2e%2f", "..\\..\\x", "\ud800", "*?[a]", "a" * 300 + "1", "a" * 300 + "2",
]  # fmt: skip


@pytest.mark.parametrize("title", HOSTILE)
def test_no_title_leaves_the_folder_or_makes_a_strange_name(folder, title):
    done = append(folder, "content", title)
    assert visible_files(folder) == [done.path]
    assert is_note_name(done.path)
    assert re.fullmatch(r"[\w-]+(-[0-9a-f]{6})?\.md", done.path)
    assert len(done.path.encode()) < 200
    assert {path.name for path in folder.parent.iterdir()} == {"memory"}
    assert append(folder, "more", title).path == done.path


@given(st.text(min_size=1))
def test_any_title_gives_a_plain_name(title):
    name = f"{slug(title)}.md"
    assert re.fullmatch(r"[\w-]+\.md", name)
    assert not name.startswith(("-", "."))
    assert len(name.encode()) < 200


@pytest.mark.parametrize(
    ("one", "other"), [("C++", "C#"), ("a" * 300 + "1", "a" * 300 + "2"), ("😀", "😎")]
)
def test_titles_that_differ_in_signs_or_at_their_end_have_notes_of_their_own(folder, one, other):
    assert append(folder, "x", one).path != append(folder, "y", other).path


def test_a_link_in_the_folder_is_never_written_through(folder, tmp_path):
    outside = tmp_path / "outside.md"
    outside.write_text("untouched")
    folder.mkdir(parents=True)
    (folder / "plan.md").symlink_to(outside)
    assert append(folder, "x", "plan").path == "plan-2.md"
    assert outside.read_text() == "untouched"
    assert (folder / "plan.md").is_symlink()


def test_a_dangling_link_creates_nothing_outside(folder, tmp_path):
    folder.mkdir(parents=True)
    (folder / "2026-11-15.md").symlink_to(tmp_path / "made.md")
    assert append(folder, "x").path == "2026-11-15-2.md"
    assert not (tmp_path / "made.md").exists()


def test_a_linked_lock_is_refused(folder, tmp_path):
    folder.mkdir(parents=True)
    (folder / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ToolError, match="cannot be written"):
        append(folder, "x")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("data", [b"\0binary", b"\xff\xfea\0", b"x" * MAX_NOTE_BYTES])
def test_what_is_no_text_or_full_is_left_alone(folder, data):
    folder.mkdir(parents=True)
    (folder / "a.md").write_bytes(data)
    assert append(folder, "x", "a").path == "a-2.md"
    assert (folder / "a.md").read_bytes() == data


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "workspace").write_text("a file")
    with pytest.raises(ToolError, match="cannot be written") as error:
        append(tmp_path / "workspace" / "memory", "x")
    assert "WORKSPACE_DIR" in error.value.next_action


def test_two_processes_lose_nothing(folder):
    titles = ["shared"] * 4
    command = [sys.executable, "-m", "tests.unit.memory.appending_process", str(folder)]
    running = [
        subprocess.Popen([*command, f"p{number}", "25", title]) for number, title in enumerate(titles)
    ]
    assert [process.wait(60) for process in running] == [0] * 4
    text = (folder / "shared.md").read_text()
    found = re.findall(r"entry (p\d-\d+)\.", text)
    assert sorted(found) == sorted(f"p{process}-{number}" for process in range(4) for number in range(25))
    assert visible_files(folder) == ["shared.md"]


@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "by renaming"])
def test_what_a_person_saves_in_between_is_kept(folder, in_place):
    append(folder, "first", "plan")
    saved = []

    def save_once() -> None:
        if not saved:
            saved.append(True)
            target = folder / "plan.md"
            if in_place:
                with target.open("a") as file:
                    file.write("\nby a person\n")
            else:
                (folder / ".editor").write_text(target.read_text() + "\nby a person\n")
                (folder / ".editor").rename(target)

    append(folder, "second", "plan", commit=save_once)
    text = (folder / "plan.md").read_text()
    assert text.index("first") < text.index("by a person") < text.index("second")
    assert not list(folder.glob(f".*{files.UNFINISHED}"))


def test_a_save_between_the_check_and_the_exchange_is_put_back(folder, monkeypatch):
    """The moment no check can cover: the exchange shows what stood there, and is undone."""
    append(folder, "first", "plan")
    real, calls = conditional_replace.rename_exchange, []

    def late(descriptor: int, one: str, other: str) -> bool:
        if not calls:
            (folder / ".editor").write_text("only by a person\n")
            (folder / ".editor").rename(folder / "plan.md")
        calls.append(one)
        return real(descriptor, one, other)

    monkeypatch.setattr(conditional_replace, "rename_exchange", late)
    append(folder, "second", "plan")
    text = (folder / "plan.md").read_text()
    assert text.startswith("only by a person\n")
    assert "second" in text
    assert len(calls) == 3


def test_a_note_that_vanishes_in_between_is_made_anew(folder):
    append(folder, "first", "plan")
    gone = []

    def remove_once() -> None:
        if not gone:
            gone.append(True)
            (folder / "plan.md").unlink()

    append(folder, "second", "plan", commit=remove_once)
    assert "second" in (folder / "plan.md").read_text()
    assert "first" not in (folder / "plan.md").read_text()


def test_where_names_cannot_be_exchanged_a_change_is_still_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_RENAMEAT2", None)
    (tmp_path / "a").write_text("old")
    (tmp_path / "ours").write_text("new")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    was = note_state((tmp_path / "a").stat())
    (tmp_path / "a").write_text("changed")
    with pytest.raises(NoteChanged):
        compare_and_swap(descriptor, "ours", "a", was)
    compare_and_swap(descriptor, "ours", "a", note_state((tmp_path / "a").stat()))
    assert (tmp_path / "a").read_text() == "new"
    os.close(descriptor)


def test_a_call_that_was_stopped_leaves_no_trace(folder):
    class Stop(Exception):
        pass

    def stop() -> None:
        raise Stop

    append(folder, "first", "plan")
    before = (folder / "plan.md").read_bytes()
    for title in ("plan", "new"):
        with pytest.raises(Stop):
            append(folder, "second", title, commit=stop)
    assert (folder / "plan.md").read_bytes() == before
    assert visible_files(folder) == ["plan.md"]
    assert not list(folder.glob(f".*{files.UNFINISHED}"))


def test_waiting_for_the_lock_can_be_stopped(folder):
    import fcntl

    append(folder, "x")
    held = os.open(folder / ".lock", os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    looks = []

    def stop_at_the_third_look() -> None:
        looks.append(True)
        if len(looks) == 3:
            raise TimeoutError

    with pytest.raises(ToolError):
        write(folder, "y", check=stop_at_the_third_look)
    os.close(held)
    assert len(looks) == 3


def test_a_note_that_never_rests_is_told(folder, monkeypatch):
    monkeypatch.setattr(note_writer, "_TRIES", 3)
    append(folder, "first", "plan")

    def save() -> None:
        with (folder / "plan.md").open("a") as file:
            file.write("again\n")

    with pytest.raises(ToolError, match="kept changing"):
        append(folder, "second", "plan", commit=save)


def test_the_time_has_its_zone(folder):
    write(folder, "x", when=datetime(2026, 1, 2, 3, 4, tzinfo=UTC))
    assert "## 2026-01-02 03:04 +00:00\n" in (folder / "2026-01-02.md").read_text()
