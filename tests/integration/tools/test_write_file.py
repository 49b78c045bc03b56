"""`write_file` on real files: what it creates, and what it refuses (S3-11.write, S3-12.4, S4-T5)."""

import os
import stat

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.sandbox import files
from tests.integration.tools.writing import leftovers, read_then
from tests.integration.workbench import Workbench

MARK = "***REDACTED***"


NO_MODE_BITS = 0o022


def test_write_file_group_and_modes(workbench: Workbench):
    tool = workbench.registry.entry("write_file").tool
    assert tool.group is ToolGroup.code
    assert tool.allowed_modes == {ToolMode.coding}
    assert tool.aliases == ("write", "fs.write")


# -- creating --


async def test_a_file_is_created_with_its_folders(workbench: Workbench):
    result = await workbench.ok("write_file", path="a/b/c.txt", content="ü\n")
    assert (workbench.root / "a/b/c.txt").read_bytes() == "ü\n".encode()
    assert result.meta["bytes_written"] == 3
    assert result.meta["created"] is True
    assert result.meta["can_be_undone"] is True
    assert result.stdout == "created a/b/c.txt: 3 bytes\n"
    assert not leftovers(workbench)


@pytest.mark.parametrize("content", ["", "\n", "a\r\nb\n", "\ufeffx", "a\0b", "😀" * 1000])
async def test_what_is_given_is_what_a_new_file_holds(workbench: Workbench, content):
    await workbench.ok("write_file", path="f", content=content)
    assert (workbench.root / "f").read_bytes() == content.encode()


async def test_appending_to_nothing_creates(workbench: Workbench):
    assert (await workbench.ok("write_file", path="n", content="x", mode="append")).meta["created"]


async def test_a_new_file_has_the_permissions_of_any_new_file(workbench: Workbench):
    before = os.umask(NO_MODE_BITS)
    try:
        await workbench.ok("write_file", path="d/n", content="x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((workbench.root / "d/n").stat().st_mode) == 0o644


async def test_creating_never_replaces_a_file_that_appears_in_between(workbench: Workbench, monkeypatch):
    real = files._new_file

    def late(folder, mode):
        workbench.write("d/n", "somebody's")
        return real(folder, mode)

    monkeypatch.setattr(files, "_new_file", late)
    assert await workbench.refused("write_file", path="d/n", content="mine") == "STALE_READ"
    assert (workbench.root / "d/n").read_text() == "somebody's"
    assert not list(workbench.kept.entries(workbench.session_id))


async def test_half_a_character_is_refused(workbench: Workbench):
    assert await workbench.refused("write_file", path="n", content="a\ud800") == "INVALID_ARGS"
    workbench.write("o", "x")
    append = {"path": "o", "content": "\udfff", "mode": "append"}
    assert await workbench.refused("write_file", append) == "INVALID_ARGS"
    assert not (workbench.root / "n").exists()


# -- limits and arguments --


async def test_more_than_the_limit_is_refused_and_nothing_written(workbench: Workbench):
    """S4-T5."""
    workbench.narrow(write=10)
    assert await workbench.refused("write_file", path="n", content="x" * 11) == "LIMIT_EXCEEDED"
    assert await workbench.refused("write_file", path="n", content="ü" * 6) == "LIMIT_EXCEEDED"
    assert not (workbench.root / "n").exists()
    await workbench.ok("write_file", path="n", content="x" * 10)
    assert await workbench.refused("write_file", path="n", content="x" * 11) == "LIMIT_EXCEEDED"
    await workbench.ok("write_file", path="n", content="y" * 10, mode="append")


async def test_the_limit_counts_the_bytes_that_are_written_not_those_that_were_sent(workbench: Workbench):
    """S4-T5: a file in UTF-16 or with long line ends takes more than the text it was given."""
    workbench.write("wide", "hi".encode("utf-16"))
    workbench.write("dos", "a\r\n")
    workbench.narrow(write=10)
    for path in ("wide", "dos"):
        await workbench.ok("read_file", path=path)
        for mode in ("overwrite", "append"):
            sent = {"path": path, "content": "\n" * 9, "mode": mode}
            assert await workbench.refused("write_file", sent) == "LIMIT_EXCEEDED"


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
async def test_odd_arguments_are_refused(workbench: Workbench, arguments):
    assert await workbench.refused("write_file", arguments) == "INVALID_ARGS"
    assert list(workbench.root.iterdir()) == []


async def test_only_coding_may_write(workbench: Workbench):
    for mode in (ToolMode.chat, ToolMode.plan, ToolMode.chat_safe):
        workbench.mode = mode
        assert await workbench.refused("write_file", path="n", content="x") == "MODE_DENIED"


async def test_text_is_not_added_to_a_file_that_would_have_to_be_copied_for_too_long(workbench: Workbench):
    file = workbench.write("huge.log", b"x" * 65 * 1024 * 1024)
    assert (
        await workbench.refused("write_file", path="huge.log", content="x", mode="append")
        == "LIMIT_EXCEEDED"
    )
    assert file.stat().st_size == 65 * 1024 * 1024


@pytest.mark.parametrize("path", ["new/", "a.txt/", "new/.", "a.txt/./.", "new//."])
async def test_a_path_that_ends_as_a_folder_s_makes_no_file(workbench: Workbench, path):
    workbench.write("a.txt", "a")
    assert await workbench.refused("write_file", path=path, content="x") == "INVALID_ARGS"
    assert [entry.name for entry in workbench.root.iterdir()] == ["a.txt"]


# -- where nothing may be written --


@pytest.mark.parametrize("mode", ["overwrite", "append"])
async def test_what_is_no_place_for_a_file_is_refused(workbench: Workbench, mode):
    (workbench.root / "folder").mkdir()
    os.mkfifo(workbench.root / "pipe")
    workbench.write("file", "x")
    (workbench.outside / "target").write_text("untouched")
    (workbench.root / "out").symlink_to(workbench.outside / "target")
    (workbench.root / "dangling").symlink_to(workbench.outside / "new")
    (workbench.root / "out-folder").symlink_to(workbench.outside)
    (workbench.root / "loop").symlink_to("loop")
    before = workbench.outside_state()
    denied = [".", str(workbench.root), "../x", str(workbench.outside / "n"), "out", "dangling"]
    denied += ["out-folder/n", "out-folder/a/b", "loop", ".git/hooks/pre-commit", ".git/config"]
    denied += [".mcp.json", "sub/.vscode/tasks.json", ".GIT/Hooks/x", ".bashrc"]
    for path in denied:
        assert await workbench.refused("write_file", path=path, content="x", mode=mode) == "PATH_DENIED", (
            path
        )
    for path in ("folder", "pipe", "file/below", "n" * 300):
        assert (
            await workbench.refused("write_file", path=path, content="x", mode=mode) == "EXECUTION_ERROR"
        ), path
    assert workbench.outside_state() == before
    assert not (workbench.root / ".git").exists()
    assert not (workbench.root / "sub").exists()
    assert not leftovers(workbench)
    assert not list(workbench.kept.entries(workbench.session_id))


# -- masks --


async def test_a_mask_is_never_written_over_what_it_hides(workbench: Workbench):
    secret = "token = sk-known-secret-value\nother = 1\n"
    file = workbench.write("conf", secret)
    shown = (await workbench.ok("read_file", path="conf")).stdout
    assert MARK in shown
    content = shown.replace("other = 1", "other = 2")
    assert await workbench.refused("write_file", path="conf", content=content) == "REDACTED_CONTENT"
    assert await workbench.refused("write_file", path="new", content=content) == "REDACTED_CONTENT"
    append = {"path": "conf", "content": content, "mode": "append"}
    assert await workbench.refused("write_file", append) == "REDACTED_CONTENT"
    assert file.read_text() == secret


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
async def test_a_mark_that_the_file_has_itself_may_stay(workbench: Workbench, encoding):
    file = workbench.write("doc", f"é shown as {MARK}\n".encode(encoding))
    await read_then(workbench, "doc", f"is shown as {MARK}.\n")
    assert file.read_bytes() == f"is shown as {MARK}.\n".encode(encoding)
    twice = f"{MARK} {MARK}"
    assert await workbench.refused("write_file", path="doc", content=twice) == "REDACTED_CONTENT"


@pytest.mark.parametrize("before", [5, len(MARK) - 1, len(MARK), len(MARK) + 1, 0])
async def test_a_mark_is_counted_once_wherever_it_lies_in_a_large_file(workbench: Workbench, before):
    """Also across the pieces in which the file is looked through, and at the end of one."""
    text = "x" * (files.CHUNK_BYTES - before) + MARK + "\n" + "y\n" * 100
    file = workbench.write("doc", text)
    await workbench.pages("read_file", path="doc")
    twice = f"{MARK} {MARK}\n"
    assert await workbench.refused("write_file", path="doc", content=twice) == "REDACTED_CONTENT"
    assert file.read_text() == text
    await workbench.ok("write_file", path="doc", content=f"about {MARK}\n")
    assert file.read_text() == f"about {MARK}\n"
