"""`delete_file` on real files (S3-6.1.2, S3-12.4)."""

import asyncio
import os
import socket
import subprocess
import sys

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.tools.builtins.delete_file import DeleteFileTool
from tests.integration.tools.mounts import tmpfs
from tests.integration.tools.trees import tree
from tests.integration.workbench import Workbench
from tests.unit.sandbox.conftest import open_descriptors


async def refused(bench: Workbench, path: str, **more) -> str:
    """The code of a deletion that must fail and change nothing, neither inside nor outside."""
    before, outside = tree(bench.root, times=True), bench.outside_state()
    kept = list(bench.kept.entries(bench.session_id))
    code = await bench.refused("delete_file", path=path, **more)
    assert tree(bench.root, times=True) == before
    assert bench.outside_state() == outside
    assert list(bench.kept.entries(bench.session_id)) == kept
    return code


def test_delete_file_group_and_modes(workbench: Workbench):
    tool = workbench.registry.entry("delete_file").tool
    assert tool.group is ToolGroup.code
    assert tool.allowed_modes == {ToolMode.coding}


async def test_a_file_is_deleted(workbench: Workbench):
    workbench.write("a/f", "x")
    result = await workbench.ok("delete_file", path="a/f")
    assert result.stdout == "deleted a/f\n"
    assert result.meta["can_be_undone"] is True
    assert tree(workbench.root).keys() == {"a"}


async def test_a_link_goes_and_its_target_stays(workbench: Workbench):
    workbench.write("d/f", "x")
    (workbench.outside / "f").write_text("s")
    targets = {
        "a": "d/f",
        "b": "d",
        "c": str(workbench.outside),
        "e": str(workbench.outside / "f"),
        "g": "no",
    }
    for name, target in targets.items():
        (workbench.root / name).symlink_to(target)
        await workbench.ok("delete_file", path=name)
    assert tree(workbench.root).keys() == {"d", "d/f"}
    assert (workbench.outside / "f").read_text() == "s"


async def test_a_folder_goes_only_when_that_is_said(workbench: Workbench):
    workbench.write("d/e/f", "x")
    (workbench.root / "empty").mkdir()
    for path in ("d", "empty"):
        assert await refused(workbench, path) == "INVALID_ARGS"
        assert await refused(workbench, path, recursive=False) == "INVALID_ARGS"
        await workbench.ok("delete_file", path=path, recursive=True)
    assert tree(workbench.root) == {}


async def test_links_in_a_folder_are_not_followed(workbench: Workbench):
    (workbench.outside / "d").mkdir()
    (workbench.outside / "d/f").write_text("s")
    workbench.write("keep/f", "x")
    workbench.write("d/f", "x")
    for name, target in (("a", workbench.outside), ("b", workbench.outside / "d/f"), ("c", "../keep")):
        (workbench.root / "d" / name).symlink_to(target)
    outside = workbench.outside_state()
    await workbench.ok("delete_file", path="d", recursive=True)
    assert workbench.outside_state() == outside
    assert tree(workbench.root).keys() == {"keep", "keep/f"}


async def test_what_may_not_be_touched_is_refused(workbench: Workbench):
    (workbench.outside / "d").mkdir()
    (workbench.outside / "f").write_text("s")
    (workbench.root / "out").symlink_to(workbench.outside)
    workbench.write(".git/hooks/pre-commit", "x")
    workbench.write("repo/.git/config", "x")
    workbench.write("repo/deep/.vscode/tasks.json", "x")
    workbench.write("f", "x")
    denied = [".", str(workbench.root), "..", "/", "out/f", "out/d", "../outside/f", str(workbench.outside)]
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
        assert await refused(workbench, path, recursive=True) == "PATH_DENIED", path
    for path in ("missing", "missing/f", "f/x"):
        assert await refused(workbench, path, recursive=True) == "EXECUTION_ERROR", path


async def test_an_opened_folder_inside_another_stays(workbench: Workbench):
    inner = workbench.root / "a/b/inner"
    inner.mkdir(parents=True)
    workbench.roots = (workbench.root, inner)
    for path in ("a", "a/b", "a/b/inner", str(inner)):
        assert await refused(workbench, path, recursive=True) == "PATH_DENIED"


async def test_special_files_go_and_it_is_told_that_they_are_gone(workbench: Workbench):
    os.mkfifo(workbench.root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(workbench.root / "s"))
        for path in ("pipe", "s"):
            result = await workbench.ok("delete_file", path=path)
            assert result.meta["can_be_undone"] is False
            assert "cannot be undone" in result.stdout
    workbench.write("d/f", "x")
    os.mkfifo(workbench.root / "d/pipe")
    assert (await workbench.ok("delete_file", path="d", recursive=True)).meta["can_be_undone"] is True
    assert tree(workbench.root) == {}


async def test_what_is_mounted_is_not_removed(workbench: Workbench):
    with tmpfs(workbench.root / "mounted", "1m"):
        workbench.write("mounted/f", "x")
        assert await refused(workbench, "mounted", recursive=True) == "EXECUTION_ERROR"


CLOSED = """
import asyncio, os, sys
from pathlib import Path
from interlock.infra.errors import ToolError
from interlock.sandbox.changes import FileChanges, Origin
from interlock.sandbox.folders import refuse_protected_inside
from interlock.sandbox.kept import KeptVersions
from interlock.sandbox.paths import Access, Territory
from interlock.sandbox.profile import SandboxProfile

root, state = Path(sys.argv[1]), Path(sys.argv[2])
os.setgid(65534); os.setuid(65534)
territory = Territory(SandboxProfile((root,), (root,)))
changes = FileChanges(KeptVersions(state, max_bytes=1 << 20))
for name in ("unreadable", "unwritable", "file"):
    try:
        changes.delete(territory, territory.find(name, Access.write, follow=False),
                       Origin("s", "c", None), lambda: None)
        print(name, "deleted")
    except (ToolError, OSError) as error:
        print(name, "refused")
place = territory.find("unreadable", Access.write, follow=False)
try:
    refuse_protected_inside(territory, place, moved_to=place)
except ToolError as error:
    print("move refused")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="it takes root to become somebody else")
async def test_what_cannot_be_read_or_removed_wholly_stays_whole(workbench: Workbench, tmp_path_factory):
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


async def test_of_many_who_delete_one_file_only_one_succeeds(workbench: Workbench):
    workbench.write("f", "x")
    calls = [workbench.call("delete_file", path="f") for _ in range(8)]
    assert [result.ok for result in await asyncio.gather(*calls)].count(True) == 1
    assert len(list(workbench.kept.entries(workbench.session_id))) == 1


async def test_too_much_to_keep_is_deleted_and_told(workbench: Workbench):
    workbench.kept._max_bytes = 64 * 1024
    workbench.write("big", "x" * 100_000)
    workbench.write("d/big", "x" * 100_000)
    for arguments in ({"path": "big"}, {"path": "d", "recursive": True}):
        result = await workbench.ok("delete_file", arguments)
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
async def test_odd_arguments_are_refused(workbench: Workbench, arguments):
    workbench.write("f", "x")
    assert await workbench.refused("delete_file", arguments) == "INVALID_ARGS"
    assert tree(workbench.root).keys() == {"f"}


async def test_no_descriptor_stays_open(workbench: Workbench):
    workbench.write("d/e/f", "x")
    await workbench.ok("delete_file", path="d", recursive=True)
    before = open_descriptors()
    for _ in range(3):
        workbench.write("d/e/f", "x")
        workbench.write("f", "x")
        await workbench.refused("delete_file", path="d")
        await workbench.ok("delete_file", path="d", recursive=True)
        await workbench.ok("delete_file", path="f")
        await workbench.refused("delete_file", path="f")
    assert open_descriptors() == before


async def test_a_folder_that_takes_the_place_of_a_file_after_judging_stays(
    workbench: Workbench, monkeypatch
):
    """Nobody said recursive, and what is protected in it was never looked for."""
    file = workbench.write("f", "x")
    work = DeleteFileTool.work

    def late(self, plan, territory, context):
        file.unlink()
        workbench.write("f/.git/config", "precious")
        return work(self, plan, territory, context)

    monkeypatch.setattr(DeleteFileTool, "work", late)
    assert await workbench.refused("delete_file", path="f") == "STALE_READ"
    assert (workbench.root / "f/.git/config").read_text() == "precious"


async def test_what_comes_into_a_folder_while_it_is_deleted_is_not_lost(workbench: Workbench, monkeypatch):
    """It was put aside already when somebody, who had it open, put something into it."""
    workbench.write("folder/old.txt", "old")
    held = os.open(workbench.root / "folder", os.O_RDONLY | os.O_DIRECTORY)
    real = os.rename

    def rename(source, target, **options):
        real(source, target, **options)
        if str(target).endswith(".interlock-old"):
            os.close(os.open("late.txt", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=held))

    monkeypatch.setattr(os, "rename", rename)
    assert await workbench.refused("delete_file", path="folder", recursive=True) == "STALE_READ"
    os.close(held)
    assert sorted(path.name for path in (workbench.root / "folder").iterdir()) == ["late.txt", "old.txt"]
    assert [path.name for path in workbench.root.iterdir()] == ["folder"]
