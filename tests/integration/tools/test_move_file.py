"""`move_file` on real files (S3-6.1.2, S3-12.4)."""

import asyncio
import os

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.sandbox import file_changer
from interlock.sandbox.directory_walk import MAX_DEPTH
from tests.harness.tool_calls import ToolHarness
from tests.integration.tools.mounts import tmpfs
from tests.integration.tools.trees import tree
from tests.unit.sandbox.conftest import open_descriptors


async def refused(make_harness: ToolHarness, source: str, destination: str, **more) -> str:
    """The code of a move that must fail and change nothing, neither inside nor outside."""
    before, outside = tree(make_harness.root, times=True), make_harness.outside_state()
    kept = list(make_harness.kept.entries(make_harness.session_id))
    code = await make_harness.refused("move_file", source=source, destination=destination, **more)
    assert tree(make_harness.root, times=True) == before
    assert make_harness.outside_state() == outside
    assert list(make_harness.kept.entries(make_harness.session_id)) == kept
    return code


def test_move_file_group_and_modes(harness: ToolHarness):
    tool = harness.registry.entry("move_file").tool
    assert tool.group is ToolGroup.code
    assert tool.allowed_modes == {ToolMode.coding}


async def test_a_file_is_renamed(harness: ToolHarness):
    file = harness.write("a", "x")
    was = file.stat().st_ino
    result = await harness.ok("move_file", source="a", destination="b")
    assert result.stdout == "moved a to b\n"
    assert not file.exists()
    assert (harness.root / "b").stat().st_ino == was


async def test_the_folders_of_the_new_place_are_made(harness: ToolHarness):
    harness.write("a", "x")
    await harness.ok("move_file", source="a", destination="d/e/b")
    assert tree(harness.root).keys() == {"d", "d/e", "d/e/b"}


async def test_a_folder_moves_with_everything_in_it(harness: ToolHarness):
    harness.write("d/e/f", "x")
    (harness.root / "d/link").symlink_to("/etc/passwd")
    before = tree(harness.root / "d", times=True)
    await harness.ok("move_file", source="d", destination="new/d")
    assert tree(harness.root / "new/d", times=True) == before
    assert not (harness.root / "d").exists()


async def test_between_two_opened_folders(harness: ToolHarness, tmp_path):
    second = tmp_path / "second"
    second.mkdir()
    harness.roots = (harness.root, second)
    harness.write("a", "x")
    await harness.ok("move_file", source="a", destination=str(second / "d/b"))
    assert (second / "d/b").read_text() == "x"
    await harness.ok("move_file", source=str(second / "d"), destination="back")
    assert (harness.root / "back/b").read_text() == "x"


async def test_a_link_is_moved_itself(harness: ToolHarness):
    harness.write("target", "x")
    (harness.outside / "secret").write_text("s")
    for name, target in (("in", "target"), ("out", str(harness.outside / "secret")), ("gone", "nowhere")):
        (harness.root / name).symlink_to(target)
        await harness.ok("move_file", source=name, destination=f"d/{name}")
        assert str((harness.root / "d" / name).readlink()) == target
    assert (harness.root / "target").read_text() == "x"
    assert (harness.outside / "secret").read_text() == "s"


async def test_a_file_there_is_replaced_only_on_demand(harness: ToolHarness):
    harness.write("a", "new")
    harness.write("b", "old")
    assert await refused(harness, "a", "b") == "EXECUTION_ERROR"
    assert await refused(harness, "a", "b", overwrite=False) == "EXECUTION_ERROR"
    result = await harness.ok("move_file", source="a", destination="b", overwrite=True)
    assert tree(harness.root).keys() == {"b"}
    assert (harness.root / "b").read_text() == "new"
    assert result.meta["can_be_undone"] is True


async def test_what_cannot_be_replaced_is_left(harness: ToolHarness):
    harness.write("a", "x")
    harness.write("other", "x")
    harness.write("folder/f", "y")
    (harness.root / "empty").mkdir()
    (harness.root / "link").symlink_to("other")
    (harness.root / "out").symlink_to(harness.outside)
    os.mkfifo(harness.root / "pipe")
    for overwrite in (False, True):
        for destination in ("folder", "empty", "link", "out", "pipe"):
            assert await refused(harness, "a", destination, overwrite=overwrite) == "EXECUTION_ERROR"
        for source in ("folder", "empty"):
            for destination in ("a", "empty" if source == "folder" else "folder"):
                code = await refused(harness, source, destination, overwrite=overwrite)
                assert code == "EXECUTION_ERROR"
    (harness.root / "other").chmod(0o444)
    assert await refused(harness, "a", "other", overwrite=True) == "EXECUTION_ERROR"


async def test_who_names_a_folder_is_told_how_to_move_into_it(harness: ToolHarness):
    harness.write("d/a", "x")
    (harness.root / "e").mkdir()
    result = await harness.call("move_file", source="d/a", destination="e")
    assert result.failure.next_action.endswith("e/a")


async def test_two_names_of_one_file_are_not_moved_onto_each_other(harness: ToolHarness):
    """The system would do nothing, and say that it was done."""
    (harness.root / "b").hardlink_to(harness.write("a", "x"))
    assert await refused(harness, "a", "b", overwrite=True) == "EXECUTION_ERROR"


async def test_a_folder_does_not_go_into_itself(harness: ToolHarness):
    harness.write("d/e/f", "x")
    (harness.root / "link").symlink_to("d")
    for destination in ("d/x", "d/e/x", "d/e/f/x", "link/x", "./d/../d/new/x"):
        assert await refused(harness, "d", destination) == "INVALID_ARGS"
    for destination in ("d", "./d", "d/.", "d/e/..", str(harness.root / "d")):
        assert await refused(harness, "d", destination) == "INVALID_ARGS"


async def test_what_is_not_there_cannot_be_moved(harness: ToolHarness):
    assert await refused(harness, "a", "b/c") == "EXECUTION_ERROR"
    assert await refused(harness, "x/y/a", "b") == "EXECUTION_ERROR"
    harness.write("f", "")
    assert await refused(harness, "f/a", "b") == "EXECUTION_ERROR"
    assert await refused(harness, "f", "f/a") in {"EXECUTION_ERROR", "INVALID_ARGS"}


async def test_nothing_leaves_or_enters_the_opened_folders(harness: ToolHarness):
    (harness.outside / "secret").write_text("s")
    (harness.outside / "d").mkdir()
    (harness.root / "out").symlink_to(harness.outside)
    harness.write("a", "x")
    outside = str(harness.outside)
    for destination in (f"{outside}/a", "../outside/a", "out/a", "out/d/a", "out/new/a", "/a", ".."):
        assert await refused(harness, "a", destination) == "PATH_DENIED"
    for source in (f"{outside}/secret", "out/secret", "../outside/secret", "out/d", outside, "/etc", "/"):
        assert await refused(harness, source, "b") == "PATH_DENIED"


async def test_an_opened_folder_stays_where_it_is(harness: ToolHarness):
    inner = harness.root / "a/inner"
    inner.mkdir(parents=True)
    harness.roots = (harness.root, inner)
    for source in (".", str(harness.root), "a", "a/inner"):
        result = await harness.call("move_file", source=source, destination="b")
        assert result.failure.error_code.value == "PATH_DENIED"
        assert "an opened folder" in result.failure.message
    result = await harness.call("move_file", source="a", destination="b")
    assert result.failure.message == "a contains an opened folder"
    harness.write("f", "x")
    assert await refused(harness, "f", ".", overwrite=True) == "PATH_DENIED"


async def test_protected_names_are_neither_moved_nor_brought_about(harness: ToolHarness):
    harness.write(".git/hooks/pre-commit", "x")
    harness.write(".git/config", "x")
    harness.write("repo/.git/hooks/x", "x")
    harness.write("repo/src/a", "x")
    harness.write("evil/hooks/pre-commit", "x")
    harness.write("evil/config", "x")
    harness.write("plain", "x")
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
        assert await refused(harness, source, destination, overwrite=True) == "PATH_DENIED"


async def test_a_folder_that_brings_a_protected_name_under_its_new_name(harness: ToolHarness):
    """`a/hooks` is nothing special until `a` becomes `.git`; nor is `x/.git` until it has hooks."""
    harness.write("outer/inner/hooks/x", "x")
    assert await refused(harness, "outer/inner", "outer/.git") == "PATH_DENIED"


async def test_what_cannot_be_looked_through_is_not_moved(harness: ToolHarness):
    deep = harness.root / "deep"
    deep.mkdir()
    folder = os.open(deep, os.O_RDONLY)
    for _ in range(MAX_DEPTH + 2):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    result = await harness.call("move_file", source="deep", destination="new")
    assert "too deep" in result.failure.message
    assert deep.exists()


async def test_across_file_systems_it_is_refused_and_nothing_stays_behind(harness: ToolHarness):
    harness.write("a", "x")
    harness.write("d/f", "x")
    with tmpfs(harness.root / "mounted", "1m"):
        harness.write("mounted/there", "y")
        for source in ("a", "d"):
            for destination in ("mounted/b", "mounted/new/deep/b"):
                result = await harness.call("move_file", source=source, destination=destination)
                assert result.failure.error_code.value == "EXECUTION_ERROR"
                assert "another file system" in result.failure.message
        assert await refused(harness, "a", "mounted/there", overwrite=True) == "EXECUTION_ERROR"
        assert await refused(harness, "mounted", "elsewhere")
        assert [path.name for path in (harness.root / "mounted").iterdir()] == ["there"]


async def test_what_appears_at_the_destination_in_between_is_not_replaced(
    harness: ToolHarness, monkeypatch
):
    harness.write("a", "mine")
    harness.write("old", "old")
    real = file_changer._rename

    def late(resolver, old, destination, **more):
        destination.path.write_text("somebody's")
        return real(resolver, old, destination, **more)

    monkeypatch.setattr(file_changer, "_rename", late)
    assert await harness.refused("move_file", source="a", destination="b") == "EXECUTION_ERROR"
    assert (harness.root / "b").read_text() == "somebody's"
    move = {"source": "a", "destination": "old", "overwrite": True}
    assert await harness.refused("move_file", move) == "STALE_READ"
    assert (harness.root / "old").read_text() == "somebody's"
    assert (harness.root / "a").read_text() == "mine"
    assert not list(harness.kept.entries(harness.session_id))


async def test_of_many_who_move_one_file_only_one_succeeds(harness: ToolHarness):
    harness.write("a", "x")
    calls = [harness.call("move_file", source="a", destination=f"d{n}/b") for n in range(8)]
    done = [result.ok for result in await asyncio.gather(*calls)]
    assert done.count(True) == 1
    assert [path.name for path in harness.root.iterdir()] == [f"d{done.index(True)}"]


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
async def test_odd_arguments_are_refused(harness: ToolHarness, arguments):
    harness.write("a", "x")
    assert await harness.refused("move_file", arguments) == "INVALID_ARGS"
    assert tree(harness.root).keys() == {"a"}


async def test_no_descriptor_stays_open(harness: ToolHarness):
    harness.write("a", "x")
    harness.write("z", "x")
    await harness.ok("move_file", source="a", destination="d/b")
    before = open_descriptors()
    for _ in range(3):
        await harness.ok("move_file", source="d", destination="e/d")
        await harness.ok("move_file", source="e/d", destination="d")
        await harness.refused("move_file", source="d", destination="d/x")
        await harness.refused("move_file", source="missing", destination="x")
        await harness.refused("move_file", source="d/b", destination="z/x")
    assert open_descriptors() == before
