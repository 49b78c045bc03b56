"""An undo leaves what changed since, and says so."""

import os
import shutil

import pytest

from tests.integration.tools.trees import tree
from tests.integration.tools.undoing import left, rewritten, undo, undone
from tests.integration.workbench import Workbench


async def test_a_file_that_was_changed_since_is_left_with_its_older_changes(workbench: Workbench):
    file = workbench.write("f", "one")
    workbench.write("g", "one")
    for path in ("f", "g"):
        await rewritten(workbench, path, "two")
        await rewritten(workbench, path, "three")
    file.write_text("somebody's")
    report = await undo(workbench)
    assert [outcome.reason for outcome in report.outcomes] == [None, "it was changed since"]
    assert file.read_text() == "somebody's"
    assert (workbench.root / "g").read_text() == "one"
    file.write_text("three")
    await undone(workbench)
    assert file.read_text() == "one"


async def test_what_lies_in_or_above_something_that_was_left_is_left_too(workbench: Workbench):
    workbench.write("d/f", "one")
    await rewritten(workbench, "d/f", "two")
    await workbench.ok("write_file", path="d/n", content="x")
    await workbench.ok("move_file", source="d", destination="e")
    workbench.write("d", "in the way")
    assert left(await undo(workbench)) == {
        "e": "something else is where it came from",
        "d/n": "a later change of it was left",
        "d/f": "a later change of it was left",
    }
    (workbench.root / "d").unlink()
    await undone(workbench)
    assert tree(workbench.root).keys() == {"d", "d/f"}
    assert (workbench.root / "d/f").read_text() == "one"


async def test_every_kind_of_change_is_left_where_something_else_is_now(workbench: Workbench):
    workbench.write("deleted", "x")
    workbench.write("folder/f", "x")
    workbench.write("source", "x")
    workbench.write("replaced", "x")
    (workbench.root / "link").symlink_to("x")
    await workbench.ok("delete_file", path="deleted")
    await workbench.ok("delete_file", path="folder", recursive=True)
    await workbench.ok("delete_file", path="link")
    await workbench.ok("move_file", source="source", destination="moved")
    await workbench.ok("write_file", path="created", content="x")
    await rewritten(workbench, "replaced", "y")
    (workbench.root / "moved").unlink()
    for name in ("deleted", "moved", "created"):
        workbench.write(name, "somebody's")
    workbench.write("folder/g", "somebody's")
    (workbench.root / "link").symlink_to("elsewhere")
    (workbench.root / "replaced").unlink()
    before = tree(workbench.root, times=True)
    assert left(await undo(workbench)) == {
        "deleted": "something else is in its place now",
        "folder": "something else is in its place now",
        "link": "something else is in its place now",
        "moved": "it was changed since",
        "created": "it was changed since",
        "replaced": "it is not there any more",
    }
    assert tree(workbench.root, times=True) == before


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
async def test_a_file_that_became_something_else_is_left(workbench: Workbench, kind):
    await workbench.ok("write_file", path="created", content="x")
    workbench.write("replaced", "x")
    await rewritten(workbench, "replaced", "y")
    for name in ("created", "replaced"):
        path = workbench.root / name
        path.unlink()
        if kind == "folder":
            path.mkdir()
        elif kind == "link":
            path.symlink_to(workbench.outside)
        else:
            os.mkfifo(path)
    before = tree(workbench.root, times=True)
    assert left(await undo(workbench)).keys() == {"created", "replaced"}
    assert tree(workbench.root, times=True) == before


async def test_a_folder_that_was_moved_goes_back_with_what_came_into_it(workbench: Workbench):
    workbench.write("d/f", "one")
    await workbench.ok("move_file", source="d", destination="e")
    workbench.write("e/mine", "x")
    await undone(workbench)
    assert tree(workbench.root).keys() == {"d", "d/f", "d/mine"}


async def test_a_folder_is_left_where_a_later_change_in_it_was_left(workbench: Workbench):
    workbench.write("d/f", "one")
    await workbench.ok("move_file", source="d", destination="e")
    await rewritten(workbench, "e/f", "two")
    (workbench.root / "e/f").write_text("somebody's")
    assert left(await undo(workbench)) == {
        "e/f": "it was changed since",
        "e": "a later change of it was left",
    }
    assert (workbench.root / "e/f").read_text() == "somebody's"


async def test_a_moved_file_that_was_written_in_its_place_is_left(workbench: Workbench):
    """It is the same file to the system, and not what was moved."""
    workbench.write("a", "one")
    await workbench.ok("move_file", source="a", destination="b")
    (workbench.root / "b").write_text("somebody's")
    assert left(await undo(workbench)) == {"b": "it was changed since"}
    assert not (workbench.root / "a").exists()


async def test_a_copy_in_the_old_place_is_left_where_it_is(workbench: Workbench):
    workbench.write("a", "one")
    await workbench.ok("move_file", source="a", destination="b")
    shutil.copy(workbench.root / "b", workbench.root / "a")
    assert left(await undo(workbench)) == {"b": "something else is where it came from"}


async def test_what_somebody_took_back_by_hand_is_done(workbench: Workbench):
    file = workbench.write("f", "one")
    await rewritten(workbench, "f", "two")
    await workbench.ok("write_file", path="n", content="x")
    file.write_text("one")
    (workbench.root / "n").unlink()
    await undone(workbench)
    assert tree(workbench.root).keys() == {"f"}


async def test_what_was_not_kept_is_left(workbench: Workbench):
    workbench.kept._max_bytes = 64 * 1024
    workbench.write("big", "x" * 100_000)
    await workbench.ok("delete_file", path="big")
    assert left(await undo(workbench)) == {"big": "what was there before was not kept"}


async def test_a_damaged_version_is_not_put_in_place(workbench: Workbench):
    file = workbench.write("f", "one")
    workbench.write("g", "one")
    workbench.write("d/f", "one" * 1000)
    await rewritten(workbench, "f", "two")
    await workbench.ok("delete_file", path="g")
    await workbench.ok("delete_file", path="d", recursive=True)
    for entry in workbench.kept.entries(workbench.session_id):
        data = entry.file.read_bytes()
        header, _, content = data.partition(b"\n")
        entry.file.write_bytes(header + b"\n" + content[: len(content) // 2].replace(b"o", b"0"))
    assert set(left(await undo(workbench)).values()) == {"what was kept of it is damaged"}
    assert tree(workbench.root).keys() == {"f"}
    assert file.read_text() == "two"
