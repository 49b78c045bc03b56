"""The workspace files: bounds, hostile files, and what of them a model sees."""

import os

import pytest

from interlock.agent.regular_files import strip_comments
from interlock.agent.workspace_files import MAX_SHOWN_BYTES, WorkspaceFiles
from interlock.agent.workspace_template import TEMPLATE_FILES, CreationStatus, create_workspace_files
from interlock.redaction.redactor import MARK, Redactor
from interlock.sessions.models import SessionKind
from tests.harness.log_capture import capture_logs

SECRET = "Zx9-hunter-77-correct-horse"


def read(folder, name="AGENTS.md"):
    files = WorkspaceFiles(folder, Redactor([SECRET]).text).read(SessionKind.chat)
    found = [file for file in files if file.name == name]
    return found[0] if found else None


def test_a_missing_folder_and_a_missing_file_are_fine(tmp_path):
    with capture_logs() as logs:
        assert read(tmp_path / "nowhere") is None
        assert read(tmp_path) is None
    assert logs == []


def test_a_file_is_read_as_it_is_now(tmp_path):
    (tmp_path / "AGENTS.md").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n\xe3\x80\x80three")
    assert read(tmp_path).text == "one\ntwo\n\u3000three"
    (tmp_path / "AGENTS.md").write_text("other")
    assert read(tmp_path).text == "other"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x7fELF\x02\x01\x01\x00\x00", "control character"),
        (b"fine\n\xff\xfe\x00", "not UTF-8 text"),
        (b"caf\xe9", "not UTF-8 text"),
        (b"fine\n\x1b[2J", "control character U+001B"),
    ],
)
def test_what_is_no_text_is_named_and_not_read(tmp_path, data, reason):
    (tmp_path / "AGENTS.md").write_bytes(data)
    with capture_logs() as logs:
        file = read(tmp_path)
    assert file.text == ""
    assert reason in file.problem
    assert (logs[0]["event"], logs[0]["file"]) == ("workspace_file_refused", "AGENTS.md")


def test_only_a_plain_file_of_its_own_is_read(tmp_path):
    secret = tmp_path / "elsewhere.txt"
    secret.write_text("not for the model")
    place = tmp_path / "ws"
    place.mkdir()
    (place / "AGENTS.md").symlink_to(secret)
    (place / "USER.md").hardlink_to(secret)
    os.mkfifo(place / "SOUL.md")
    (place / "MEMORY.md").mkdir()
    files = WorkspaceFiles(place, Redactor().text).read(SessionKind.chat)
    assert [file.text for file in files] == [""] * 4
    reasons = [file.problem for file in files]
    assert "is a symlink" in reasons[0]
    assert "hard link" in reasons[1]
    assert reasons[2:] == ["is not a regular file"] * 2


def test_a_dangling_link_and_a_device_are_refused(tmp_path):
    (tmp_path / "AGENTS.md").symlink_to(tmp_path / "nowhere")
    (tmp_path / "USER.md").symlink_to("/dev/zero")
    assert "is a symlink" in read(tmp_path).problem
    assert "is a symlink" in read(tmp_path, "USER.md").problem


def test_a_folder_that_cannot_be_opened_is_told_for_each_file(tmp_path):
    (tmp_path / "ws").write_text("a file")
    assert read(tmp_path / "ws").problem.startswith("cannot be read")


def test_a_long_file_is_cut_at_a_line_with_a_note(tmp_path):
    line = "ä" * 49 + "\n"
    (tmp_path / "AGENTS.md").write_text(line * 1000)
    text = read(tmp_path).text
    *shown, last = text.split("\n")
    assert last == f"[AGENTS.md has {len(line.encode()) * 1000} bytes; only the beginning is shown here.]"
    assert set(shown) == {"ä" * 49}
    assert MAX_SHOWN_BYTES - 200 < len("\n".join(shown).encode()) <= MAX_SHOWN_BYTES


@pytest.mark.parametrize("count", [MAX_SHOWN_BYTES, MAX_SHOWN_BYTES + 1])
def test_the_bound_is_exact(tmp_path, count):
    (tmp_path / "AGENTS.md").write_text("x" * count)
    assert (read(tmp_path).text == "x" * count) is (count == MAX_SHOWN_BYTES)


def test_an_enormous_file_is_not_read_whole(tmp_path):
    with (tmp_path / "AGENTS.md").open("wb") as file:
        file.write(b"begin\n" + b"x" * 200_000)
        file.truncate(1 << 40)
    assert read(tmp_path).text.startswith("begin")
    assert f"{1 << 40} bytes" in read(tmp_path).text


@pytest.mark.parametrize("place", range(MAX_SHOWN_BYTES - 40, MAX_SHOWN_BYTES + 3))
def test_a_secret_at_the_cut_leaves_no_half_behind(tmp_path, place):
    (tmp_path / "AGENTS.md").write_text("x" * (place - 1) + " " + SECRET + " " + "y" * 100_000)
    text = read(tmp_path).text
    assert "Zx9" not in text
    assert "*" not in text.replace(MARK, "")
    assert "RED" not in text.replace(MARK, "")


@pytest.mark.parametrize("end", range(MAX_SHOWN_BYTES + 65_536 - 5, MAX_SHOWN_BYTES + 65_536 + 30, 5))
def test_a_secret_where_reading_ends_is_never_shown(tmp_path, end):
    """A long comment before it brings what stands there to the front."""
    head = "<!--" + "c" * (end - len(SECRET) - 8) + "-->"
    (tmp_path / "AGENTS.md").write_text(head + " " + SECRET + "y" * 100)
    assert "Zx9" not in read(tmp_path).text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a<!-- b -->c", "ac"),
        ("<!-- a -->\n\n<!-- b -->", ""),
        ("a <!-- never ends", "a <!-- never ends"),
        ("<!---->x", "x"),
        ("a --> b", "a --> b"),
        ("<!-- a <!-- b --> c", "c"),
    ],
)
def test_comments_are_for_people(text, left):
    assert strip_comments(text) == left


def test_a_comment_longer_than_what_is_read_is_still_a_comment(tmp_path):
    (tmp_path / "AGENTS.md").write_text("rules\n<!-- " + "for people " * 20_000 + "-->\nmore rules")
    text = read(tmp_path).text
    assert text.startswith("rules\n[AGENTS.md has ")
    assert "for people" not in text


def test_many_comments_that_never_end_take_no_time():
    assert len(strip_comments("<!--" * 500_000)) == 2_000_000


def test_a_fresh_workspace_tells_a_model_nothing(tmp_path):
    steps = create_workspace_files(tmp_path / "deep" / "ws")
    assert {step.found for step in steps} == {CreationStatus.made}
    files = WorkspaceFiles(tmp_path / "deep" / "ws", Redactor().text).read(SessionKind.chat)
    assert [(file.text, file.problem) for file in files] == [("", "")] * len(TEMPLATE_FILES)


def test_filling_touches_nothing_that_is_there(tmp_path):
    (tmp_path / "AGENTS.md").write_text("mine")
    (tmp_path / "USER.md").symlink_to(tmp_path / "nowhere")
    (tmp_path / "memory").write_text("a file where a folder is wanted")
    (tmp_path / "agents").mkdir(mode=0o755)
    steps = {step.path.name: step for step in create_workspace_files(tmp_path)}
    assert (tmp_path / "AGENTS.md").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    assert (tmp_path / "memory").read_text().startswith("a file")
    assert (tmp_path / "agents").stat().st_mode & 0o777 == 0o755
    assert {name: step.found.value for name, step in steps.items() if name != tmp_path.name} == {
        "AGENTS.md": "there",
        "USER.md": "failed",
        "SOUL.md": "made",
        "MEMORY.md": "made",
        "agents": "there",
        "workflows": "made",
        "memory": "failed",
    }
    assert (tmp_path / "SOUL.md").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "workflows").stat().st_mode & 0o777 == 0o700


def test_a_workspace_that_cannot_be_made_says_why(tmp_path):
    (tmp_path / "file").write_text("")
    (step,) = create_workspace_files(tmp_path / "file" / "ws")
    assert (step.found, step.detail) == (CreationStatus.failed, "Not a directory")
