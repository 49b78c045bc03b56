"""`write_file` on real files: what it creates, and what it refuses (S3-11.write, S3-12.4, S4-T5)."""

import os
import stat

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.sandbox import file_io
from tests.harness.tool_calls import ToolHarness
from tests.integration.tools.writing import leftovers, read_then

MARK = "***REDACTED***"


NO_MODE_BITS = 0o022


def test_write_file_group_and_modes(harness: ToolHarness):
    tool = harness.registry.entry("write_file").tool
    assert tool.group is ToolGroup.code
    assert tool.allowed_modes == {ToolMode.coding}
    assert tool.aliases == ("write", "fs.write")


# -- creating --


async def test_a_file_is_created_with_its_folders(harness: ToolHarness):
    result = await harness.ok("write_file", path="a/b/c.txt", content="ü\n")
    assert (harness.root / "a/b/c.txt").read_bytes() == "ü\n".encode()
    assert result.meta["bytes_written"] == 3
    assert result.meta["created"] is True
    assert result.meta["can_be_undone"] is True
    assert result.stdout == "created a/b/c.txt: 3 bytes\n"
    assert not leftovers(harness)


@pytest.mark.parametrize("content", ["", "\n", "a\r\nb\n", "\ufeffx", "a\0b", "😀" * 1000])
async def test_what_is_given_is_what_a_new_file_holds(harness: ToolHarness, content):
    await harness.ok("write_file", path="f", content=content)
    assert (harness.root / "f").read_bytes() == content.encode()


async def test_appending_to_nothing_creates(harness: ToolHarness):
    assert (await harness.ok("write_file", path="n", content="x", mode="append")).meta["created"]


async def test_a_new_file_has_the_permissions_of_any_new_file(harness: ToolHarness):
    before = os.umask(NO_MODE_BITS)
    try:
        await harness.ok("write_file", path="d/n", content="x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((harness.root / "d/n").stat().st_mode) == 0o644


async def test_creating_never_replaces_a_file_that_appears_in_between(harness: ToolHarness, monkeypatch):
    real = file_io.new_file

    def late(folder, mode):
        harness.write("d/n", "somebody's")
        return real(folder, mode)

    monkeypatch.setattr(file_io, "new_file", late)
    assert await harness.refused("write_file", path="d/n", content="mine") == "STALE_READ"
    assert (harness.root / "d/n").read_text() == "somebody's"
    assert not list(harness.kept.entries(harness.session_id))


async def test_half_a_character_is_refused(harness: ToolHarness):
    assert await harness.refused("write_file", path="n", content="a\ud800") == "INVALID_ARGS"
    harness.write("o", "x")
    append = {"path": "o", "content": "\udfff", "mode": "append"}
    assert await harness.refused("write_file", append) == "INVALID_ARGS"
    assert not (harness.root / "n").exists()


# -- limits and arguments --


async def test_more_than_the_limit_is_refused_and_nothing_written(harness: ToolHarness):
    """S4-T5."""
    harness.narrow(write=10)
    assert await harness.refused("write_file", path="n", content="x" * 11) == "LIMIT_EXCEEDED"
    assert await harness.refused("write_file", path="n", content="ü" * 6) == "LIMIT_EXCEEDED"
    assert not (harness.root / "n").exists()
    await harness.ok("write_file", path="n", content="x" * 10)
    assert await harness.refused("write_file", path="n", content="x" * 11) == "LIMIT_EXCEEDED"
    await harness.ok("write_file", path="n", content="y" * 10, mode="append")


async def test_the_limit_counts_the_bytes_that_are_written_not_those_that_were_sent(harness: ToolHarness):
    """S4-T5: a file in UTF-16 or with long line ends takes more than the text it was given."""
    harness.write("wide", "hi".encode("utf-16"))
    harness.write("dos", "a\r\n")
    harness.narrow(write=10)
    for path in ("wide", "dos"):
        await harness.ok("read_file", path=path)
        for mode in ("overwrite", "append"):
            sent = {"path": path, "content": "\n" * 9, "mode": mode}
            assert await harness.refused("write_file", sent) == "LIMIT_EXCEEDED"


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "n"},
        {"content": "x"},
        {"path": "n", "content": 5},
        {"path": "n", "content": None},
        {"path": ["n"], "content": "x"},
        {"path": "", "content": "x"},
        {"path": "n", "content": "x", "mode": "truncate"},
        {"path": "n", "content": "x", "mode": True},
        {"path": "n", "content": "x", "encoding": "utf-8"},
        {"path": "n\0m", "content": "x"},
    ],
)
async def test_odd_arguments_are_refused(harness: ToolHarness, arguments):
    assert await harness.refused("write_file", arguments) == "INVALID_ARGS"
    assert list(harness.root.iterdir()) == []


async def test_only_coding_may_write(harness: ToolHarness):
    for mode in (ToolMode.chat, ToolMode.plan, ToolMode.chat_safe):
        harness.mode = mode
        assert await harness.refused("write_file", path="n", content="x") == "MODE_DENIED"


async def test_text_is_not_added_to_a_file_that_would_have_to_be_copied_for_too_long(harness: ToolHarness):
    file = harness.write("huge.log", b"x" * 65 * 1024 * 1024)
    assert (
        await harness.refused("write_file", path="huge.log", content="x", mode="append") == "LIMIT_EXCEEDED"
    )
    assert file.stat().st_size == 65 * 1024 * 1024


@pytest.mark.parametrize("path", ["new/", "a.txt/", "new/.", "a.txt/./.", "new//."])
async def test_a_path_that_ends_as_a_folder_s_makes_no_file(harness: ToolHarness, path):
    harness.write("a.txt", "a")
    assert await harness.refused("write_file", path=path, content="x") == "INVALID_ARGS"
    assert [entry.name for entry in harness.root.iterdir()] == ["a.txt"]


# -- where nothing may be written --


@pytest.mark.parametrize("mode", ["overwrite", "append"])
async def test_what_is_no_place_for_a_file_is_refused(harness: ToolHarness, mode):
    (harness.root / "folder").mkdir()
    os.mkfifo(harness.root / "pipe")
    harness.write("file", "x")
    (harness.outside / "target").write_text("untouched")
    (harness.root / "out").symlink_to(harness.outside / "target")
    (harness.root / "dangling").symlink_to(harness.outside / "new")
    (harness.root / "out-folder").symlink_to(harness.outside)
    (harness.root / "loop").symlink_to("loop")
    before = harness.outside_state()
    denied = [".", str(harness.root), "../x", str(harness.outside / "n"), "out", "dangling"]
    denied += ["out-folder/n", "out-folder/a/b", "loop", ".git/hooks/pre-commit", ".git/config"]
    denied += [".mcp.json", "sub/.vscode/tasks.json", ".GIT/Hooks/x", ".bashrc"]
    for path in denied:
        assert await harness.refused("write_file", path=path, content="x", mode=mode) == "PATH_DENIED", path
    for path in ("folder", "pipe", "file/below", "n" * 300):
        assert (
            await harness.refused("write_file", path=path, content="x", mode=mode) == "EXECUTION_ERROR"
        ), path
    assert harness.outside_state() == before
    assert not (harness.root / ".git").exists()
    assert not (harness.root / "sub").exists()
    assert not leftovers(harness)
    assert not list(harness.kept.entries(harness.session_id))


# -- masks --


async def test_a_mask_is_never_written_over_what_it_hides(harness: ToolHarness):
    secret = "token = sk-known-secret-value\nother = 1\n"
    file = harness.write("conf", secret)
    shown = (await harness.ok("read_file", path="conf")).stdout
    assert MARK in shown
    content = shown.replace("other = 1", "other = 2")
    assert await harness.refused("write_file", path="conf", content=content) == "REDACTED_CONTENT"
    assert await harness.refused("write_file", path="new", content=content) == "REDACTED_CONTENT"
    append = {"path": "conf", "content": content, "mode": "append"}
    assert await harness.refused("write_file", append) == "REDACTED_CONTENT"
    assert file.read_text() == secret


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
async def test_a_mark_that_the_file_has_itself_may_stay(harness: ToolHarness, encoding):
    file = harness.write("doc", f"é shown as {MARK}\n".encode(encoding))
    await read_then(harness, "doc", f"is shown as {MARK}.\n")
    assert file.read_bytes() == f"is shown as {MARK}.\n".encode(encoding)
    twice = f"{MARK} {MARK}"
    assert await harness.refused("write_file", path="doc", content=twice) == "REDACTED_CONTENT"


@pytest.mark.parametrize("before", [5, len(MARK) - 1, len(MARK), len(MARK) + 1, 0])
async def test_a_mark_is_counted_once_wherever_it_lies_in_a_large_file(harness: ToolHarness, before):
    """Also across the pieces in which the file is looked through, and at the end of one."""
    text = "x" * (file_io.CHUNK_BYTES - before) + MARK + "\n" + "y\n" * 100
    file = harness.write("doc", text)
    await harness.pages("read_file", path="doc")
    twice = f"{MARK} {MARK}\n"
    assert await harness.refused("write_file", path="doc", content=twice) == "REDACTED_CONTENT"
    assert file.read_text() == text
    await harness.ok("write_file", path="doc", content=f"about {MARK}\n")
    assert file.read_text() == f"about {MARK}\n"
