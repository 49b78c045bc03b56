"""Looking into the folder of notes: what counts as one, and that no link leads anywhere."""

import os

from interlock.memory import note_directory
from interlock.memory.note_directory import MAX_NOTE_BYTES, NoteDirectory


def nothing() -> None:
    return None


def plain(text: str) -> str:
    return text


def listed(folder) -> set[str]:
    return set(NoteDirectory(folder).notes(nothing))


def test_notes_are_text_files_in_any_subfolder(tmp_path):
    for name in ("a.md", "b.MARKDOWN", "c.txt", "sub/deep/d.md", "e.pdf", "f", ".g.md", ".obsidian/h.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert listed(tmp_path) == {"a.md", "b.MARKDOWN", "c.txt", "sub/deep/d.md"}


def test_there_may_be_no_folder_yet(tmp_path):
    assert listed(tmp_path / "none") == set()
    assert NoteDirectory(tmp_path / "none").read("a.md") is None


def test_links_and_what_is_no_file_are_neither_listed_nor_read(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("outside")
    folder = tmp_path / "memory"
    folder.mkdir()
    (folder / "link.md").symlink_to(outside / "secret.md")
    (folder / "linked").symlink_to(outside)
    os.mkfifo(folder / "pipe.md")
    (folder / "folder.md").mkdir()
    assert listed(folder) == set()
    for path in ("link.md", "linked/secret.md", "pipe.md", "folder.md", "missing.md"):
        assert NoteDirectory(folder).read(path) is None


def test_a_folder_that_becomes_a_link_after_it_was_listed_is_not_read(tmp_path):
    (tmp_path / "memory" / "sub").mkdir(parents=True)
    (tmp_path / "memory" / "sub" / "a.md").write_text("inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.md").write_text("outside")
    folder = NoteDirectory(tmp_path / "memory")
    assert set(folder.notes(nothing)) == {"sub/a.md"}
    (tmp_path / "memory" / "sub").rename(tmp_path / "memory" / "gone")
    (tmp_path / "memory" / "sub").symlink_to(tmp_path / "outside")
    assert folder.read("sub/a.md") is None


def test_other_encodings_are_read_and_binary_says_nothing(tmp_path):
    said = {
        "utf8.md": ("größe".encode(), "größe"),
        "marked.md": (b"\xef\xbb\xbfhello", "hello"),
        "utf16.md": ("größe".encode("utf-16"), "größe"),
        "old.md": ("größe".encode("cp1252"), "größe"),
        "binary.md": (b"\x89PNG\0\0\0", ""),
    }
    for name, (data, text) in said.items():
        (tmp_path / name).write_bytes(data)
        assert NoteDirectory(tmp_path).read(name).text(plain) == text


def test_a_long_note_is_cut_and_no_half_of_a_secret_is_left_at_its_end(tmp_path):
    secret = "s3cret-" * 2000
    for before in range(0, 70_000, 9_000):
        data = "x" * (MAX_NOTE_BYTES + before) + secret + "y" * 100_000
        (tmp_path / "long.md").write_text(data)
        text = NoteDirectory(tmp_path).read("long.md").text(lambda text: text.replace(secret, "***"))
        assert "s3cret" not in text
        assert len(text) <= MAX_NOTE_BYTES


def test_a_cut_inside_a_character_is_no_other_encoding(tmp_path):
    (tmp_path / "long.md").write_bytes("字".encode() * 400_000)
    assert set(NoteDirectory(tmp_path).read("long.md").text(plain)) == {"字"}


def test_very_many_notes_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(note_directory, "MAX_NOTES", 10)
    for number in range(20):
        (tmp_path / f"{number}.md").write_text("x")
    assert len(listed(tmp_path)) == 10
