"""`write_file` on real files (S3-11.write, S3-12.4, S3-12.15, S4-T5)."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.sandbox import files
from interlock.sandbox.kept import KeptVersions
from tests.integration.tools.mounts import tmpfs
from tests.integration.workbench import Workbench
from tests.unit.sandbox.conftest import open_descriptors

MARK = "***REDACTED***"
NO_MODE_BITS = 0o022


def leftovers(bench: Workbench) -> list[str]:
    """Temporary names that should be gone."""
    return [path.name for path in bench.root.rglob("*") if ".interlock-" in path.name]


async def read_then(bench: Workbench, path: str, content: str, **more):
    await bench.ok("read_file", path=path)
    return await bench.ok("write_file", path=path, content=content, **more)


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


# -- what a file is like stays --


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "x\r\ny\n", b"x\r\ny\r\n"),
        (b"a\r\nb\n", "x\ny\n", b"x\ny\n"),
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
        (b"\xef\xbb\xbfa\n", "\ufeffb\n", b"\xef\xbb\xbfb\n"),
        ("a\n".encode("utf-16"), "ü😀\n", "ü😀\n".encode("utf-16")),
        (b"\xfe\xff\0a", "b", b"\xfe\xff\0b"),
        (b"caf\xe9\n", "th\xe9\n", b"th\xe9\n"),
        (b"a\n", "", b""),
        (b"", "x", b"x"),
    ],
)
async def test_encoding_mark_and_line_ends_are_kept(workbench: Workbench, before, content, after):
    file = workbench.write("f", before)
    await read_then(workbench, "f", content)
    assert file.read_bytes() == after


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a", "b", b"ab"),
        (b"a\r\n", "b\n", b"a\r\nb\r\n"),
        (b"\xef\xbb\xbfa", "b", b"\xef\xbb\xbfab"),
        ("a".encode("utf-16"), "ü", "aü".encode("utf-16")),
        (b"caf\xe9\n", "\xfc", b"caf\xe9\n\xfc"),
        (b"", "x", b"x"),
        (b"x", "", b"x"),
        (b"x" * 70_000 + b"\xe9", "\xfc", b"x" * 70_000 + b"\xe9\xfc"),
    ],
)
async def test_appending_needs_no_read_and_keeps_the_form(workbench: Workbench, before, content, after):
    file = workbench.write("f", before)
    result = await workbench.ok("write_file", path="f", content=content, mode="append")
    assert file.read_bytes() == after
    assert result.meta["bytes_written"] == len(after) - len(before)


async def test_a_character_that_the_files_encoding_lacks_is_told(workbench: Workbench):
    file = workbench.write("f", b"caf\xe9\n")
    await workbench.ok("read_file", path="f")
    for mode in ("overwrite", "append"):
        result = await workbench.call("write_file", path="f", content="5 €", mode=mode)
        assert result.failure.error_code.value == "INVALID_ARGS"
        assert "'€'" in result.failure.message
        assert "latin-1" in result.failure.message
    assert file.read_bytes() == b"caf\xe9\n"


async def test_a_file_that_is_not_text_is_left(workbench: Workbench):
    file = workbench.write("f.png", b"\x89PNG\0\0")
    result = await workbench.call("write_file", path="f.png", content="x")
    assert "PNG" in result.failure.message
    assert await workbench.refused("write_file", path="f.png", content="x", mode="append")
    assert file.read_bytes() == b"\x89PNG\0\0"


async def test_permissions_owner_and_attributes_stay(workbench: Workbench):
    file = workbench.write("run.sh", "old")
    file.chmod(0o751)
    os.setxattr(file, "user.colour", b"blue")
    if os.geteuid() == 0:
        os.chown(file, 1234, 2345)
    was = file.stat()
    await read_then(workbench, "run.sh", "new")
    now = file.stat()
    assert (now.st_mode, now.st_uid, now.st_gid) == (was.st_mode, was.st_uid, was.st_gid)
    assert os.getxattr(file, "user.colour") == b"blue"
    await workbench.ok("write_file", path="run.sh", content="er", mode="append")
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert file.read_text() == "newer"


async def test_a_read_only_file_is_refused(workbench: Workbench):
    file = workbench.write("f", "old")
    await workbench.ok("read_file", path="f")
    file.chmod(0o444)
    for mode in ("overwrite", "append"):
        result = await workbench.call("write_file", path="f", content="new", mode=mode)
        assert "read-only" in result.failure.message
    assert file.read_text() == "old"


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


async def test_a_link_inside_stays_a_link_and_its_target_is_written(workbench: Workbench):
    workbench.write("real/f", "old")
    (workbench.root / "link").symlink_to("real/f")
    (workbench.root / "dangling").symlink_to("real/new")
    await read_then(workbench, "link", "new")
    await workbench.ok("write_file", path="dangling", content="made")
    assert (workbench.root / "link").is_symlink()
    assert (workbench.root / "dangling").is_symlink()
    assert (workbench.root / "real/f").read_text() == "new"
    assert (workbench.root / "real/new").read_text() == "made"


async def test_the_other_name_of_a_hard_link_is_untouched(workbench: Workbench):
    file = workbench.write("a", "old")
    (workbench.root / "b").hardlink_to(file)
    await read_then(workbench, "a", "new")
    assert (workbench.root / "b").read_text() == "old"


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


async def test_a_mark_is_counted_wherever_it_lies_in_a_large_file(workbench: Workbench):
    """Also across the pieces in which the file is looked through."""
    text = "x" * (files.CHUNK_BYTES - 5) + MARK + "\n" + "y\n" * 100
    workbench.write("doc", text)
    await workbench.pages("read_file", path="doc")
    await workbench.ok("write_file", path="doc", content=f"about {MARK}\n")


# -- all or nothing --


async def test_a_full_disk_leaves_the_old_file_whole(workbench: Workbench):
    with tmpfs(workbench.root / "small", "64k"):
        file = workbench.write("small/f", "old")
        await workbench.ok("read_file", path="small/f")
        result = await workbench.call("write_file", path="small/f", content="x" * 100_000)
        assert "disk is full" in result.failure.message
        assert await workbench.refused("write_file", path="small/f", content="x" * 100_000, mode="append")
        assert await workbench.refused("write_file", path="small/a/b/n", content="x" * 100_000)
        assert file.read_text() == "old"
        assert [path.name for path in (workbench.root / "small").iterdir()] == ["f"]
        assert not list(workbench.kept.entries(workbench.session_id))


async def test_a_full_state_disk_stops_the_change(workbench: Workbench, tmp_path):
    """What cannot be kept is not changed."""
    file = workbench.write("f", "old" * 30_000)
    await workbench.pages("read_file", path="f")
    with tmpfs(tmp_path / "state" / "kept", "64k"):
        assert await workbench.refused("write_file", path="f", content="new")
        assert file.read_text() == "old" * 30_000
        assert not list((tmp_path / "state" / "kept").rglob("*.kept"))
        assert not list((tmp_path / "state" / "kept").rglob("*.part"))


WRITER = """
import sys
from contextlib import suppress
from pathlib import Path
from interlock.sandbox.changes import FileChanges, NewContent, Origin
from interlock.sandbox.files import opened_in
from interlock.sandbox.kept import KeptVersions
from interlock.sandbox.paths import Access, Territory
from interlock.sandbox.profile import SandboxProfile
import hashlib, itertools, os

root, state = Path(sys.argv[1]), Path(sys.argv[2])
territory = Territory(SandboxProfile((root,), (root,)))
changes = FileChanges(KeptVersions(state, max_bytes=1 << 20))
place = territory.find("f", Access.write)
sys.stdout.write("up\\n")
sys.stdout.flush()
for number in itertools.count():
    data = (b"%08d" % number) * 4000
    with territory.parent(place) as parent, opened_in(parent.descriptor, "f", "f") as file:
        changes.replace(
            parent, place, file, iter((data[:7000], data[7000:])),
            before_sha256=file.sha256(lambda: None), after_sha256=hashlib.sha256(data).hexdigest(),
            origin=Origin("s", f"call_{number}", None), commit=lambda: None,
        )
"""


def kill_writers(root: Path, state: Path, times: int) -> None:
    file = root / "f"
    file.write_bytes(b"00000000" * 4000)
    for round_number in range(times):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(root), str(state)], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        was = file.stat().st_ino
        # After a different number of changes each time, at whatever point the child is by then.
        for _ in range(round_number % 7 * 200):
            if file.stat().st_ino != was:
                break
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        data = file.read_bytes()
        assert data == data[:8] * 4000
        for entry in KeptVersions(state, max_bytes=1 << 20).entries("s"):
            with entry.content() as content:
                kept = content.read()
            assert kept == kept[:8] * 4000


def test_a_kill_leaves_the_old_file_or_the_new_one(tmp_path):
    (tmp_path / "root").mkdir()
    kill_writers(tmp_path / "root", tmp_path / "kept", 12)


@pytest.mark.full
def test_hundreds_of_kills_leave_the_old_file_or_the_new_one(tmp_path):
    (tmp_path / "root").mkdir()
    kill_writers(tmp_path / "root", tmp_path / "kept", 400)


# -- time-out and cancel --


async def test_a_call_that_runs_out_of_time_has_no_effect_afterwards(workbench: Workbench):
    file = workbench.write("big", b"x" * 60_000_000)
    result = await workbench.call("write_file", path="big", content="end", mode="append", timeout=0.01)
    assert result.failure is not None
    assert result.failure.error_code.value == "TIMEOUT"
    assert file.stat().st_size == 60_000_000
    assert not leftovers(workbench)
    assert not list(workbench.kept.entries(workbench.session_id))


async def test_a_cancelled_call_happened_or_did_not(workbench: Workbench):
    """Whenever the cancellation comes, the log tells the truth about the file."""
    file = workbench.write("f", b"x" * 3_000_000)
    outcomes = set()
    for attempt in range(30):
        size = file.stat().st_size
        task = asyncio.ensure_future(workbench.call("write_file", path="f", content="e", mode="append"))
        for _ in range(attempt):
            await asyncio.sleep(0)
            await asyncio.to_thread(int)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        kind, _ = workbench.last_event()
        happened = kind == "tool_call.completed"
        outcomes.add(happened)
        assert file.stat().st_size == size + happened
    assert not leftovers(workbench)


async def test_additions_at_the_same_time_are_all_there(workbench: Workbench):
    file = workbench.write("log", "")
    calls = [
        workbench.call("write_file", path="log", content=f"{number}\n", mode="append")
        for number in range(40)
    ]
    results = await asyncio.gather(*calls)
    assert [result.failure for result in results if result.failure] == []
    assert sorted(map(int, file.read_text().split())) == list(range(40))


async def test_no_descriptor_stays_open(workbench: Workbench):
    workbench.write("f", "x")
    await read_then(workbench, "f", "y")
    before = open_descriptors()
    for _ in range(5):
        await read_then(workbench, "f", "z")
        await workbench.ok("write_file", path="f", content="z", mode="append")
        await workbench.refused("write_file", path="f/g", content="z")
        await workbench.refused("write_file", path=".", content="z")
        (workbench.root / "n").unlink(missing_ok=True)
        await workbench.ok("write_file", path="n", content="z")
    assert open_descriptors() == before


async def test_text_is_not_added_to_a_file_that_would_have_to_be_copied_for_too_long(workbench: Workbench):
    file = workbench.write("huge.log", b"x" * 65 * 1024 * 1024)
    assert (
        await workbench.refused("write_file", path="huge.log", content="x", mode="append")
        == "LIMIT_EXCEEDED"
    )
    assert file.stat().st_size == 65 * 1024 * 1024


@pytest.mark.parametrize("path", ["new/", "a.txt/"])
async def test_a_path_that_ends_with_a_slash_makes_no_file(workbench: Workbench, path):
    workbench.write("a.txt", "a")
    assert await workbench.refused("write_file", path=path, content="x") == "INVALID_ARGS"
    assert [entry.name for entry in workbench.root.iterdir()] == ["a.txt"]
