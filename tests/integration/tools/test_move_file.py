"""`move_file` on real files (S3-6.1.2, S3-12.4)."""

import asyncio
import os

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.sandbox import changes
from interlock.sandbox.tree import MAX_DEPTH
from tests.integration.tools.mounts import tmpfs
from tests.integration.tools.trees import tree
from tests.integration.workbench import Workbench
from tests.unit.sandbox.conftest import open_descriptors


async def refused(bench: Workbench, source: str, destination: str, **more) -> str:
    """The code of a move that must fail and change nothing, neither inside nor outside."""
    before, outside = tree(bench.root, times=True), bench.outside_state()
    kept = list(bench.kept.entries(bench.session_id))
    code = await bench.refused("move_file", source=source, destination=destination, **more)
    assert tree(bench.root, times=True) == before
    assert bench.outside_state() == outside
    assert list(bench.kept.entries(bench.session_id)) == kept
    return code


def test_move_file_group_and_modes(workbench: Workbench):
    tool = workbench.registry.entry("move_file").tool
    assert tool.group is ToolGroup.code
    assert tool.allowed_modes == {ToolMode.coding}


async def test_a_file_is_renamed(workbench: Workbench):
    file = workbench.write("a", "x")
    was = file.stat().st_ino
    result = await workbench.ok("move_file", source="a", destination="b")
    assert result.stdout == "moved a to b\n"
    assert not file.exists()
    assert (workbench.root / "b").stat().st_ino == was


async def test_the_folders_of_the_new_place_are_made(workbench: Workbench):
    workbench.write("a", "x")
    await workbench.ok("move_file", source="a", destination="d/e/b")
    assert tree(workbench.root).keys() == {"d", "d/e", "d/e/b"}


async def test_a_folder_moves_with_everything_in_it(workbench: Workbench):
    workbench.write("d/e/f", "x")
    (workbench.root / "d/link").symlink_to("/etc/passwd")
    before = tree(workbench.root / "d", times=True)
    await workbench.ok("move_file", source="d", destination="new/d")
    assert tree(workbench.root / "new/d", times=True) == before
    assert not (workbench.root / "d").exists()


async def test_between_two_opened_folders(workbench: Workbench, tmp_path):
    second = tmp_path / "second"
    second.mkdir()
    workbench.roots = (workbench.root, second)
    workbench.write("a", "x")
    await workbench.ok("move_file", source="a", destination=str(second / "d/b"))
    assert (second / "d/b").read_text() == "x"
    await workbench.ok("move_file", source=str(second / "d"), destination="back")
    assert (workbench.root / "back/b").read_text() == "x"


async def test_a_link_is_moved_itself(workbench: Workbench):
    workbench.write("target", "x")
    (workbench.outside / "secret").write_text("s")
    for name, target in (("in", "target"), ("out", str(workbench.outside / "secret")), ("gone", "nowhere")):
        (workbench.root / name).symlink_to(target)
        await workbench.ok("move_file", source=name, destination=f"d/{name}")
        assert str((workbench.root / "d" / name).readlink()) == target
    assert (workbench.root / "target").read_text() == "x"
    assert (workbench.outside / "secret").read_text() == "s"


async def test_a_file_there_is_replaced_only_on_demand(workbench: Workbench):
    workbench.write("a", "new")
    workbench.write("b", "old")
    assert await refused(workbench, "a", "b") == "EXECUTION_ERROR"
    assert await refused(workbench, "a", "b", overwrite=False) == "EXECUTION_ERROR"
    result = await workbench.ok("move_file", source="a", destination="b", overwrite=True)
    assert tree(workbench.root).keys() == {"b"}
    assert (workbench.root / "b").read_text() == "new"
    assert result.meta["can_be_undone"] is True


async def test_what_cannot_be_replaced_is_left(workbench: Workbench):
    workbench.write("a", "x")
    workbench.write("other", "x")
    workbench.write("folder/f", "y")
    (workbench.root / "empty").mkdir()
    (workbench.root / "link").symlink_to("other")
    (workbench.root / "out").symlink_to(workbench.outside)
    os.mkfifo(workbench.root / "pipe")
    for overwrite in (False, True):
        for destination in ("folder", "empty", "link", "out", "pipe"):
            assert await refused(workbench, "a", destination, overwrite=overwrite) == "EXECUTION_ERROR"
        for source in ("folder", "empty"):
            for destination in ("a", "empty" if source == "folder" else "folder"):
                code = await refused(workbench, source, destination, overwrite=overwrite)
                assert code == "EXECUTION_ERROR"
    (workbench.root / "other").chmod(0o444)
    assert await refused(workbench, "a", "other", overwrite=True) == "EXECUTION_ERROR"


async def test_who_names_a_folder_is_told_how_to_move_into_it(workbench: Workbench):
    workbench.write("d/a", "x")
    (workbench.root / "e").mkdir()
    result = await workbench.call("move_file", source="d/a", destination="e")
    assert result.failure.next_action.endswith("e/a")


async def test_two_names_of_one_file_are_not_moved_onto_each_other(workbench: Workbench):
    """The system would do nothing, and say that it was done."""
    (workbench.root / "b").hardlink_to(workbench.write("a", "x"))
    assert await refused(workbench, "a", "b", overwrite=True) == "EXECUTION_ERROR"


async def test_a_folder_does_not_go_into_itself(workbench: Workbench):
    workbench.write("d/e/f", "x")
    (workbench.root / "link").symlink_to("d")
    for destination in ("d/x", "d/e/x", "d/e/f/x", "link/x", "./d/../d/new/x"):
        assert await refused(workbench, "d", destination) == "INVALID_ARGS"
    for destination in ("d", "./d", "d/.", "d/e/..", str(workbench.root / "d")):
        assert await refused(workbench, "d", destination) == "INVALID_ARGS"


async def test_what_is_not_there_cannot_be_moved(workbench: Workbench):
    assert await refused(workbench, "a", "b/c") == "EXECUTION_ERROR"
    assert await refused(workbench, "x/y/a", "b") == "EXECUTION_ERROR"
    workbench.write("f", "")
    assert await refused(workbench, "f/a", "b") == "EXECUTION_ERROR"
    assert await refused(workbench, "f", "f/a") in {"EXECUTION_ERROR", "INVALID_ARGS"}


async def test_nothing_leaves_or_enters_the_opened_folders(workbench: Workbench):
    (workbench.outside / "secret").write_text("s")
    (workbench.outside / "d").mkdir()
    (workbench.root / "out").symlink_to(workbench.outside)
    workbench.write("a", "x")
    outside = str(workbench.outside)
    for destination in (f"{outside}/a", "../outside/a", "out/a", "out/d/a", "out/new/a", "/a", ".."):
        assert await refused(workbench, "a", destination) == "PATH_DENIED"
    for source in (f"{outside}/secret", "out/secret", "../outside/secret", "out/d", outside, "/etc", "/"):
        assert await refused(workbench, source, "b") == "PATH_DENIED"


async def test_an_opened_folder_stays_where_it_is(workbench: Workbench):
    inner = workbench.root / "a/inner"
    inner.mkdir(parents=True)
    workbench.roots = (workbench.root, inner)
    for source in (".", str(workbench.root), "a", "a/inner"):
        result = await workbench.call("move_file", source=source, destination="b")
        assert result.failure.error_code.value == "PATH_DENIED"
        assert "one of the folders that were opened" in result.failure.message
    result = await workbench.call("move_file", source="a", destination="b")
    assert result.failure.message == "a contains one of the folders that were opened"
    workbench.write("f", "x")
    assert await refused(workbench, "f", ".", overwrite=True) == "PATH_DENIED"


async def test_protected_names_are_neither_moved_nor_brought_about(workbench: Workbench):
    workbench.write(".git/hooks/pre-commit", "x")
    workbench.write(".git/config", "x")
    workbench.write("repo/.git/hooks/x", "x")
    workbench.write("repo/src/a", "x")
    workbench.write("evil/hooks/pre-commit", "x")
    workbench.write("evil/config", "x")
    workbench.write("plain", "x")
    for source, destination in (
        (".git", "git"),
        (".git/hooks", "hooks"),
        (".git/config", "config"),
        ("repo", "moved"),
        ("plain", ".git/hooks/post-commit"),
        ("plain", ".mcp.json"),
        ("plain", "sub/.vscode/settings.json"),
        ("evil", "new/.git"),
        ("evil", "repo/.git"),
        ("evil/hooks", ".git/hooks"),
        ("evil/hooks", "new/.git/hooks"),
        ("evil/config", "new/.GIT/config"),
    ):
        assert await refused(workbench, source, destination, overwrite=True) == "PATH_DENIED"


async def test_a_folder_that_brings_a_protected_name_under_its_new_name(workbench: Workbench):
    """`a/hooks` is nothing special until `a` becomes `.git`; nor is `x/.git` until it has hooks."""
    workbench.write("outer/inner/hooks/x", "x")
    assert await refused(workbench, "outer/inner", "outer/.git") == "PATH_DENIED"


async def test_what_cannot_be_looked_through_is_not_moved(workbench: Workbench):
    deep = workbench.root / "deep"
    deep.mkdir()
    folder = os.open(deep, os.O_RDONLY)
    for _ in range(MAX_DEPTH + 2):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    result = await workbench.call("move_file", source="deep", destination="new")
    assert "too deep" in result.failure.message
    assert deep.exists()


async def test_across_file_systems_it_is_refused_and_nothing_stays_behind(workbench: Workbench):
    workbench.write("a", "x")
    workbench.write("d/f", "x")
    with tmpfs(workbench.root / "mounted", "1m"):
        workbench.write("mounted/there", "y")
        for source in ("a", "d"):
            for destination in ("mounted/b", "mounted/new/deep/b"):
                result = await workbench.call("move_file", source=source, destination=destination)
                assert result.failure.error_code.value == "EXECUTION_ERROR"
                assert "another file system" in result.failure.message
        assert await refused(workbench, "a", "mounted/there", overwrite=True) == "EXECUTION_ERROR"
        assert await refused(workbench, "mounted", "elsewhere")
        assert [path.name for path in (workbench.root / "mounted").iterdir()] == ["there"]


async def test_what_appears_at_the_destination_in_between_is_not_replaced(
    workbench: Workbench, monkeypatch
):
    workbench.write("a", "mine")
    workbench.write("old", "old")
    real = changes._rename

    def late(territory, old, destination, **more):
        destination.path.write_text("somebody's")
        return real(territory, old, destination, **more)

    monkeypatch.setattr(changes, "_rename", late)
    assert await workbench.refused("move_file", source="a", destination="b") == "EXECUTION_ERROR"
    assert (workbench.root / "b").read_text() == "somebody's"
    move = {"source": "a", "destination": "old", "overwrite": True}
    assert await workbench.refused("move_file", move) == "STALE_READ"
    assert (workbench.root / "old").read_text() == "somebody's"
    assert (workbench.root / "a").read_text() == "mine"
    assert not list(workbench.kept.entries(workbench.session_id))


async def test_of_many_who_move_one_file_only_one_succeeds(workbench: Workbench):
    workbench.write("a", "x")
    calls = [workbench.call("move_file", source="a", destination=f"d{n}/b") for n in range(8)]
    done = [result.ok for result in await asyncio.gather(*calls)]
    assert done.count(True) == 1
    assert [path.name for path in workbench.root.iterdir()] == [f"d{done.index(True)}"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"source": "a"},
        {"destination": "b"},
        {"source": "a", "destination": 5},
        {"source": "a", "destination": "b", "overwrite": "true"},
        {"source": "a", "destination": "b", "overwrite": 1},
        {"source": "a", "destination": "b", "force": True},
        {"source": "a", "destination": ""},
        {"source": "a", "destination": "b\0"},
    ],
)
async def test_odd_arguments_are_refused(workbench: Workbench, arguments):
    workbench.write("a", "x")
    assert await workbench.refused("move_file", arguments) == "INVALID_ARGS"
    assert tree(workbench.root).keys() == {"a"}


async def test_no_descriptor_stays_open(workbench: Workbench):
    workbench.write("a", "x")
    workbench.write("z", "x")
    await workbench.ok("move_file", source="a", destination="d/b")
    before = open_descriptors()
    for _ in range(3):
        await workbench.ok("move_file", source="d", destination="e/d")
        await workbench.ok("move_file", source="e/d", destination="d")
        await workbench.refused("move_file", source="d", destination="d/x")
        await workbench.refused("move_file", source="missing", destination="x")
        await workbench.refused("move_file", source="d/b", destination="z/x")
    assert open_descriptors() == before
