"""`delete_file` on real files (S3-6.1.2, S3-12.4)."""

import asyncio
import os
import socket
import subprocess
import sys

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.tools.builtins.delete_file import DeleteFileTool
from tests.harness.tool_calls import ToolHarness
from tests.integration.tools.mounts import tmpfs
from tests.integration.tools.trees import tree
from tests.unit.sandbox.conftest import open_descriptors


async def refused(make_harness: ToolHarness, path: str, **more) -> str:
    """The code of a deletion that must fail and change nothing, neither inside nor outside."""
    before, outside = tree(make_harness.root, times=True), make_harness.outside_state()
    kept = list(make_harness.kept.entries(make_harness.session_id))
    code = await make_harness.refused("delete_file", path=path, **more)
    assert tree(make_harness.root, times=True) == before
    assert make_harness.outside_state() == outside
    assert list(make_harness.kept.entries(make_harness.session_id)) == kept
    return code


def test_delete_file_group_and_modes(harness: ToolHarness):
    tool = harness.registry.entry("delete_file").tool
    assert tool.group is ToolGroup.code
    assert tool.allowed_modes == {ToolMode.coding}


async def test_a_file_is_deleted(harness: ToolHarness):
    harness.write("a/f", "x")
    result = await harness.ok("delete_file", path="a/f")
    assert result.stdout == "deleted a/f\n"
    assert result.meta["can_be_undone"] is True
    assert tree(harness.root).keys() == {"a"}


async def test_a_link_goes_and_its_target_stays(harness: ToolHarness):
    harness.write("d/f", "x")
    (harness.outside / "f").write_text("s")
    targets = {
        "a": "d/f",
        "b": "d",
        "c": str(harness.outside),
        "e": str(harness.outside / "f"),
        "g": "no",
    }
    for name, target in targets.items():
        (harness.root / name).symlink_to(target)
        await harness.ok("delete_file", path=name)
    assert tree(harness.root).keys() == {"d", "d/f"}
    assert (harness.outside / "f").read_text() == "s"


async def test_a_folder_goes_only_when_that_is_said(harness: ToolHarness):
    harness.write("d/e/f", "x")
    (harness.root / "empty").mkdir()
    for path in ("d", "empty"):
        assert await refused(harness, path) == "INVALID_ARGS"
        assert await refused(harness, path, recursive=False) == "INVALID_ARGS"
        await harness.ok("delete_file", path=path, recursive=True)
    assert tree(harness.root) == {}


async def test_links_in_a_folder_are_not_followed(harness: ToolHarness):
    (harness.outside / "d").mkdir()
    (harness.outside / "d/f").write_text("s")
    harness.write("keep/f", "x")
    harness.write("d/f", "x")
    for name, target in (("a", harness.outside), ("b", harness.outside / "d/f"), ("c", "../keep")):
        (harness.root / "d" / name).symlink_to(target)
    outside = harness.outside_state()
    await harness.ok("delete_file", path="d", recursive=True)
    assert harness.outside_state() == outside
    assert tree(harness.root).keys() == {"keep", "keep/f"}


async def test_what_may_not_be_touched_is_refused(harness: ToolHarness):
    (harness.outside / "d").mkdir()
    (harness.outside / "f").write_text("s")
    (harness.root / "out").symlink_to(harness.outside)
    harness.write(".git/hooks/pre-commit", "x")
    harness.write("repo/.git/config", "x")
    harness.write("repo/deep/.vscode/tasks.json", "x")
    harness.write("f", "x")
    denied = [".", str(harness.root), "..", "/", "out/f", "out/d", "../outside/f", str(harness.outside)]
    denied += [
        ".git",
        ".git/hooks",
        ".git/hooks/pre-commit",
        "repo",
        "repo/deep",
        "repo/.git/config",
        "f/..",
    ]
    for path in denied:
        assert await refused(harness, path, recursive=True) == "PATH_DENIED", path
    for path in ("missing", "missing/f", "f/x"):
        assert await refused(harness, path, recursive=True) == "EXECUTION_ERROR", path


async def test_an_opened_folder_inside_another_stays(harness: ToolHarness):
    inner = harness.root / "a/b/inner"
    inner.mkdir(parents=True)
    harness.roots = (harness.root, inner)
    for path in ("a", "a/b", "a/b/inner", str(inner)):
        assert await refused(harness, path, recursive=True) == "PATH_DENIED"


async def test_special_files_go_and_it_is_told_that_they_are_gone(harness: ToolHarness):
    os.mkfifo(harness.root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(harness.root / "s"))
        for path in ("pipe", "s"):
            result = await harness.ok("delete_file", path=path)
            assert result.meta["can_be_undone"] is False
            assert "cannot be undone" in result.stdout
    harness.write("d/f", "x")
    os.mkfifo(harness.root / "d/pipe")
    assert (await harness.ok("delete_file", path="d", recursive=True)).meta["can_be_undone"] is True
    assert tree(harness.root) == {}


async def test_what_is_mounted_is_not_removed(harness: ToolHarness):
    with tmpfs(harness.root / "mounted", "1m"):
        harness.write("mounted/f", "x")
        assert await refused(harness, "mounted", recursive=True) == "EXECUTION_ERROR"


CLOSED = """
import asyncio, os, sys
from pathlib import Path
from interlock.core.errors import ToolError
from interlock.sandbox.file_changer import FileChanger, ChangeOrigin
from interlock.sandbox.directories import refuse_protected_inside
from interlock.sandbox.undo_store import UndoStore
from interlock.sandbox.paths import PathAccess, PathResolver
from interlock.sandbox.profile import SandboxProfile

root, state = Path(sys.argv[1]), Path(sys.argv[2])
os.setgid(65534); os.setuid(65534)
territory = PathResolver(SandboxProfile((root,), (root,)))
changes = FileChanger(UndoStore(state, max_bytes=1 << 20))
for name in ("unreadable", "unwritable", "file"):
    try:
        changes.delete(territory, territory.find(name, PathAccess.write, follow=False),
                       ChangeOrigin("s", "c", None), lambda: None)
        print(name, "deleted")
    except (ToolError, OSError) as error:
        print(name, "refused")
place = territory.find("unreadable", PathAccess.write, follow=False)
try:
    refuse_protected_inside(territory, place, moved_to=place)
except ToolError as error:
    print("move refused")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="it takes root to become somebody else")
async def test_what_cannot_be_read_or_removed_wholly_stays_whole(harness: ToolHarness, tmp_path_factory):
    """Nobody is told that a folder is gone, or can come back, when a part of it cannot."""
    top = tmp_path_factory.mktemp("closed")
    for folder in (top, *list(top.parents)[:-2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    root, state = top / "root", top / "state"
    for name in ("unreadable/d/f", "unwritable/d/f", "file/f"):
        path = root / name
        path.parent.mkdir(parents=True)
        path.write_text("x")
    state.mkdir()
    for path in (top, *top.rglob("*")):
        os.chown(path, 65534, 65534)
    (root / "unreadable/d").chmod(0o300)
    (root / "unwritable/d").chmod(0o555)
    (root / "file/f").chmod(0o000)
    before = tree(root, times=True)
    done = subprocess.run(
        [sys.executable, "-c", CLOSED, str(root), str(state)], capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        *("unreadable refused", "unwritable refused", "file refused", "move refused"),
    ], done.stderr
    assert tree(root, times=True) == before


async def test_of_many_who_delete_one_file_only_one_succeeds(harness: ToolHarness):
    harness.write("f", "x")
    calls = [harness.call("delete_file", path="f") for _ in range(8)]
    assert [result.ok for result in await asyncio.gather(*calls)].count(True) == 1
    assert len(list(harness.kept.entries(harness.session_id))) == 1


async def test_too_much_to_keep_is_deleted_and_told(harness: ToolHarness):
    harness.kept._max_bytes = 64 * 1024
    harness.write("big", "x" * 100_000)
    harness.write("d/big", "x" * 100_000)
    for arguments in ({"path": "big"}, {"path": "d", "recursive": True}):
        result = await harness.ok("delete_file", arguments)
        assert result.meta["can_be_undone"] is False
        assert "cannot be undone" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"path": 5},
        {"path": ""},
        {"path": "f", "recursive": "yes"},
        {"path": "f", "recursive": 1},
        {"path": "f", "force": True},
        {"path": ["f"]},
    ],
)
async def test_odd_arguments_are_refused(harness: ToolHarness, arguments):
    harness.write("f", "x")
    assert await harness.refused("delete_file", arguments) == "INVALID_ARGS"
    assert tree(harness.root).keys() == {"f"}


async def test_no_descriptor_stays_open(harness: ToolHarness):
    harness.write("d/e/f", "x")
    await harness.ok("delete_file", path="d", recursive=True)
    before = open_descriptors()
    for _ in range(3):
        harness.write("d/e/f", "x")
        harness.write("f", "x")
        await harness.refused("delete_file", path="d")
        await harness.ok("delete_file", path="d", recursive=True)
        await harness.ok("delete_file", path="f")
        await harness.refused("delete_file", path="f")
    assert open_descriptors() == before


async def test_a_folder_that_takes_the_place_of_a_file_after_judging_stays(
    harness: ToolHarness, monkeypatch
):
    """Nobody said recursive, and what is protected in it was never looked for."""
    file = harness.write("f", "x")
    work = DeleteFileTool.work

    def late(self, plan, resolver, context):
        file.unlink()
        harness.write("f/.git/config", "precious")
        return work(self, plan, resolver, context)

    monkeypatch.setattr(DeleteFileTool, "work", late)
    assert await harness.refused("delete_file", path="f") == "STALE_READ"
    assert (harness.root / "f/.git/config").read_text() == "precious"


async def test_what_comes_into_a_folder_while_it_is_deleted_is_not_lost(harness: ToolHarness, monkeypatch):
    """It was put aside already when somebody, who had it open, put something into it."""
    harness.write("folder/old.txt", "old")
    held = os.open(harness.root / "folder", os.O_RDONLY | os.O_DIRECTORY)
    real = os.rename

    def rename(source, target, **options):
        real(source, target, **options)
        if str(target).endswith(".interlock-old"):
            os.close(os.open("late.txt", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=held))

    monkeypatch.setattr(os, "rename", rename)
    assert await harness.refused("delete_file", path="folder", recursive=True) == "STALE_READ"
    os.close(held)
    assert sorted(path.name for path in (harness.root / "folder").iterdir()) == ["late.txt", "old.txt"]
    assert [path.name for path in harness.root.iterdir()] == ["folder"]
